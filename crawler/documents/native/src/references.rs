//! Character references in attribute values. Ported from `unescaped_value` in `markup.py`.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::memchr;

/// Characters by the names of their references, with a semicolon where one is required.
pub type Names = HashMap<String, String>;

/// No name of a reference is longer, by far.
const NAME_MAX: usize = 31;

/// Decode the references in an attribute value, where "&copy=" is not one.
pub fn unescaped_value<'a>(value: &'a str, names: &Names) -> Cow<'a, str> {
    let Some(first) = memchr(b'&', value.as_bytes()) else {
        return Cow::Borrowed(value);
    };
    let mut found = String::with_capacity(value.len());
    found.push_str(&value[..first]);
    let mut rest = &value[first..];
    while !rest.is_empty() {
        let end = decode(rest, names, &mut found);
        let next = memchr(b'&', &rest.as_bytes()[end..]).map_or(rest.len(), |offset| end + offset);
        found.push_str(&rest[end..next]);
        rest = &rest[next..];
    }
    Cow::Owned(found)
}

/// Decode the reference at the start of a text into `found`. Returns the length of what was read.
fn decode(text: &str, names: &Names, found: &mut String) -> usize {
    if text.starts_with("&amp;") {
        found.push('&');
        return 5;
    }
    let bytes = text.as_bytes();
    if bytes.get(1) == Some(&b'#') {
        return numbered(text, found);
    }
    if !bytes.get(1).is_some_and(u8::is_ascii_alphabetic) {
        found.push('&');
        return 1;
    }
    let length =
        bytes[1..].iter().take(NAME_MAX).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let end = 1 + length;
    let following = bytes.get(end);
    if following == Some(&b';') {
        let whole = &text[..=end];
        found.push_str(names.get(&whole[1..]).map_or(whole, String::as_str));
        return end + 1;
    }
    let whole = &text[..end];
    if following.is_some_and(|&byte| byte == b'=' || byte.is_ascii_alphanumeric()) {
        found.push_str(whole);
    } else {
        found.push_str(names.get(&whole[1..]).map_or(whole, String::as_str));
    }
    end
}

/// Decode a numeric reference at the start of a text, if it is one.
fn numbered(text: &str, found: &mut String) -> usize {
    let bytes = text.as_bytes();
    let hexadecimal = matches!(bytes.get(2), Some(b'x' | b'X'));
    let (start, base) = if hexadecimal { (3, 16) } else { (2, 10) };
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(base);
    let end = start + bytes[start..].iter().take_while(is_digit).count();
    if end == start {
        found.push('&');
        return 1;
    }
    found.push(character(text[start..end].trim_start_matches('0'), base));
    if bytes.get(end) == Some(&b';') { end + 1 } else { end }
}

/// The character of a number without leading zeros.
fn character(digits: &str, base: u32) -> char {
    if digits.is_empty() || digits.len() > 7 {
        return char::REPLACEMENT_CHARACTER;
    }
    let code = u32::from_str_radix(digits, base).unwrap_or(u32::MAX);
    windows_1252(code).or(char::from_u32(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Numeric references to C1 control characters mean these.
fn windows_1252(code: u32) -> Option<char> {
    const CHARACTERS: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    CHARACTERS.get(code.checked_sub(0x80)? as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_decoded_as_in_values() {
        let names: Names = [("amp;", "&"), ("amp", "&"), ("copy", "©"), ("copy;", "©")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        for (value, expected) in [
            ("a", "a"),
            ("a&amp;b", "a&b"),
            ("&copy=1&copy;&copy", "&copy=1©©"),
            ("&#65;&#x42&#0;&#128;&#xD800;&#99999999;", "AB\u{fffd}€\u{fffd}\u{fffd}"),
            ("&;&#;&#x;&", "&;&#;&#x;&"),
            ("&unknown;&x=&", "&unknown;&x=&"),
        ] {
            assert_eq!(unescaped_value(value, &names), expected);
        }
    }
}
