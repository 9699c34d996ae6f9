//! An upper bound of the work of building a tree, for pages of any size: what `_CostEstimate` in
//! `nesting.py` and `MergedText` in `merged_text.py` find, or more. The limits are a little lower,
//! because the page may end in a tag. What would need more rules gives up.

use crate::bytes::{Markup, is_space};
use crate::foreign::breaks_out;
use crate::passed::is_table_part;
use crate::structure::Tag;
use crate::tangled::{has_many_attributes, is_formatting};

const NESTING_MAX: usize = 500;
const FORMATTING_MAX: usize = 48;
const COPIED_BYTES_MAX: usize = 400_000;
const MERGED_BYTES_MAX: usize = 90_000_000;
const ROOTS_MAX: usize = 38;
const STEPS_PER_BYTE_MAX: usize = 7;
/// More steps end the walk.
const STEPS_MAX: usize = 40_000_000;
/// A tag that is not longer has no more attributes than are allowed.
const TAG_BYTES_SAFE: usize = 200;

/// What the tags so far may have cost.
#[derive(Default)]
pub struct Cost<'a> {
    /// The open elements, and how many bytes of formatting tags each has.
    open: Vec<(&'a [u8], usize)>,
    weight: usize,
    formatting: usize,
    copied: usize,
    steps: usize,
    roots: usize,
    /// Where in `open` an SVG or MathML begins.
    foreign: Option<usize>,
    /// Whether a cell is open in each table.
    cells: Vec<bool>,
    /// Bytes of text in tables outside cells, bytes copied with it, and other tags whose
    /// attributes are stored after text.
    moved: usize,
    merged: usize,
    ignored: usize,
    /// Whether the last tag began an element with nothing but text, which is not in `open`.
    in_leaf: bool,
    gives_up: bool,
}

impl<'a> Cost<'a> {
    pub fn is_too_much(&self, text: &[u8]) -> bool {
        self.gives_up
            || self.copied > COPIED_BYTES_MAX
            || self.steps > STEPS_PER_BYTE_MAX * text.len()
            || self.roots > ROOTS_MAX
            || self.merged + self.ignored * text.len() > MERGED_BYTES_MAX
    }

    /// What follows is not known.
    pub fn give_up(&mut self) {
        self.gives_up = true;
    }

    pub fn add_text(&mut self, text: &[u8]) {
        if self.cells.last() == Some(&false) {
            self.moved += text.len();
            if !text.iter().all(|&byte| is_space(byte)) {
                self.merged += self.moved;
            }
        }
    }

    /// Add a start tag. `is_raw`: its element contains only text, and its end tag is not added.
    pub fn start_tag(&mut self, markup: Markup, tag: &Tag<'a>, is_raw: bool) {
        if self.gives_up {
            return;
        }
        let name = tag.name();
        let length = tag.length();
        self.copied += self.weight;
        self.steps += self.open.len();
        self.roots += usize::from(is_root(name));
        self.add_to_tables(tag);
        let leaf = leaf_length(markup, tag);
        self.in_leaf = leaf.is_some();
        if self.cells.last() == Some(&false) {
            self.moved += leaf.unwrap_or_default();
            self.merged += if self.in_leaf { self.moved } else { 0 };
        }
        let is_closed = tag.is_self_closing(markup);
        self.gives_up = matches!(name, b"template" | b"frameset" | b"plaintext")
            || (length > TAG_BYTES_SAFE && has_many_attributes(markup, tag.name_end))
            || (self.foreign.is_some() && self.is_uncertain(name, is_closed));
        if self.in_leaf {
            self.in_leaf = !is_raw;
            return;
        }
        if is_raw {
            self.steps += self.open.len();
            return;
        }
        let begins_foreign = matches!(name, b"svg" | b"math");
        if is_closed && (begins_foreign || self.foreign.is_some()) {
            return;
        }
        if self.foreign.is_none() {
            if is_void(name) {
                return;
            }
            while self.open.last().is_some_and(|(open, _)| is_ended_by(open, name)) {
                self.pop();
            }
            if begins_foreign {
                self.foreign = Some(self.open.len());
            }
        }
        let weight = if is_formatting(name) || name == b"a" { length } else { 0 };
        self.open.push((tag.written(), weight));
        self.weight += weight;
        self.formatting += usize::from(weight > 0);
        if self.open.len() > NESTING_MAX || self.formatting > FORMATTING_MAX {
            self.gives_up = true;
        }
    }

