//! Markup that has no rows: it is skipped. Ported from `_PASSED` in `scan.py`, whose names are
//! given at each function.

use crate::bytes::{Markup, ends_name};

/// Pieces of text in one element. A page beyond the limit is declined.
pub const PIECES_MAX: usize = 5_000;
/// Tags in one template.
const TEMPLATE_PIECES_MAX: usize = 200;

impl Markup<'_> {
    /// `_PASSED`: the place after markup at a "<" that is skipped, or None.
    pub fn passed(self, at: usize) -> Option<usize> {
        match self.at(at + 1) {
            Some(b'/') => self.passed_end_tag(at),
            Some(b'!') if self.starts(at + 2, b"--") => self.comment(at),
            Some(b'!' | b'?') => self.bogus_comment(at),
            Some(byte) if byte.is_ascii_alphabetic() => self.passed_start_tag(at),
            _ => Some(at + 1), // _NO_TAG
        }
    }

    fn passed_start_tag(self, at: usize) -> Option<usize> {
        if is_ordinary(self.rest(at + 1)) {
            return self.tag_rest(self.skip(at + 1, |byte| !ends_name(byte)));
        }
        let (name, end) = self.name(at + 1)?;
        match name {
            b"td" | b"th" | b"caption" => self.tag_rest(end),
            b"tr" | b"table" | b"tbody" | b"thead" | b"tfoot" | b"col" | b"colgroup" => {
                self.between_cells(end)
            }
            b"script" => self.script(at),
            b"style" => self.style(at),
            b"select" => self.select(at),
            b"textarea" => self.textarea(at),
            b"template" => self.template(at),
            _ => None,
        }
    }

    fn passed_end_tag(self, at: usize) -> Option<usize> {
        let name = self.rest(at + 2);
        if !name.first()?.is_ascii_lowercase() {
            return None;
        }
        if !is_of_a_table(name) {
            return self.tag_rest(self.skip(at + 3, |byte| !ends_name(byte))); // _END
        }
        let (name, end) = self.name(at + 2)?;
        match name {
            b"table" => self.tag_rest(end),
            _ if is_table_part(name) => self.between_cells(end),
            _ => None,
        }
    }

    /// `_BETWEEN`: a tag of a table that must be followed by another one.
    fn between_cells(self, name_end: usize) -> Option<usize> {
        let end = self.tag_rest(name_end)?;
        self.table_tag_follows(end).then_some(end)
    }

    /// `_NEXT`
    fn table_tag_follows(self, from: usize) -> bool {
        let mut at = self.skip_space(from);
        while let Some(end) = self.comment(at) {
            at = self.skip_space(end);
        }
        if !self.is(at, b'<') {
            return false;
        }
        at += if self.is(at + 1, b'/') { 2 } else { 1 };
        self.name(at).is_some_and(|(name, _)| is_table_part(name))
    }

    /// `_COMMENT`
    pub fn comment(self, at: usize) -> Option<usize> {
        if !self.starts(at, b"<!--") || self.starts(at + 4, b">") || self.starts(at + 4, b"->") {
            return None;
        }
        let mut place = at + 4;
        for _ in 0..=PIECES_MAX {
            if !self.is(place, b'-') {
                let end = self.find(b'-', place);
                if end == place {
                    return None; // the end of the page
                }
                place = end;
            } else if self.starts(place + 1, b"->") {
                return Some(place + 3);
            } else if self.starts(place + 1, b"-!>") {
                return Some(place + 4);
            } else {
                place += 1;
            }
        }
        None
    }

    /// `_BOGUS`
    fn bogus_comment(self, at: usize) -> Option<usize> {
        let end = self.find(b'>', at + 2);
        (end < self.text.len()).then_some(end + 1)
    }

    /// `_SCRIPT`
    fn script(self, at: usize) -> Option<usize> {
        let inside = self.ended_tag_rest(at + b"<script".len())?;
        self.raw_text(inside, b"</script>", |name| {
            let name = if self.is(name, b'/') { name + 1 } else { name };
            self.starts_in_any_case(name, b"scr")
        })
    }

    /// `_STYLE`
    fn style(self, at: usize) -> Option<usize> {
        let inside = self.ended_tag_rest(at + b"<style".len())?;
        self.raw_text(inside, b"</style>", |name| self.starts_in_any_case(name, b"/st"))
    }

    /// `_TEXTAREA`
    fn textarea(self, at: usize) -> Option<usize> {
        let inside = self.ended_tag_rest(at + b"<textarea".len())?;
        self.raw_text(inside, b"</textarea>", |name| self.starts_in_any_case(name, b"/te"))
    }

    /// Text with "<" up to a certain end tag. `stops`: what stands after a "<" is not such text.
    pub fn raw_text(
        self,
        from: usize,
        end_tag: &[u8],
        stops: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut at = from;
        for _ in 0..PIECES_MAX {
            if self.is(at, b'<') {
                if stops(at + 1) {
                    break;
                }
                at += 1;
            } else {
                let end = self.find(b'<', at);
                if end == at {
                    return None; // the end of the page
                }
                at = end;
            }
        }
        self.starts(at, end_tag).then_some(at + end_tag.len())
    }

    /// `_SELECT`
    fn select(self, at: usize) -> Option<usize> {
        let inside = self.ended_tag_rest(at + b"<select".len())?;
        self.content(inside, b"</select>", PIECES_MAX, |tag| {
            let (name, end) = self.name(self.after_slash(tag + 1))?;
            matches!(name, b"option" | b"optgroup").then(|| self.tag_rest(end))?
        })
    }

    /// `_SVG`, after its "<": a simple drawing.
    pub fn drawing(self, name_at: usize) -> Option<usize> {
        if !self.starts(name_at, b"svg") {
            return None;
        }
        let inside = self.ended_tag_rest(name_at + 3)?;
        if self.text[..inside].ends_with(b"/>") {
            return None;
        }
        self.content(inside, b"</svg>", PIECES_MAX, |tag| {
            if let Some(end) = self.comment(tag) {
                return Some(end);
            }
            if let Some(end) = self.text_element(tag, b"<title>", b"</title>") {
                return Some(end);
            }
            if let Some(end) = self.text_element(tag, b"<desc>", b"</desc>") {
                return Some(end);
            }
            let (name, end) = self.name(self.after_slash(tag + 1))?;
            is_drawn(name).then(|| self.tag_rest(end))?
        })
    }

    fn text_element(self, at: usize, start_tag: &[u8], end_tag: &[u8]) -> Option<usize> {
        if !self.starts(at, start_tag) {
            return None;
        }
        let end = self.find(b'<', at + start_tag.len());
        self.starts(end, end_tag).then_some(end + end_tag.len())
    }

    /// `_TEMPLATE`
    fn template(self, at: usize) -> Option<usize> {
        let inside = self.ended_tag_rest(at + b"<template".len())?;
        self.content(inside, b"</template>", TEMPLATE_PIECES_MAX, |tag| {
            if self.is(tag + 1, b'!') {
                return self.comment(tag);
            }
            let (name, end) = self.name(self.after_slash(tag + 1))?;
            match name {
                b"a" | b"br" | b"button" | b"img" | b"input" => self.tag_rest(end),
                _ if is_phrase(name) || is_block(name) => self.tag_rest(end),
                _ if self.is(tag + 1, b'/') => None,
                b"svg" => self.drawing(tag + 1),
                b"script" => self.script(tag),
                b"style" => self.style(tag),
                _ => None,
            }
        })
    }

    /// Text and certain tags up to an end tag. `tag_end`: the place after a tag that is allowed.
    fn content(
        self,
        from: usize,
        end_tag: &[u8],
        pieces_max: usize,
        tag_end: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut at = from;
        for _ in 0..pieces_max {
            if !self.is(at, b'<') {
                let end = self.find(b'<', at);
                if end == at {
                    return None; // the end of the page
                }
                at = end;
            } else if let Some(end) = tag_end(at) {
                at = end;
            } else {
                break;
            }
        }
        self.starts(at, end_tag).then_some(at + end_tag.len())
    }

    fn after_slash(self, at: usize) -> usize {
        if self.is(at, b'/') { at + 1 } else { at }
    }
}

