//! From the rows of a page to its links, title and meta elements. Ported from `read_rows` in
//! `page.py`.

use std::borrow::Cow;

use memchr::memmem::{self, Finder};

use crate::attributes::values;
use crate::references::{Names, unescaped_value};
use crate::rows::{Declined, Row, Rows, Span};
use crate::structure::Structure;
use crate::words::{has_word, is_space, refresh_href};

/// Titles in a page with drawings, which may name a drawing.
const TITLES_MAX: usize = 100;
/// A title up to this length is read as a whole, so that it has text if any follows white space.
const TITLE_BYTES: usize = 500;
/// Meta elements of one page.
const METAS_MAX: usize = 1_000;

/// What a reader knows before it sees a page.
pub struct Settings {
    /// Words in lower case in the attributes of meta elements that may address this crawler.
    pub words: Vec<Finder<'static>>,
    pub names: Names,
}

impl Settings {
    /// Whether a meta element may address this crawler, by its attributes as written.
    fn is_relevant(&self, raw: &str) -> bool {
        if !raw.is_ascii() || raw.contains(['*', '&']) {
            return true;
        }
        let raw = raw.to_ascii_lowercase();
        self.words.iter().any(|word| word.find(raw.as_bytes()).is_some())
    }
}

/// A value that stands in the markup as it is, or one that had to be decoded.
pub enum Value {
    Written(Span),
    Decoded(Box<str>),
}

impl Value {
    pub fn of<'a>(&'a self, text: &'a str) -> &'a str {
        match self {
            Value::Written(span) => &text[span.clone()],
            Value::Decoded(value) => value,
        }
    }

