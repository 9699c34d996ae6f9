//! The grammar of URLs that are canonical as they are written. Ported from `_LINES` in
//! `policies/url.py`, which explains it.

use std::borrow::Cow;

/// How an href in canonical form becomes a URL. The rest has no fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Href<'a> {
    /// It is a whole URL.
    Absolute(&'a str),
    /// After "/", relative to the origin.
    Rooted(&'a str),
    /// After "//", relative to the scheme.
    Schemeless(&'a str),
    /// Relative to the directory as many levels up.
    Relative { steps: usize, rest: &'a str },
    /// A fragment: the page itself.
    Fragment,
}

/// Characters of a path, and of a query. The letters and digits belong to both.
const PATH: &[u8] = b"-_~!$&'()*+,;=@|[]";
const QUERY: &[u8] = b"-_~!$&()*+,;=@|[].:/?";

const IN_PATH: u8 = 1;
const IN_QUERY: u8 = 2;
/// What follows the first character of a path: "." and "/" as well.
const IN_REST: u8 = 4;

const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = IN_PATH | IN_QUERY | IN_REST;
        }
        byte += 1;
    }
    let mut place = 0;
    while place < PATH.len() {
        table[PATH[place] as usize] |= IN_PATH | IN_REST;
        place += 1;
    }
    place = 0;
    while place < QUERY.len() {
        table[QUERY[place] as usize] |= IN_QUERY;
        place += 1;
    }
    table[b'.' as usize] |= IN_REST;
    table[b'/' as usize] |= IN_REST;
    table
}

/// How an href is resolved; None if it is not in the grammar.
pub fn parse(href: &str) -> Option<Href<'_>> {
    let bytes = href.as_bytes();
    match bytes.first()? {
        b'#' => Some(Href::Fragment),
        b'/' if bytes.get(1) == Some(&b'/') => {
            let path = authority_end(bytes, 2).filter(|&end| bytes.get(end) == Some(&b'/'))?;
            let end = tail_end(bytes, path, true)?;
            Some(Href::Schemeless(&href[2..end]))
        }
        b'/' => tail_end(bytes, 1, true).map(|end| Href::Rooted(&href[1..end])),
        b'.' if bytes.starts_with(b"../") => {
            let steps = bytes.chunks(3).take_while(|&step| step == b"../").count();
            let rest = 3 * steps;
            let end = tail_end(bytes, rest, true)?;
            Some(Href::Relative { steps, rest: &href[rest..end] })
        }
        b'h' if bytes.starts_with(b"http://") || bytes.starts_with(b"https://") => {
            let host = if bytes[4] == b's' { 8 } else { 7 };
            let path = authority_end(bytes, host).filter(|&end| bytes.get(end) == Some(&b'/'))?;
            tail_end(bytes, path, true).map(|end| Href::Absolute(&href[..end]))
        }
        _ => {
            let first = if bytes.starts_with(b"./") { 2 } else { character(bytes, 0, IN_PATH)? };
            let end = tail_end(bytes, first, false)?;
            Some(Href::Relative { steps: 0, rest: &href[..end] })
        }
    }
}

/// Whether an href has a scheme other than HTTP and HTTPS: `_FOREIGN`.
pub fn is_foreign(href: &str) -> bool {
    let bytes = href.as_bytes();
    let name = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-'))
        .count();
    let scheme = &bytes[..name];
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.get(name) == Some(&b':')
        && !scheme.eq_ignore_ascii_case(b"http")
        && !scheme.eq_ignore_ascii_case(b"https")
}

/// The place after one character of a class, or an escape.
fn character(bytes: &[u8], at: usize, class: u8) -> Option<usize> {
    match bytes.get(at)? {
        b'%' => is_escape(bytes.get(at + 1..at + 3)?).then_some(at + 3),
        &byte => (CLASSES[byte as usize] & class != 0).then_some(at + 1),
    }
}

/// `_ESCAPE`, after the "%": an escape in upper case of a character that needs one.
fn is_escape(digits: &[u8]) -> bool {
    let is_upper_hex = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let &[high, low] = digits else { return false };
    match high {
        b'0' | b'1' | b'8' | b'9' | b'A'..=b'F' => is_upper_hex(low),
        b'2' => is_upper_hex(low) && low != b'D' && low != b'E',
        b'3' => (b'A'..=b'F').contains(&low),
        b'4' | b'6' => low == b'0',
        b'5' => (b'B'..=b'E').contains(&low),
        b'7' => (b'B'..=b'D').contains(&low) || low == b'F',
        _ => false,
    }
}