/// `_NAME`: whether an element has no rows and does not affect following content, by its name and
/// what follows.
fn is_ordinary(name: &[u8]) -> bool {
    let Some((&first, rest)) = name.split_first() else {
        return false;
    };
    let none_of = |names: &[&[u8]]| !names.iter().any(|&name| rest.starts_with(name));
    match first {
        b'd' | b'e' | b'g' | b'h' | b'j' | b'k' | b'o' | b'q' | b'r' | b'u' | b'v' | b'w'
        | b'y' | b'z' => true,
        b'p' => none_of(&[b"laintext"]),
        b's' => none_of(&[b"cript", b"elect", b"tyle", b"vg"]),
        b'l' => none_of(&[b"ink"]),
        b'b' => none_of(&[b"ase"]),
        b'i' => none_of(&[b"frame"]),
        b'a' => none_of(&[b"rea"]) && !rest.first().is_some_and(|&byte| ends_name(byte)),
        b'm' => none_of(&[b"ath", b"eta"]),
        b't' => {
            none_of(&[b"able", b"body", b"d", b"emplate", b"extarea", b"foot", b"h", b"itle", b"r"])
        }
        b'f' => none_of(&[b"rame"]),
        b'n' => none_of(&[b"oembed", b"oframes"]),
        b'c' => none_of(&[b"aption", b"ol"]),
        b'x' => none_of(&[b"mp"]),
        _ => false,
    }
}

