//! SVG, MathML and templates: which content they have, and where they end.
//!
//! Elements of HTML are tracked only in SVG and MathML, where they prevent an end, and simple ones
//! only. What would depend on the elements around is declined.

use crate::bytes::Markup;
use crate::passed::{is_block, is_phrase};
use crate::raw_text::is_raw_text;
use crate::rows::Declined;
use crate::structure::Tag;

/// More elements in one another are declined.
const OPEN_MAX: usize = 300;

#[derive(Clone, Copy, PartialEq)]
pub enum Namespace {
    Svg,
    MathMl,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Foreign(Namespace),
    /// A foreign element that contains HTML.
    Bridge(Namespace),
    Html,
    Template,
}

struct Open<'a> {
    name: &'a [u8],
    kind: Kind,
    /// Whether it or an element around it is a template, and an element of SVG.
    in_template: bool,
    in_svg: bool,
}

/// The open elements from the outermost template, SVG or MathML on.
#[derive(Default)]
pub struct Foreign<'a> {
    open: Vec<Open<'a>>,
    /// In the outermost template, anchors and elements that may keep them open behind it.
    anchors: bool,
    markers: bool,
}

impl<'a> Foreign<'a> {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn in_template(&self) -> bool {
        self.open.last().is_some_and(|open| open.in_template)
    }

    pub fn in_svg(&self) -> bool {
        self.open.last().is_some_and(|open| open.in_svg)
    }

    fn kind(&self) -> Option<Kind> {
        self.open.last().map(|open| open.kind)
    }

    /// The namespace of the innermost element, if it is foreign.
    fn namespace(&self) -> Option<Namespace> {
        match self.kind()? {
            Kind::Foreign(namespace) | Kind::Bridge(namespace) => Some(namespace),
            Kind::Html | Kind::Template => None,
        }
    }

    /// Whether the innermost element is foreign, so that CDATA is text.
    pub fn is_open(&self) -> bool {
        self.namespace().is_some()
    }

    /// Process a start tag. Returns the namespace of its element if that is foreign.
    pub fn start(&mut self, markup: Markup, tag: &Tag<'a>) -> Result<Option<Namespace>, Declined> {
        let name = tag.name();
        if let Some(namespace) = self.namespace()
            && !self.begins_html(name)
        {
            if name == b"font" {
                return Err(Declined); // its attributes decide
            }
            if !breaks_out(name) {
                self.start_foreign(markup, tag, namespace)?;
                return Ok(Some(namespace));
            }
            self.break_out();
        }
        let root = match name {
            b"svg" => Some(Namespace::Svg),
            b"math" => Some(Namespace::MathMl),
            _ => None,
        };
        if let Some(namespace) = root {
            self.start_foreign(markup, tag, namespace)?;
        } else if matches!(self.kind(), Some(Kind::Bridge(_) | Kind::Html)) {
            self.start_html(tag)?;
        } else {
            self.start_in_document(tag)?;
        }
        Ok(root)
    }

    /// Process an end tag. Returns whether it has no effect on other elements.
    pub fn end(&mut self, tag: &Tag<'a>) -> Result<bool, Declined> {
        let (name, written) = (tag.name(), tag.written());
        if matches!(name, b"p" | b"br") && self.is_open() {
            self.break_out();
        }
        for place in (0..self.open.len()).rev() {
            let open = &self.open[place];
            match open.kind {
                Kind::Foreign(_) | Kind::Bridge(_) => {
                    if open.name.eq_ignore_ascii_case(written) {
                        self.open.truncate(place);
                        return Ok(true);
                    }
                }
                Kind::Html if open.name.eq_ignore_ascii_case(written) => {
                    // Foreign elements in it are not closed by their end tags.
                    return if place + 1 == self.open.len() {
                        self.open.truncate(place);
                        Ok(true)
                    } else {
                        Err(Declined)
                    };
                }
                Kind::Html | Kind::Template => break,
            }
        }
        if name == b"template" {
            return self.end_template();
        }
        match self.kind() {
            None | Some(Kind::Template) => Ok(false),
            Some(Kind::Bridge(_)) if matches!(name, b"p" | b"br") => Ok(true),
            _ => Err(Declined),
        }
    }

