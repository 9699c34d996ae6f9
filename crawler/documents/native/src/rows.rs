//! The anchors, frames, and base, link, meta and title elements of a page, in order. Ported from
//! `_ROWS` in `scan.py`.

use std::ops::Range;

use crate::bytes::{Markup, ends_name, is_space};
use crate::passed::PIECES_MAX;
use crate::tags::is_plain_name;

/// Tags skipped in one row: `_PASSED_MAX`.
const PASSED_MAX: usize = 200;
/// Rows of one page: fewer than `_ROWS_MAX`, which counts one or two more at the end.
const ROWS_MAX: usize = 65_530;

/// A part of the markup.
pub type Span = Range<usize>;

/// What a row contains. The content of an anchor includes its end tag; None: it is not simple.
pub enum Row {
    /// An anchor in the usual form, with href and rel as written.
    Anchor {
        href: Span,
        rel: Option<Span>,
        content: Option<Span>,
    },
    /// An anchor in another form, with its attributes as written.
    OddAnchor {
        raw: Span,
        content: Option<Span>,
    },
    /// Of an image map, with its attributes as written.
    Area(Span),
    Base(Span),
    Link(Span),
    Meta(Span),
    Frame(Span),
    Title(Span),
    Drawing,
    /// Skipped markup without anything else.
    Empty,
}

/// The page may need a tree.
pub struct Declined;

/// Iterates over the rows of a page.
pub struct Rows<'a> {
    markup: Markup<'a>,
    at: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Rows { markup: Markup { text }, at: 0, count: 0 }
    }

    /// The next row; None at the end of the page.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Row>, Declined> {
        self.count += 1;
        if self.count > ROWS_MAX {
            return Err(Declined);
        }
        let markup = self.markup;
        let mut passed = 0;
        loop {
            let tag = markup.find(b'<', self.at);
            if tag == markup.text.len() {
                return Ok(None);
            }
            if passed < PASSED_MAX
                && let Some(end) = markup.passed(tag)
            {
                passed += 1;
                self.at = end;
                continue;
            }
            if let Some((row, end)) = relevant(markup, tag) {
                self.at = end;
                return Ok(Some(row));
            }
            let after_tag = self.at > 0 && markup.is(self.at - 1, b'>');
            return if passed == PASSED_MAX && after_tag {
                Ok(Some(Row::Empty))
            } else {
                Err(Declined)
            };
        }
    }
}

/// The row of an element at a "<", and the place after it.
fn relevant(markup: Markup, tag: usize) -> Option<(Row, usize)> {
    let (name, end) = markup.name(tag + 1)?;
    let row = match name {
        b"a" => return anchor(markup, end),
        b"base" | b"link" | b"meta" => {
            let (raw, rest) = attributes(markup, end)?;
            let row = match name {
                b"base" => Row::Base(raw),
                b"link" => Row::Link(raw),
                _ => Row::Meta(raw),
            };
            (row, rest)
        }
        b"iframe" => {
            let (raw, inside) = attributes(markup, end)?;
            let rest = markup
                .raw_text(inside, b"</iframe>", |name| markup.starts_in_any_case(name, b"/if"))?;
            (Row::Frame(raw), rest)
        }
        b"title" => {
            let inside = markup.tag_rest(end)?;
            let rest = markup
                .raw_text(inside, b"</title>", |name| markup.starts_in_any_case(name, b"/ti"))?;
            (Row::Title(inside..rest - b"</title>".len()), rest)
        }
        b"svg" => (Row::Drawing, markup.drawing(tag + 1)?),
        _ => return None,
    };
    Some(row)
}

/// The attributes of a tag as written, and the place after its ">".
fn attributes(markup: Markup, name_end: usize) -> Option<(Span, usize)> {
    let end = markup.attributes(name_end);
    markup.is(end, b'>').then_some((name_end..end, end + 1))
}

fn anchor(markup: Markup, name_end: usize) -> Option<(Row, usize)> {
    if let Some(usual) = usual_anchor(markup, name_end) {
        let content = held(markup, usual.end);
        let row = match usual.href {
            Some(href) => Row::Anchor { href, rel: usual.rel, content },
            None => Row::Empty,
        };
        return Some((row, usual.end));
    }
    let (raw, end) = attributes(markup, name_end)?;
    Some((Row::OddAnchor { raw, content: held(markup, end) }, end))
}

