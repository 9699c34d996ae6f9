//! Attributes of a tag. Ported from `attributes` in `markup.py`.

use std::borrow::Cow;

use crate::bytes::{Markup, ends_name};
use crate::references::{Names, unescaped_value};

/// The values of some attributes of a tag: the first of each name, with references decoded.
///
/// raw: the attributes as written.
/// wanted: names in lower case.
pub fn values<'a, const N: usize>(
    raw: &'a str,
    wanted: [&str; N],
    names: &Names,
) -> [Option<Cow<'a, str>>; N] {
    let mut found = [const { None }; N];
    let markup = Markup { text: raw.as_bytes() };
    let mut at = 0;
    loop {
        let start = markup.skip(at, ends_name);
        let Some(name_end) = markup.attribute_name(start) else {
            return found;
        };
        let (value, end) = value(markup, raw, name_end);
        at = end;
        let name = &raw[start..name_end];
        if let Some(place) = wanted.iter().position(|one| name.eq_ignore_ascii_case(one))
            && found[place].is_none()
        {
            found[place] = Some(unescaped_value(value, names));
        }
    }
}

/// The value after the name of an attribute, and the place after it.
fn value<'a>(markup: Markup, raw: &'a str, name_end: usize) -> (&'a str, usize) {
    let equals = markup.skip_space(name_end);
    if !markup.is(equals, b'=') {
        return ("", name_end);
    }
    let start = markup.skip_space(equals + 1);
    match markup.at(start) {
        Some(quote @ (b'"' | b'\'')) => {
            let end = markup.find(quote, start + 1);
            (&raw[start + 1..end], (end + 1).min(raw.len()))
        }
        _ => {
            let end = markup.bare(start);
            (&raw[start..end], end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts() {
        let raw = r#" HREF = 'a' href=b rel="" / data-href=x x"#;
        let [href, rel, src] = values(raw, ["href", "rel", "src"], &Names::new());
        assert_eq!(href.as_deref(), Some("a"));
        assert_eq!(rel.as_deref(), Some(""));
        assert_eq!(src, None);
    }
}