    /// Whether HTML may begin in foreign content.
    fn is_uncertain(&self, name: &[u8], is_closed: bool) -> bool {
        name == b"font"
            || breaks_out(name)
            || (self.in_leaf && is_closed)
            || (!self.in_leaf && !is_closed && contains_html(name))
    }

    pub fn end_tag(&mut self, tag: &Tag<'a>) {
        if self.gives_up {
            return;
        }
        let name = tag.name();
        self.steps += self.open.len();
        self.gives_up = self.steps > STEPS_MAX;
        self.roots += usize::from(is_root(name));
        match self.cells.last_mut() {
            Some(_) if name == b"table" => {
                self.cells.pop();
            }
            Some(cell) if is_table_part(name) => *cell = false,
            _ => {}
        }
        if self.in_leaf {
            self.in_leaf = false;
            return;
        }
        self.ignored += usize::from(tag.end > tag.name_end);
        let is_named = |(open, _): &(&[u8], usize)| open.eq_ignore_ascii_case(tag.written());
        let mut place = self.open.len().checked_sub(1);
        while let Some(at) = place
            && !is_named(&self.open[at])
        {
            let passes = match self.foreign {
                Some(first) => at > first,
                None => closes_others(name) && has_optional_end(self.open[at].0),
            };
            place = if passes { at.checked_sub(1) } else { None };
        }
        self.gives_up = self.gives_up || (place.is_none() && self.foreign.is_some());
        while place.is_some_and(|place| self.open.len() > place) {
            self.pop();
        }
        self.foreign = self.foreign.filter(|&first| first < self.open.len());
    }

    fn pop(&mut self) {
        if let Some((_, weight)) = self.open.pop() {
            self.weight -= weight;
            self.formatting -= usize::from(weight > 0);
        }
    }

    fn add_to_tables(&mut self, tag: &Tag) {
        let name = tag.name();
        if name == b"table" {
            if self.cells.last() != Some(&false) {
                self.cells.push(false);
            }
        } else if is_table_part(name) && self.foreign.is_none() && !self.cells.is_empty() {
            self.cells.pop();
            self.cells.push(matches!(name, b"td" | b"th" | b"caption"));
        } else if is_table_part(name)
            || is_root(name)
            || matches!(name, b"head" | b"form" | b"frame")
        {
            self.ignored += usize::from(tag.end > tag.name_end);
        }
    }
}

/// The length of the content of an element and its end tag, if it contains only text.
fn leaf_length(markup: Markup, tag: &Tag) -> Option<usize> {
    let name = markup.find(b'<', tag.end) + 2;
    if !markup.is(name - 1, b'/') || !markup.starts(name, tag.written()) {
        return None;
    }
    let end = markup.skip_space(name + tag.written().len());
    markup.is(end, b'>').then_some(end - tag.end)
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

fn is_root(name: &[u8]) -> bool {
    matches!(name, b"html" | b"body")
}

/// The elements of SVG and MathML that contain HTML.
fn contains_html(name: &[u8]) -> bool {
    is_one_of(
        name,
        &["annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext", "title"],
    )
}

fn is_void(name: &[u8]) -> bool {
    is_one_of(
        name,
        &[
            "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "image",
            "img", "input", "keygen", "link", "meta", "param", "source", "track", "wbr",
        ],
    )
}

/// `_ENDED_BY`: whether a start tag closes an element if that is innermost.
fn is_ended_by(open: &[u8], name: &[u8]) -> bool {
    match name {
        b"p" | b"li" | b"option" => open.eq_ignore_ascii_case(name),
        b"dt" | b"dd" => is_one_of(open, &["dt", "dd"]),
        b"td" | b"th" => is_one_of(open, &["td", "th"]),
        b"tr" => is_one_of(open, &["td", "th", "tr"]),
        _ => false,
    }
}

/// `_END_OPTIONAL`
fn has_optional_end(name: &[u8]) -> bool {
    is_one_of(
        name,
        &["p", "li", "option", "optgroup", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot"],
    )
}

/// `_CLOSERS`
fn closes_others(name: &[u8]) -> bool {
    is_one_of(
        name,
        &[
            "article",
            "aside",
            "blockquote",
            "center",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "fieldset",
            "figure",
            "footer",
            "form",
            "header",
            "li",
            "main",
            "nav",
            "ol",
            "section",
            "select",
            "table",
            "tbody",
            "td",
            "tfoot",
            "th",
            "thead",
            "tr",
            "ul",
        ],
    )
}
