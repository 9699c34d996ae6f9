//! The rows of a page that `rows.rs` declines, found tag by tag as the tree would have them
//! (WHATWG HTML, 13.2.5 and 13.2.6).
//!
//! No tree is built: a tag counts as an element in the order of the markup. So it is tracked where
//! SVG, MathML and templates begin and end, which decides how text is read, and whether content is
//! in a cell of a table. What a tree would put elsewhere is declined, and so is everything whose
//! place depends on elements that are not tracked.

use memchr::{memchr, memchr_iter, memmem};

use crate::bytes::{Markup, is_space};
use crate::cost::Cost;
use crate::foreign::{Foreign, Namespace};
use crate::paragraphs::Paragraphs;
use crate::passed::is_table_part;
use crate::raw_text::{is_raw_text, raw_text_end};
use crate::rows::{Declined, Row, Span, held};
use crate::tables::Tables;

/// Rows of one page, and titles, of which the tree reader reads as many.
const ROWS_MAX: usize = 65_530;
const TITLES_MAX: usize = 100;

/// A tag. Its name is in lower case, unless it is longer than any that has a meaning.
pub struct Tag<'a> {
    lower: [u8; 16],
    written: &'a [u8],
    pub name_end: usize,
    /// Where its ">" is.
    pub end: usize,
    is_end: bool,
}

impl<'a> Tag<'a> {
    pub fn name(&self) -> &[u8] {
        self.lower.get(..self.written.len()).unwrap_or(self.written)
    }

    pub fn written(&self) -> &'a [u8] {
        self.written
    }

    /// The number of bytes from "<" to ">", without the "/" of an end tag.
    pub fn length(&self) -> usize {
        self.written.len() + self.end - self.name_end + 2
    }

    /// Whether it ends in "/>", and the "/" is not part of an attribute.
    pub fn is_self_closing(&self, markup: Markup) -> bool {
        let mut at = self.name_end;
        while at < self.end {
            let start = markup.skip(at, |byte| is_space(byte) || byte == b'/');
            if start == self.end {
                return markup.is(start - 1, b'/');
            }
            at = markup.attribute(start).unwrap_or(self.end);
        }
        false
    }
}

/// How far a page has come that may be a frameset.
#[derive(PartialEq)]
enum Body {
    /// Only elements of the head so far.
    Head,
    Begun,
    /// So many framesets are open: the page has no body.
    Frames(usize),
}

/// Iterates over the rows of a page.
pub struct Structure<'a> {
    markup: Markup<'a>,
    at: usize,
    has_nul: bool,
    rows: usize,
    titles: usize,
    body: Body,
    foreign: Foreign<'a>,
    tables: Tables,
    paragraphs: Paragraphs,
    cost: Option<Cost<'a>>,
}

