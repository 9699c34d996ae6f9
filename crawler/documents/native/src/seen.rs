//! A bounded memory of links met lately. Ported from `crawler/processing/seen_links.py`.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use pyo3::prelude::*;

/// Takes a key as its own hash, because keys are hashes.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The minimum depth at which each URL was found, by hash.
type Depths = HashMap<u64, i64, BuildHasherDefault<Itself>>;

/// The links met lately, in two generations.
#[pyclass(module = "courtly_native")]
pub struct SeenLinks {
    half: usize,
    young: Depths,
    old: Depths,
    secret: RandomState,
}

#[pymethods]
impl SeenLinks {
    #[classattr]
    #[pyo3(name = "native")]
    const NATIVE: bool = true;

    #[new]
    fn new(kept: usize) -> Self {
        SeenLinks {
            half: (kept / 2).max(1),
            young: Depths::default(),
            old: Depths::default(),
            secret: RandomState::new(),
        }
    }

    /// Forget all.
    fn clear(&mut self) {
        self.young = Depths::default();
        self.old = Depths::default();
    }

    /// Whether a link is new, which it is no longer then.
    #[pyo3(name = "new")]
    pub fn is_new(&mut self, url: &str, depth: i64) -> bool {
        let key = self.secret.hash_one(url);
        let known = self.young.get(&key).is_some_and(|&known| known <= depth);
        if known {
            return false;
        }
        let older = self.old.get(&key).copied().unwrap_or(i64::MAX);
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, older.min(depth));
        older > depth
    }

    /// Whether a link is no longer new.
    fn knows(&self, url: &str, depth: i64) -> bool {
        let key = self.secret.hash_one(url);
        let found = |depths: &Depths| depths.get(&key).is_some_and(|&known| known <= depth);
        found(&self.young) || found(&self.old)
    }

    /// Those of some links that are new, which they are no longer then.
    fn fresh(&mut self, urls: Vec<String>, depth: i64) -> Vec<String> {
        urls.into_iter().filter(|url| self.is_new(url, depth)).collect()
    }

    fn __len__(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