struct Usual {
    href: Option<Span>,
    rel: Option<Span>,
    end: usize,
}

/// `_USUAL_ANCHOR`: all attributes quoted, a href that is not empty, href and rel at most once.
fn usual_anchor(markup: Markup, name_end: usize) -> Option<Usual> {
    let mut usual = Usual { href: None, rel: None, end: name_end };
    markup.at(name_end).filter(|&byte| is_space(byte))?;
    let mut at = name_end;
    loop {
        let name = markup.skip_space(at);
        if name == at {
            break;
        }
        if markup.starts(name, b"href=") {
            let value = name + b"href=".len();
            let Some(end) = markup.quoted(value) else { break };
            if usual.href.is_some() || end == value + 2 {
                break;
            }
            usual.href = Some(value + 1..end - 1);
            at = end;
        } else if markup.starts(name, b"rel=") {
            let value = name + b"rel=".len();
            if usual.rel.is_some() || !markup.is(value, b'"') {
                break;
            }
            let Some(end) = markup.quoted(value) else { break };
            usual.rel = Some(value + 1..end - 1);
            at = end;
        } else {
            if !markup.at(name).is_some_and(|byte| byte.is_ascii_lowercase()) {
                break;
            }
            let equals = markup.skip(name + 1, is_plain_name);
            if !markup.is(equals, b'=') {
                break;
            }
            let Some(end) = markup.quoted(equals + 1) else { break };
            at = end;
        }
    }
    let end = markup.skip_space(at);
    usual.end = end + 1;
    markup.is(end, b'>').then_some(usual)
}

/// `_HELD`: the content of an anchor with its end tag, if no other anchor comes first. The end tag
/// may be in any case: where that matters, the row is not one of this module.
pub fn held(markup: Markup, from: usize) -> Option<Span> {
    let mut at = from;
    for _ in 0..PIECES_MAX {
        if !markup.is(at, b'<') {
            let end = markup.find(b'<', at);
            if end == at {
                return None; // the end of the page
            }
            at = end;
            continue;
        }
        let name = if markup.is(at + 1, b'/') { at + 2 } else { at + 1 };
        let is_anchor = markup.at(name).is_some_and(|byte| byte == b'a' || byte == b'A');
        if is_anchor && markup.at(name + 1).is_some_and(ends_name) {
            break;
        }
        at += 1;
    }
    markup.starts_in_any_case(at, b"</a>").then_some(from..at + b"</a>".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Option<Vec<Row>> {
        let mut rows = Rows::new(text.as_bytes());
        let mut found = Vec::new();
        loop {
            match rows.next() {
                Ok(Some(row)) => found.push(row),
                Ok(None) => return Some(found),
                Err(Declined) => return None,
            }
        }
    }

    #[test]
    fn an_anchor_has_its_content() {
        let text = r#"<p class="x"><a title='t' href="u" rel="nofollow">a <b>c</b></a>"#;
        let found = rows(text).unwrap();
        let Row::Anchor { href, rel: Some(rel), content: Some(content) } = &found[0] else {
            panic!("not a usual anchor");
        };
        assert_eq!(&text[href.clone()], "u");
        assert_eq!(&text[rel.clone()], "nofollow");
        assert_eq!(&text[content.clone()], "a <b>c</b></a>");
    }

    #[test]
    fn what_a_tree_moves_is_declined() {
        for text in ["<table>x", "<P>", "<math>", "<frameset>", "<script>", "<!-->", "<a", "</"] {
            assert!(rows(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_has_no_rows_is_skipped() {
        for text in [
            "",
            "a < b",
            "<!DOCTYPE html><p>",
            "<table> <!-- --> <tr><td>x</td></tr></table>",
            "<script>a < b</script><style><</style>",
            "<template><x-y>a</x-y></template>",
            "<select><option>o</select>",
        ] {
            assert!(rows(text).is_some_and(|found| found.is_empty()), "{text}");
        }
    }
}