impl<'a> Structure<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Structure {
            markup: Markup { text },
            at: 0,
            has_nul: memchr(0, text).is_some(),
            rows: 0,
            titles: 0,
            body: Body::Head,
            foreign: Foreign::default(),
            tables: Tables::default(),
            paragraphs: Paragraphs::default(),
            cost: None,
        }
    }

    /// Where the contents of anchors begin that no paragraph is open around, in order.
    pub fn outside_paragraphs(text: &'a [u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut rows = Structure::new(text);
        while let Ok(Some(row)) = rows.next() {
            if let Row::OddAnchor { content: Some(content), .. } = row
                && !rows.paragraphs.may_be_open()
            {
                found.push(content.start);
            }
        }
        found
    }

    /// What a tree of the page may cost. None: that is not certain.
    pub fn cost(text: &'a [u8]) -> Option<Cost<'a>> {
        let mut rows = Structure { cost: Some(Cost::default()), ..Structure::new(text) };
        loop {
            match rows.next() {
                Ok(Some(_)) => {}
                Ok(None) => return rows.cost,
                Err(Declined) => return None,
            }
        }
    }

    /// The next row; None at the end of the page.
    pub fn next(&mut self) -> Result<Option<Row>, Declined> {
        while let Some(tag) = self.next_tag()? {
            let row = if tag.is_end {
                self.end_tag(&tag)?;
                None
            } else {
                self.start_tag(&tag)?
            };
            if let Some(row) = row.filter(|_| !self.foreign.in_template()) {
                if self.rows == ROWS_MAX || self.has_nul(tag.name_end..self.at) {
                    return Err(Declined);
                }
                self.tables.place_row(self.rows)?;
                self.rows += 1;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The next tag. None at the end of the page, which may be in a tag.
    fn next_tag(&mut self) -> Result<Option<Tag<'a>>, Declined> {
        let markup = self.markup;
        loop {
            let start = markup.find(b'<', self.at);
            if let Some(cost) = &mut self.cost {
                cost.add_text(&markup.text[self.at..start]);
            }
            if self.body == Body::Head && markup.skip_space(self.at) < start {
                self.body = Body::Begun;
            }
            let slash = markup.is(start + 1, b'/');
            let name = start + if slash { 2 } else { 1 };
            let Some(first) = markup.at(name) else { return Ok(None) };
            if first.is_ascii_alphabetic() {
                return self.tag(name, slash);
            }
            if markup.starts(name, b"![CDATA[") {
                self.cost.iter_mut().for_each(Cost::give_up);
            }
            self.at = match first {
                _ if slash => after(markup, b">", name),
                b'!' if markup.starts(name, b"!--") => self.comment_end(name + 3),
                b'!' if self.foreign.is_open() && markup.starts(name, b"![CDATA[") => {
                    after(markup, b"]]>", name + 8)
                }
                b'!' | b'?' => after(markup, b">", name),
                _ => {
                    self.start_body();
                    self.cost.iter_mut().for_each(|cost| cost.add_text(b"<"));
                    name
                }
            };
        }
    }

    /// The tag whose name begins at a place.
    fn tag(&mut self, name: usize, is_end: bool) -> Result<Option<Tag<'a>>, Declined> {
        let markup = self.markup;
        let Some((written, name_end)) = markup.name(name) else { return Ok(None) };
        let end = markup.attributes(name_end);
        if !markup.is(end, b'>') {
            // Either the page ends in the tag, or it has too many attributes.
            let more = markup.at(end).is_some_and(|byte| is_space(byte) || byte == b'/');
            let declined = more || markup.attribute(end).is_some();
            self.cost.iter_mut().for_each(Cost::give_up);
            return if declined { Err(Declined) } else { Ok(None) };
        }
        if self.has_nul(name..name_end) {
            return Err(Declined);
        }
        let mut lower = [0; 16];
        for (to, from) in lower.iter_mut().zip(written) {
            *to = from.to_ascii_lowercase();
        }
        self.at = end + 1;
        Ok(Some(Tag { lower, written, name_end, end, is_end }))
    }

    /// Whether a part of the markup has a NUL, which a tree does not have.
    fn has_nul(&self, span: Span) -> bool {
        self.has_nul && memchr(0, &self.markup.text[span]).is_some()
    }

    /// The place after a comment, whose content begins at a place.
    fn comment_end(&self, from: usize) -> usize {
        let markup = self.markup;
        if markup.is(from, b'>') {
            return from + 1;
        }
        if markup.starts(from, b"->") {
            return from + 2;
        }
        for dashes in memchr_iter(b'-', markup.rest(from)) {
            let rest = markup.rest(from + dashes);
            if rest.starts_with(b"-->") {
                return from + dashes + 3;
            }
            if rest.starts_with(b"--!>") {
                return from + dashes + 4;
            }
        }
        markup.text.len()
    }

    fn start_body(&mut self) {
        if self.body == Body::Head {
            self.body = Body::Begun;
        }
    }

    fn start_tag(&mut self, tag: &Tag<'a>) -> Result<Option<Row>, Declined> {
        let name = tag.name();
        if name == b"title" {
            self.titles += 1;
            if self.titles > TITLES_MAX {
                return Err(Declined);
            }
        }
        if matches!(self.body, Body::Frames(_)) {
            return Ok(self.start_tag_among_frames(tag));
        }
        let namespace = self.foreign.start(self.markup, tag)?;
        if let Some(cost) = &mut self.cost {
            cost.start_tag(self.markup, tag, namespace.is_none() && is_raw_text(name));
        }
        if let Some(namespace) = namespace {
            self.start_body();
            return if name == b"title" && namespace == Namespace::MathMl {
                Err(Declined) // it would be a title of the page
            } else {
                Ok(self.row(tag, true))
            };
        }
        if !is_of_head(name) {
            self.start_body_or_frameset(name)?;
        }
        if self.foreign.is_empty() {
            self.start_in_document(name)?;
        }
        if name == b"plaintext" {
            self.at = self.markup.text.len();
        }
        let inside = self.at;
        let mut end = inside;
        if is_raw_text(name) {
            end = raw_text_end(self.markup, name, inside);
            self.at = end;
            self.tag(end + 2, true)?;
        }
        match name {
            b"title" if self.foreign.in_svg() => Ok(None),
            b"title" => Ok(Some(Row::Title(inside..end))),
            b"frame" => Ok(None),
            _ => Ok(self.row(tag, !self.foreign.is_empty())),
        }
    }

    fn start_body_or_frameset(&mut self, name: &[u8]) -> Result<(), Declined> {
        if name == b"frameset" {
            if self.body != Body::Head {
                return Err(Declined);
            }
            self.body = Body::Frames(1);
        }
        self.start_body();
        Ok(())
    }

    fn start_tag_among_frames(&mut self, tag: &Tag<'a>) -> Option<Row> {
        match (tag.name(), &mut self.body) {
            (b"noframes", _) => {
                self.at = raw_text_end(self.markup, b"noframes", self.at);
                None
            }
            (b"frameset", Body::Frames(open)) if *open > 0 => {
                *open += 1;
                None
            }
            (b"frame", Body::Frames(open)) if *open > 0 => self.row(tag, true),
            _ => None,
        }
    }

    fn end_tag(&mut self, tag: &Tag<'a>) -> Result<(), Declined> {
        let name = tag.name();
        if let Body::Frames(open) = &mut self.body {
            if name == b"frameset" {
                *open = open.saturating_sub(1);
            }
            return Ok(());
        }
        if name == b"html" || !is_of_head(name) {
            self.start_body();
        }
        if let Some(cost) = &mut self.cost {
            cost.end_tag(tag);
        }
        let is_done = self.foreign.end(tag)?;
        if !is_done && self.foreign.is_empty() {
            self.end_in_document(name);
        }
        Ok(())
    }

    /// A start tag outside templates and foreign content.
    fn start_in_document(&mut self, name: &[u8]) -> Result<(), Declined> {
        if !is_table_part(name) {
            self.paragraphs.start_tag(name);
            return Ok(());
        }
        if name == b"table" {
            if self.tables.is_outside_cells() {
                self.paragraphs.end_tag(name);
            }
            self.paragraphs.start_tag(name);
        } else {
            self.paragraphs.clear_table();
        }
        self.tables.start_tag(name, self.rows)
    }

    fn end_in_document(&mut self, name: &[u8]) {
        if !is_table_part(name) {
            self.paragraphs.end_tag(name);
            return;
        }
        self.tables.end_tag(name);
        if name == b"table" {
            self.paragraphs.end_tag(name);
        } else if self.tables.is_outside_cells() {
            self.paragraphs.clear_table();
        }
    }

    /// The row of an element. `elsewhere`: the content of an anchor is not simple.
    fn row(&self, tag: &Tag, elsewhere: bool) -> Option<Row> {
        let raw = tag.name_end..tag.end;
        match tag.name() {
            b"a" => {
                let content = if elsewhere || self.has_nul || self.tables.is_outside_cells() {
                    None
                } else {
                    held(self.markup, tag.end + 1)
                };
                Some(Row::OddAnchor { raw, content })
            }
            b"area" => Some(Row::Area(raw)),
            b"base" => Some(Row::Base(raw)),
            b"link" => Some(Row::Link(raw)),
            b"meta" => Some(Row::Meta(raw)),
            b"iframe" | b"frame" => Some(Row::Frame(raw)),
            _ => None,
        }
    }
}

/// The place after the next occurrence of an end, or the end of the page.
fn after(markup: Markup, end: &[u8], from: usize) -> usize {
    let rest = markup.rest(from);
    memmem::find(rest, end).map_or(markup.text.len(), |offset| from + offset + end.len())
}

/// Elements that neither begin a body nor exclude a frameset.
fn is_of_head(name: &[u8]) -> bool {
    matches!(
        name,
        b"html" | b"head" | b"title" | b"meta" | b"link" | b"base" | b"script" | b"style"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of rows.
    fn rows(text: &str) -> Option<usize> {
        let mut rows = Structure::new(text.as_bytes());
        let mut count = 0;
        loop {
            match rows.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => return Some(count),
                Err(Declined) => return None,
            }
        }
    }

    #[test]
    fn rows_are_those_of_a_tree() {
        for (text, count) in [
            ("<A HREF=x>a</A><TITLE>b</title>", 2),
            ("<script><!--<script></script><a>--></script><a>", 1),
            ("<svg><title>a</title><style><a></style></svg><title>b</title>", 2),
            ("<svg><foreignObject><p><a></a></p></foreignObject><p><title>a</title>", 2),
            ("<svg/><![CDATA[><a>]]><svg><![CDATA[><a>]]>", 1),
            ("<math><mi><style><a></style></mi><style><a></style></math>", 1),
            ("<template><svg><a></template><a>", 1),
            ("<table><form><a></form><tr><td><a></td></tr><tr><th><a></table><a>", 4),
            ("<title>a</title><frameset><frame><a><noframes><a></noframes></frameset><a>", 2),
            ("<!-- <a> --!><!--><a><plaintext><a>", 1),
            ("\0<p a=\0><a>", 1),
            ("<a><p title='>", 1),
        ] {
            assert_eq!(rows(text), Some(count), "{text}");
        }
    }

    #[test]
    fn what_is_not_certain_is_declined() {
        for text in [
            "<table><tr><td><a></td></tr><a>",
            "a<frameset>",
            "<svg></b>",
            "<svg><font color=a>",
            "<svg><foreignObject><table>",
            "<svg><foreignObject><div><p></div>",
            "<math><annotation-xml>",
            "<math><title>",
            "<template><col>",
            "<template><object><a></template>",
            "<a href=\0>",
            "<a\0>",
        ] {
            assert_eq!(rows(text), None, "{text}");
        }
    }
}