/// The end of a path and an optional query, where the href or its fragment must begin to end.
///
/// colons: whether the path may contain them.
fn tail_end(bytes: &[u8], from: usize, colons: bool) -> Option<usize> {
    let mut at = from;
    loop {
        if let Some(end) = character(bytes, at, IN_REST) {
            at = end;
        } else if colons && bytes.get(at) == Some(&b':') {
            at += 1;
        } else {
            break;
        }
    }
    if bytes.get(at) == Some(&b'?') {
        at = character(bytes, at + 1, IN_QUERY)?;
        while let Some(end) = character(bytes, at, IN_QUERY) {
            at = end;
        }
    }
    match bytes.get(at) {
        // A fragment with a newline is left to the parser, as in the expression.
        Some(b'#') => (!bytes[at..].contains(&b'\n')).then_some(at),
        Some(_) => None,
        None => Some(at),
    }
}

/// `_AUTHORITY`: the place after a host in canonical form and an optional port.
fn authority_end(bytes: &[u8], from: usize) -> Option<usize> {
    let end = host_end(bytes, from)?;
    if bytes.get(end) != Some(&b':') {
        return Some(end);
    }
    let digits = bytes[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let port = std::str::from_utf8(&bytes[end + 1..end + 1 + digits]).ok()?;
    let number: u16 = port.parse().ok()?; // at most 65,535
    let canonical = !port.starts_with('0') && number != 80 && number != 443;
    canonical.then_some(end + 1 + digits)
}

/// `_HOST_NAME`
fn host_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut numbers = 0; // labels that are a number of an IPv4 address
    let mut labels = 0;
    loop {
        let end = label_end(bytes, at)?;
        let label = &bytes[at..end];
        labels += 1;
        numbers += usize::from(is_byte(label));
        if bytes.get(end) == Some(&b'.') {
            at = end + 1;
            continue;
        }
        let is_name = label[0].is_ascii_lowercase();
        let is_address = labels == 4 && numbers == 4;
        return (is_name || is_address).then_some(end);
    }
}

/// The place after lower-case letters and digits with single hyphens between them.
fn label_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        let length = rest
            .iter()
            .take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            .count();
        if length == 0 {
            return None;
        }
        at += length;
        if bytes.get(at) != Some(&b'-') {
            return Some(at);
        }
        at += 1;
    }
}

/// `_BYTE`: a decimal number up to 255 without leading zeros.
fn is_byte(label: &[u8]) -> bool {
    let canonical = label.len() == 1 || label[0] != b'0';
    canonical && std::str::from_utf8(label).is_ok_and(|text| text.parse::<u8>().is_ok())
}

/// Resolve the segments "." and ".." of a URL that is canonical otherwise.
pub fn without_dots(url: &str) -> Cow<'_, str> {
    if !url.contains("/.") {
        return Cow::Borrowed(url);
    }
    let path_at = url[8..].find('/').map_or(url.len(), |offset| 8 + offset + 1);
    let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for segment in path[path_at..].split('/') {
        last = segment;
        match segment {
            ".." => drop(kept.pop()),
            "." => {}
            _ => kept.push(segment),
        }
    }
    if last == "." || last == ".." {
        kept.push("");
    }
    Cow::Owned(format!("{}{}{}", &url[..path_at], kept.join("/"), query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_hrefs_are_recognised() {
        let relative = |steps, rest| Some(Href::Relative { steps, rest });
        for (href, expected) in [
            ("http://a.test/b?c#d", Some(Href::Absolute("http://a.test/b?c"))),
            ("http://a.test:65535/", Some(Href::Absolute("http://a.test:65535/"))),
            ("https://1.2.3.255/", Some(Href::Absolute("https://1.2.3.255/"))),
            ("/b/../c", Some(Href::Rooted("b/../c"))),
            ("//a.test/b", Some(Href::Schemeless("a.test/b"))),
            ("../../b:c", relative(2, "b:c")),
            ("./b", relative(0, "./b")),
            ("b%20c", relative(0, "b%20c")),
            ("#b", Some(Href::Fragment)),
        ] {
            assert_eq!(parse(href), expected, "{href}");
        }
    }

    #[test]
    fn all_others_are_left_to_the_parser() {
        for href in [
            "",
            "?a",
            "a?",
            "a b",
            "a:b",
            ".",
            "..",
            ".a",
            "http://a.test",
            "http://A.test/",
            "http://a.test:80/",
            "http://a.test:65536/",
            "http://a.test:08/",
            "http://1.2.3.256/",
            "http://1.2.3/",
            "http://a--b.test/",
            "http://-a.test/",
            "http://a.test./",
            "//a.test",
            "http://a.test:/",
            "%7E",
            "%e4",
            "%2",
            "ä",
            "a\nb",
            "a#\n",
            "http://u@a.test/",
        ] {
            assert_eq!(parse(href), None, "{href}");
        }
    }

    #[test]
    fn dots_are_resolved() {
        for (url, expected) in [
            ("http://a.test/b/../c", "http://a.test/c"),
            ("http://a.test/../../c/.", "http://a.test/c/"),
            ("http://a.test/b/..?/../d", "http://a.test/?/../d"),
            ("http://a.test/.b/...", "http://a.test/.b/..."),
        ] {
            assert_eq!(without_dots(url), expected);
        }
    }
}