    fn end_template(&mut self) -> Result<bool, Declined> {
        if !self.in_template() {
            return if self.open.is_empty() { Ok(true) } else { Err(Declined) };
        }
        let is_template = |open: &Open| open.kind == Kind::Template;
        self.open.truncate(self.open.iter().rposition(is_template).unwrap_or_default());
        if !self.in_template() {
            if self.anchors && self.markers {
                return Err(Declined);
            }
            (self.anchors, self.markers) = (false, false);
        }
        Ok(true)
    }

    /// Whether a start tag in a foreign element belongs to HTML.
    fn begins_html(&self, name: &[u8]) -> bool {
        match self.kind() {
            Some(Kind::Bridge(Namespace::Svg)) => true,
            Some(Kind::Bridge(Namespace::MathMl)) => !matches!(name, b"mglyph" | b"malignmark"),
            _ => false,
        }
    }

    fn start_foreign(
        &mut self,
        markup: Markup,
        tag: &Tag<'a>,
        namespace: Namespace,
    ) -> Result<(), Declined> {
        if tag.is_self_closing(markup) {
            return Ok(());
        }
        let kind = match (namespace, tag.name()) {
            (Namespace::Svg, b"foreignobject" | b"desc" | b"title")
            | (Namespace::MathMl, b"mi" | b"mo" | b"mn" | b"ms" | b"mtext") => {
                Kind::Bridge(namespace)
            }
            (Namespace::MathMl, b"annotation-xml") => return Err(Declined),
            _ => Kind::Foreign(namespace),
        };
        self.push(tag, kind)
    }

    /// An element of HTML in SVG or MathML, without an effect on elements around.
    fn start_html(&mut self, tag: &Tag<'a>) -> Result<(), Declined> {
        let name = tag.name();
        let bridge = self.open.iter().rposition(|open| open.kind != Kind::Html);
        let inside = &self.open[bridge.map_or(0, |place| place + 1)..];
        let has = |name: &[u8]| inside.iter().any(|open| open.name.eq_ignore_ascii_case(name));
        let is_simple = match name {
            b"br" | b"img" | b"wbr" => return Ok(()),
            b"li" => !has(b"li") && !has(b"p"),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => inside.is_empty(),
            b"a" => !has(b"a"),
            _ if is_raw_text(name) => return Ok(()),
            _ => is_phrase(name) || (is_block(name) && !has(b"p")),
        };
        if is_simple { self.push(tag, Kind::Html) } else { Err(Declined) }
    }

    /// An element of HTML in the page or in a template.
    fn start_in_document(&mut self, tag: &Tag<'a>) -> Result<(), Declined> {
        match tag.name() {
            b"template" => return self.push(tag, Kind::Template),
            b"col" | b"colgroup" if self.in_template() => return Err(Declined),
            b"a" => self.anchors = self.in_template(),
            b"td" | b"th" | b"caption" | b"object" | b"marquee" | b"applet" => {
                self.markers = self.in_template();
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, tag: &Tag<'a>, kind: Kind) -> Result<(), Declined> {
        if self.open.len() == OPEN_MAX {
            return Err(Declined);
        }
        let in_template = self.in_template() || kind == Kind::Template;
        let in_svg = self.in_svg()
            || matches!(kind, Kind::Foreign(Namespace::Svg) | Kind::Bridge(Namespace::Svg));
        self.open.push(Open { name: tag.written(), kind, in_template, in_svg });
        Ok(())
    }

    /// Close foreign elements up to one that contains HTML.
    fn break_out(&mut self) {
        while let Some(Kind::Foreign(_)) = self.kind() {
            self.open.pop();
        }
    }
}

/// Whether a start tag ends foreign content (WHATWG HTML, 13.2.6.5).
pub fn breaks_out(name: &[u8]) -> bool {
    const NAMES: [&str; 44] = [
        "b",
        "big",
        "blockquote",
        "body",
        "br",
        "center",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "em",
        "embed",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "head",
        "hr",
        "i",
        "img",
        "li",
        "listing",
        "menu",
        "meta",
        "nobr",
        "ol",
        "p",
        "pre",
        "ruby",
        "s",
        "small",
        "span",
        "strong",
        "strike",
        "sub",
        "sup",
        "table",
        "tt",
        "u",
        "ul",
        "var",
    ];
    NAMES.iter().any(|one| one.as_bytes() == name)
}
