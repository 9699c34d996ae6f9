//! The rest of a tag after its name: attributes and the closing `>`.
//!
//! Each function reads what the expression of the same name in `scan.py` matches, and returns the
//! place after it, or None if it does not match.

use crate::bytes::{Markup, is_space};

/// Attributes and runs of white space in one tag.
const ATTRIBUTES_MAX: usize = 1_000;

impl Markup<'_> {
    /// `_REST`: everything up to and including the `>`.
    pub fn tag_rest(self, from: usize) -> Option<usize> {
        if self.is(from, b'>') {
            return Some(from + 1);
        }
        let mut at = from;
        while let Some(end) = self.plain_attribute(at) {
            at = end;
        }
        at = self.attributes(at);
        self.is(at, b'>').then_some(at + 1)
    }

    /// `_ENDS` and `_REST`, after a fixed name.
    pub fn ended_tag_rest(self, from: usize) -> Option<usize> {
        self.at(from).filter(|&byte| crate::bytes::ends_name(byte))?;
        self.tag_rest(from)
    }

    /// `_PLAIN_ATTRIBUTE`: the most common form, with quotes.
    fn plain_attribute(self, from: usize) -> Option<usize> {
        self.at(from).filter(|&byte| byte == b' ' || byte == b'\n')?;
        self.at(from + 1).filter(u8::is_ascii_lowercase)?;
        let equals = self.skip(from + 2, is_plain_name);
        if !self.is(equals, b'=') {
            return None;
        }
        self.quoted(equals + 1)
    }

    /// A quoted value, also an empty one.
    pub fn quoted(self, from: usize) -> Option<usize> {
        let quote = self.at(from).filter(|&byte| byte == b'"' || byte == b'\'')?;
        let end = self.find(quote, from + 1);
        (end < self.text.len()).then_some(end + 1)
    }

    /// `_ATTRIBUTES`, which may be empty.
    pub fn attributes(self, from: usize) -> usize {
        let mut at = from;
        for _ in 0..ATTRIBUTES_MAX {
            let end = self.skip(at, |byte| is_space(byte) || byte == b'/');
            if end > at {
                at = end;
            } else if let Some(end) = self.attribute(at) {
                at = end;
            } else {
                break;
            }
        }
        at
    }

    /// `_ATTRIBUTE`: without a value, or with a complete one.
    pub fn attribute(self, from: usize) -> Option<usize> {
        let name_end = self.attribute_name(from)?;
        let equals = self.skip_space(name_end);
        if !self.is(equals, b'=') {
            return Some(name_end);
        }
        let value = self.skip_space(equals + 1);
        match self.at(value)? {
            b'"' | b'\'' => self.quoted(value),
            b'>' => Some(value),
            _ => Some(self.bare(value)),
        }
    }

    /// The place after the name of an attribute, which may begin with "=".
    pub fn attribute_name(self, from: usize) -> Option<usize> {
        let ends = crate::bytes::ends_name;
        self.at(from).filter(|&byte| !ends(byte))?;
        Some(self.skip(from + 1, |byte| !ends(byte) && byte != b'='))
    }

    /// The place after a value without quotes.
    pub fn bare(self, from: usize) -> usize {
        self.skip(from, |byte| !is_space(byte) && byte != b'>')
    }
}

/// Whether a byte occurs in the name of a plain attribute after its first letter.
pub fn is_plain_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
}
