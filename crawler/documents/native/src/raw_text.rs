//! Elements whose content is text, whatever it looks like. Ported from `markup.py`.

use memchr::memchr2_iter;

use crate::bytes::{Markup, ends_name};

pub fn is_raw_text(name: &[u8]) -> bool {
    matches!(
        name,
        b"script"
            | b"style"
            | b"textarea"
            | b"title"
            | b"xmp"
            | b"iframe"
            | b"noembed"
            | b"noframes"
    )
}

/// Where raw text ends: at its end tag or at the end of the page. `name`: in lower case.
pub fn raw_text_end(markup: Markup, name: &[u8], from: usize) -> usize {
    let is_named = |place: usize| {
        let next = markup.at(place + name.len());
        markup.starts_in_any_case(place, name) && next.is_some_and(ends_name)
    };
    let is_script = name == b"script";
    // Script data is escaped after "<!--", and doubly after "<script" inside, until "-->".
    let (mut escaped, mut doubly) = (false, false);
    for offset in memchr2_iter(b'<', if is_script { b'-' } else { b'<' }, markup.rest(from)) {
        let at = from + offset;
        if markup.starts(at, b"-->") {
            (escaped, doubly) = (false, false);
        } else if markup.starts(at, b"</") && is_named(at + 2) {
            if !doubly {
                return at;
            }
            doubly = false;
        } else if is_script && markup.is(at, b'<') {
            escaped = escaped || markup.starts(at + 1, b"!--");
            doubly = doubly || (escaped && is_named(at + 1));
        }
    }
    markup.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_text_ends_at_its_end_tag() {
        for (name, text, end) in [
            ("title", "a</titles></TITLE >", 10),
            ("title", "a<title></title", 15),
            ("script", "<!--<script></script>--></script>", 24),
            ("script", "<!--<script></script></script>", 21),
            ("script", "<!--><script></script>", 13),
            ("script", "<script></script>", 8),
            ("style", "<!--<style></style>", 11),
        ] {
            let markup = Markup { text: text.as_bytes() };
            assert_eq!(raw_text_end(markup, name.as_bytes(), 0), end, "{text}");
        }
    }
}
