//! Classes of bytes and steps over them. All delimiters of markup are ASCII, so UTF-8 is read
//! byte by byte.

use memchr::memchr;

/// Whether a byte is white space in HTML, which has no vertical tab.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Whether a byte ends the name of a tag.
pub fn ends_name(byte: u8) -> bool {
    is_space(byte) || byte == b'/' || byte == b'>'
}

/// The markup of a page with what can be asked about a place in it. Places may be at the end.
#[derive(Clone, Copy)]
pub struct Markup<'a> {
    pub text: &'a [u8],
}

impl<'a> Markup<'a> {
    /// The byte at a place, or None at the end.
    pub fn at(self, place: usize) -> Option<u8> {
        self.text.get(place).copied()
    }

    pub fn is(self, place: usize, byte: u8) -> bool {
        self.at(place) == Some(byte)
    }

    pub fn starts(self, place: usize, with: &[u8]) -> bool {
        self.rest(place).starts_with(with)
    }

    /// The same, ignoring the case of ASCII letters.
    pub fn starts_in_any_case(self, place: usize, with: &[u8]) -> bool {
        self.rest(place).get(..with.len()).is_some_and(|found| found.eq_ignore_ascii_case(with))
    }

    pub fn rest(self, place: usize) -> &'a [u8] {
        self.text.get(place..).unwrap_or_default()
    }

    /// The next place of a byte, or the end.
    pub fn find(self, byte: u8, from: usize) -> usize {
        memchr(byte, self.rest(from)).map_or(self.text.len(), |offset| from + offset)
    }

    /// The place after bytes that all satisfy a condition.
    pub fn skip(self, from: usize, condition: impl Fn(u8) -> bool) -> usize {
        let rest = self.rest(from);
        from + rest.iter().position(|&byte| !condition(byte)).unwrap_or(rest.len())
    }

    pub fn skip_space(self, from: usize) -> usize {
        self.skip(from, is_space)
    }

    /// The place after a name of a tag, if a delimiter follows it.
    pub fn name_end(self, from: usize) -> Option<usize> {
        let end = self.skip(from, |byte| !ends_name(byte));
        (end < self.text.len()).then_some(end)
    }

    /// The name of a tag that begins here, and the place after it, if a delimiter follows it.
    pub fn name(self, from: usize) -> Option<(&'a [u8], usize)> {
        self.name_end(from).map(|end| (&self.text[from..end], end))
    }
}
