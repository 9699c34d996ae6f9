//! Whether the tree of a page could take too long to build. Ported from `is_tangled` in
//! `nesting.py`: true where that is, and perhaps where it is not.

use memchr::memchr_iter;

use crate::bytes::{Markup, ends_name, is_space};
use crate::structure::Structure;

const TAGS_SAFE: usize = 800;
const TREE_TAGS_MAX: usize = 300_000;
const BYTES_SAFE: usize = 65_536;
const ATTRIBUTES_MAX: usize = 100;
const COPIED_BYTES_MAX: usize = 500_000;

/// Whether a page may have a tag with too many attributes, or much to copy. On a small page, all
/// that looks like a tag counts as one.
pub fn may_be_tangled(text: &[u8]) -> bool {
    let markup = Markup { text };
    let tags = memchr_iter(b'<', text).count();
    let is_too_much = || Structure::cost(text).is_none_or(|cost| cost.is_too_much(text));
    if tags > TAGS_SAFE || text.len() > BYTES_SAFE {
        return tags > TREE_TAGS_MAX || is_too_much();
    }
    let mut copied = 0;
    for start in memchr_iter(b'<', text) {
        if !markup.at(start + 1).is_some_and(|byte| byte.is_ascii_alphabetic()) {
            continue;
        }
        let name_end = markup.skip(start + 1, |byte| !ends_name(byte));
        let (count, end) = attributes(markup, name_end);
        if count > ATTRIBUTES_MAX {
            return true;
        }
        if is_formatting(&text[start + 1..name_end]) {
            copied += end - start;
        }
    }
    copied * tags > COPIED_BYTES_MAX && is_too_much()
}

pub fn has_many_attributes(markup: Markup, name_end: usize) -> bool {
    attributes(markup, name_end).0 > ATTRIBUTES_MAX
}

/// The number of attributes of a tag, and where they end.
fn attributes(markup: Markup, name_end: usize) -> (usize, usize) {
    let mut at = name_end;
    for count in 0..=ATTRIBUTES_MAX {
        let start = markup.skip(at, |byte| is_space(byte) || byte == b'/');
        if start >= markup.text.len() || markup.is(start, b'>') {
            return (count, start);
        }
        at = markup.attribute(start).unwrap_or(markup.text.len());
    }
    (ATTRIBUTES_MAX + 1, at)
}

pub fn is_formatting(name: &[u8]) -> bool {
    const NAMES: [&str; 13] = [
        "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
    ];
    NAMES.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}
