//! Whether a paragraph is open, which a block would end (WHATWG HTML, 13.2.6.4.7).
//!
//! Only what certainly ends a paragraph counts, so it may be closed where it seems to be open.

/// More elements in one another are not tracked.
const AROUND_MAX: usize = 100;

/// The paragraph that may be open in the innermost element that limits its scope.
#[derive(Default)]
pub struct Paragraphs {
    is_open: bool,
    around: Vec<Around>,
    is_lost: bool,
}

/// An element that limits scopes.
struct Around {
    limit: Limit,
    /// Whether a paragraph may be open around it.
    is_open: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Table,
    Button,
    Select,
    Object,
    Marquee,
    Applet,
}

impl Paragraphs {
    pub fn may_be_open(&self) -> bool {
        self.is_open || self.is_lost
    }

    /// A start tag that is not of a part of a table.
    pub fn start_tag(&mut self, name: &[u8]) {
        match name {
            b"p" => self.is_open = true,
            b"input" | b"keygen" => {
                self.close(Limit::Select);
            }
            b"select" => {
                if !self.close(Limit::Select) {
                    self.open(Limit::Select);
                }
            }
            b"button" => {
                self.close(Limit::Button);
                self.open(Limit::Button);
            }
            _ => match limit(name) {
                Some(limit) => self.open(limit),
                None => self.is_open = self.is_open && !ends_paragraph(name),
            },
        }
    }

    /// An end tag that is not of a part of a table.
    pub fn end_tag(&mut self, name: &[u8]) {
        if name == b"p" {
            self.is_open = false;
        } else if let Some(limit) = limit(name) {
            self.close(limit);
        }
    }

    /// Close everything in the innermost table, because a part of it began or ended.
    pub fn clear_table(&mut self) {
        if let Some(table) = self.around.iter().rposition(|around| around.limit == Limit::Table) {
            self.around.truncate(table + 1);
            self.is_open = false;
        }
    }

    fn open(&mut self, limit: Limit) {
        self.is_lost = self.is_lost || self.around.len() == AROUND_MAX;
        if !self.is_lost {
            self.around.push(Around { limit, is_open: self.is_open });
            self.is_open = false;
        }
    }

    /// Close the innermost element of a kind, with those in it. Returns false if none is in scope.
    fn close(&mut self, limit: Limit) -> bool {
        let limits = |around: &Around| around.limit == limit || around.limit != Limit::Button;
        let innermost = match limit {
            Limit::Table => self.around.iter().rposition(|around| around.limit == limit),
            _ => self.around.iter().rposition(limits),
        };
        let Some(place) = innermost.filter(|&place| self.around[place].limit == limit) else {
            return false;
        };
        self.is_open = self.around[place].is_open;
        self.around.truncate(place);
        true
    }
}

fn limit(name: &[u8]) -> Option<Limit> {
    match name {
        b"table" => Some(Limit::Table),
        b"button" => Some(Limit::Button),
        b"select" => Some(Limit::Select),
        b"object" => Some(Limit::Object),
        b"marquee" => Some(Limit::Marquee),
        b"applet" => Some(Limit::Applet),
        _ => None,
    }
}

/// Whether a start tag ends a paragraph. A form does not if it is in another one.
fn ends_paragraph(name: &[u8]) -> bool {
    const NAMES: [&str; 39] = [
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "li",
        "listing",
        "main",
        "menu",
        "nav",
        "ol",
        "pre",
        "search",
        "section",
        "summary",
        "ul",
        "xmp",
        "plaintext",
        "p",
    ];
    NAMES.iter().any(|one| one.as_bytes() == name)
}
