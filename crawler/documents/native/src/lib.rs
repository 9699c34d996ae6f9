//! Reads a page for courtly: its links with their canonical URLs, its title and meta elements.
//!
//! The result is exactly that of the reader in Python (`crawler/documents`), which tests compare,
//! or None: then Python reads the page. Python's lock is released meanwhile.

#![forbid(unsafe_code)]

mod address;
mod attributes;
mod bytes;
mod collect;
mod cost;
mod foreign;
mod page;
mod paragraphs;
mod passed;
mod raw_text;
mod references;
mod resolve;
mod rows;
mod seen;
mod structure;
mod tables;
mod tags;
mod tangled;
mod words;

use pyo3::prelude::*;

/// The Python module.
#[pymodule]
mod courtly_native {
    #[pymodule_export]
    use crate::page::{Page, Reader};
    #[pymodule_export]
    use crate::seen::SeenLinks;

    /// The version, which must be that of courtly.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