    fn decoded(span: Span, text: &str, names: &Names) -> Self {
        match unescaped_value(&text[span.clone()], names) {
            Cow::Borrowed(_) => Value::Written(span),
            Cow::Owned(value) => Value::Decoded(value.into()),
        }
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(value: Cow<'_, str>) -> Self {
        Value::Decoded(value.into())
    }
}

/// A link before it is resolved.
pub struct Link {
    pub href: Value,
    pub nofollow: bool,
    /// Of an anchor, with its end tag; empty if it is not simple. Of an area, its attributes. None:
    /// neither of both.
    pub content: Option<Span>,
}

/// What a page contains.
#[derive(Default)]
pub struct Collected {
    pub links: Vec<Link>,
    /// The links that are a rel=canonical.
    pub canonicals: Vec<usize>,
    pub base: Option<String>,
    /// As written: the first one that certainly has text, and those before it.
    pub titles: Vec<Span>,
    pub metas: Vec<(String, String)>,
    /// Whether the page was read as a tree is. Then all meta elements are kept.
    pub by_structure: bool,
    has_base: bool,
    has_title: bool,
    metas_seen: usize,
}

/// Collect the rows of a page.
pub fn collect(text: &str, settings: &Settings) -> Result<Collected, Declined> {
    if !text.contains('\0') {
        let mut rows = Rows::new(text.as_bytes());
        let found = collect_rows(|| rows.next(), Collected::default(), text, settings);
        if found.is_ok() {
            return found;
        }
    }
    let mut rows = Structure::new(text.as_bytes());
    let found = Collected { by_structure: true, ..Collected::default() };
    collect_rows(|| rows.next(), found, text, settings)
}

fn collect_rows(
    mut next: impl FnMut() -> Result<Option<Row>, Declined>,
    mut found: Collected,
    text: &str,
    settings: &Settings,
) -> Result<Collected, Declined> {
    let mut drawings = false;
    let mut many_titles = None;
    while let Some(row) = next()? {
        match row {
            Row::Anchor { href, rel, content } => {
                found.links.push(Link {
                    nofollow: rel.is_some_and(|rel| has_word(&text[rel], "nofollow")),
                    href: Value::decoded(href, text, &settings.names),
                    content: Some(content.unwrap_or_default()),
                });
            }
            Row::OddAnchor { raw, content } => {
                let raw = found.attributes(raw, text);
                found.add_odd_anchor(&raw, content.unwrap_or_default(), &settings.names);
            }
            Row::Area(raw) => {
                let attributes = found.attributes(raw.clone(), text);
                found.add_odd_anchor(&attributes, raw, &settings.names);
            }
            Row::Meta(raw) => found.add_meta(&found.attributes(raw, text), settings),
            Row::Link(raw) => found.add_link_element(&found.attributes(raw, text), &settings.names),
            Row::Title(span) => {
                let is_many = || memmem::find_iter(text.as_bytes(), b"<title").count() > TITLES_MAX;
                if drawings && *many_titles.get_or_insert_with(is_many) {
                    return Err(Declined);
                }
                found.add_title(span, text);
            }
            Row::Frame(raw) => {
                let raw = found.attributes(raw, text);
                let [source] = values(&raw, ["src"], &settings.names);
                if let Some(source) = source.filter(|source| !source.is_empty()) {
                    found.add(source, false);
                }
            }
            Row::Base(raw) if !found.has_base => {
                let raw = found.attributes(raw, text);
                let [href] = values(&raw, ["href"], &settings.names);
                found.has_base = href.is_some();
                found.base = href.map(Cow::into_owned);
            }
            Row::Drawing => drawings = true,
            Row::Base(_) | Row::Empty => {}
        }
    }
    if found.metas_seen > METAS_MAX { Err(Declined) } else { Ok(found) }
}

impl Collected {
    /// Attributes as written, or with the newlines that they have in a tree.
    fn attributes<'a>(&self, raw: Span, text: &'a str) -> Cow<'a, str> {
        let raw = &text[raw];
        if self.by_structure && raw.contains('\r') {
            raw.replace("\r\n", "\n").replace('\r', "\n").into()
        } else {
            raw.into()
        }
    }

    /// Add a link that is not an anchor.
    fn add(&mut self, href: Cow<'_, str>, nofollow: bool) {
        self.links.push(Link { href: href.into(), nofollow, content: None });
    }

    fn add_title(&mut self, span: Span, text: &str) {
        if !self.has_title {
            let title = &text[span.clone()];
            let has_text = !title.trim_matches(is_space).is_empty();
            self.has_title = has_text && title.len() <= TITLE_BYTES && !title.contains('&');
            self.titles.push(span);
        }
    }

    fn add_odd_anchor(&mut self, raw: &str, content: Span, names: &Names) {
        let [href, rel] = values(raw, ["href", "rel"], names);
        if let Some(href) = href {
            let nofollow = rel.is_some_and(|rel| has_word(&rel, "nofollow"));
            self.links.push(Link { href: href.into(), nofollow, content: Some(content) });
        }
    }

    fn add_meta(&mut self, raw: &str, settings: &Settings) {
        self.metas_seen += 1;
        if !self.by_structure && !settings.is_relevant(raw) {
            return;
        }
        let wanted = ["content", "name", "http-equiv"];
        let [Some(content), name, http_equiv] = values(raw, wanted, &settings.names) else {
            return;
        };
        let is_refresh =
            |kind: Cow<str>| kind.trim_matches(is_space).eq_ignore_ascii_case("refresh");
        if http_equiv.is_some_and(is_refresh) {
            if let Some(href) = refresh_href(&content) {
                self.add(href.into(), false);
            }
        } else if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.metas.push((name.into_owned(), content.into_owned()));
        }
    }

    fn add_link_element(&mut self, raw: &str, names: &Names) {
        let [Some(href), Some(rel)] = values(raw, ["href", "rel"], names) else {
            return;
        };
        let followed = ["canonical", "next", "prev", "previous", "alternate"];
        if has_word(&rel, "stylesheet") || !followed.iter().any(|word| has_word(&rel, word)) {
            return;
        }
        if has_word(&rel, "canonical") {
            self.canonicals.push(self.links.len());
        }
        self.add(href, has_word(&rel, "nofollow"));
    }
}