/// Whether an end tag may be of a table, by its name and what follows: what `_END` leaves out.
fn is_of_a_table(name: &[u8]) -> bool {
    let in_cells = name[0] == b't' && matches!(name.get(1), Some(b'd' | b'h' | b'r' | b'b' | b'f'));
    let others: [&[u8]; 3] = [b"table", b"caption", b"col"];
    in_cells || others.iter().any(|&other| name.starts_with(other))
}

/// `_TABLE`
pub fn is_table_part(name: &[u8]) -> bool {
    matches!(
        name,
        b"td"
            | b"th"
            | b"tr"
            | b"table"
            | b"tbody"
            | b"thead"
            | b"tfoot"
            | b"caption"
            | b"col"
            | b"colgroup"
    )
}

/// `_DRAWN`: SVG elements that do not exist in HTML.
fn is_drawn(name: &[u8]) -> bool {
    match name {
        b"path" | b"g" | b"circle" | b"ellipse" | b"rect" | b"line" | b"polyline" | b"polygon"
        | b"use" | b"defs" | b"symbol" | b"clipPath" | b"mask" | b"stop" | b"text" | b"tspan"
        | b"linearGradient" | b"radialGradient" | b"animate" | b"animateTransform" | b"filter" => {
            true
        }
        _ => name.strip_prefix(b"fe").and_then(|rest| rest.split_first()).is_some_and(
            |(first, rest)| first.is_ascii_uppercase() && rest.iter().all(u8::is_ascii_alphabetic),
        ),
    }
}

/// `_PHRASE`: elements without special rules.
pub fn is_phrase(name: &[u8]) -> bool {
    match name {
        b"abbr" | b"b" | b"bdi" | b"bdo" | b"big" | b"canvas" | b"cite" | b"code" | b"data"
        | b"del" | b"dfn" | b"em" | b"font" | b"i" | b"ins" | b"kbd" | b"label" | b"mark"
        | b"noscript" | b"picture" | b"q" | b"s" | b"samp" | b"small" | b"span" | b"strike"
        | b"strong" | b"sub" | b"sup" | b"time" | b"tt" | b"u" | b"var" => true,
        _ => is_custom(name),
    }
}

/// The names of custom elements: letters, a hyphen, and more of both.
fn is_custom(name: &[u8]) -> bool {
    let letters = name.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let rest = &name[letters..];
    letters > 0
        && rest.len() > 1
        && rest[0] == b'-'
        && rest.iter().all(|&byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// `_BLOCK`: elements that only end a paragraph.
pub fn is_block(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"aside"
            | b"blockquote"
            | b"center"
            | b"div"
            | b"figure"
            | b"figcaption"
            | b"footer"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"header"
            | b"li"
            | b"main"
            | b"nav"
            | b"ol"
            | b"p"
            | b"section"
            | b"ul"
    )
}
