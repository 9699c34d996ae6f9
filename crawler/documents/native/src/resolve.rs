//! The canonical URLs of the links of a page, each once. Ported from `canonical_all` in
//! `policies/url.py` and `add_all` in `links.py`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::address::{Href, is_foreign, parse, without_dots};
use crate::collect::Collected;

/// What hrefs are relative to, in canonical form: parts of the URL of the page or its base.
pub struct Base<'a> {
    origin: &'a str,
    directory: &'a str,
    whole: &'a str,
    /// The places of the slashes in the path of the directory.
    slashes: Vec<usize>,
}

impl<'a> Base<'a> {
    /// directory: up to the last slash, which begins with the origin.
    pub fn new(origin: &'a str, directory: &'a str, whole: &'a str) -> Self {
        let path = directory.get(origin.len()..).unwrap_or_default();
        let slashes = path.match_indices('/').map(|(at, _)| origin.len() + at).collect();
        Base { origin, directory, whole, slashes }
    }

    /// The directory some levels up, at most the root.
    fn above(&self, steps: usize) -> &str {
        let level = self.slashes.len().saturating_sub(1 + steps);
        self.slashes.get(level).map_or(self.directory, |&at| &self.directory[..=at])
    }

    /// The canonical URL of an href, or None if that needs the parser.
    fn url(&self, href: &str) -> Option<String> {
        let url = match parse(href)? {
            Href::Fragment => return Some(self.whole.to_owned()),
            Href::Absolute(url) => without_dots(url).into_owned(),
            Href::Rooted(rest) => joined(self.origin, "/", rest),
            Href::Schemeless(rest) => {
                let scheme = self.whole.find('/').map_or("", |end| &self.whole[..end]);
                joined(scheme, "//", rest)
            }
            Href::Relative { steps, rest } => joined(self.above(steps), "", rest),
        };
        Some(url)
    }
}

fn joined(before: &str, between: &str, rest: &str) -> String {
    let url = [before, between, rest].concat();
    match without_dots(&url) {
        std::borrow::Cow::Borrowed(_) => url,
        std::borrow::Cow::Owned(resolved) => resolved,
    }
}

/// The links of a page whose URLs are known, or left to the caller.
#[derive(Default)]
pub struct Resolved {
    /// The number of the distinct href of each link.
    href_of_link: Vec<usize>,
    /// The first link with each distinct href.
    pub hrefs: Vec<usize>,
    /// The number of characters of the longest href.
    pub longest: usize,
    /// The URL of each distinct href, if it has one.
    pub urls: Vec<Option<String>>,
    /// The numbers of the hrefs that need the parser.
    pub left: Vec<usize>,
    /// The number of the first href of each distinct URL, in order.
    pub distinct: Vec<usize>,
    /// The number of the distinct URL of each href.
    number: Vec<Option<usize>>,
    /// Whether all links to a distinct URL say nofollow.
    pub nofollow: Vec<bool>,
}

impl Resolved {
    /// Resolve the links of a page.
    pub fn new(found: &Collected, text: &str, base: &Base) -> Self {
        let mut resolved = Resolved::default();
        let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(found.links.len());
        for (place, link) in found.links.iter().enumerate() {
            let href = link.href.of(text);
            let number = match numbers.entry(href) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let number = *new.insert(resolved.hrefs.len());
                    // Fewer bytes are no more characters, which take longer to count.
                    if href.len() > resolved.longest {
                        resolved.longest = resolved.longest.max(href.chars().count());
                    }
                    resolved.hrefs.push(place);
                    let url = base.url(href);
                    if url.is_none() && !is_foreign(href) {
                        resolved.left.push(number);
                    }
                    resolved.urls.push(url);
                    number
                }
            };
            resolved.href_of_link.push(number);
        }
        if resolved.left.is_empty() {
            resolved.finish(found);
        }
        resolved
    }

    /// Find the distinct URLs, now that the hrefs that were left have theirs.
    pub fn finish(&mut self, found: &Collected) {
        let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(self.urls.len());
        self.distinct.clear();
        self.number.clear();
        for (href, url) in self.urls.iter().enumerate() {
            let number = url.as_deref().map(|url| {
                *numbers.entry(url).or_insert_with(|| {
                    self.distinct.push(href);
                    self.distinct.len() - 1
                })
            });
            self.number.push(number);
        }
        self.nofollow = vec![true; self.distinct.len()];
        for (link, &href) in found.links.iter().zip(&self.href_of_link) {
            if let (false, Some(number)) = (link.nofollow, self.number[href]) {
                self.nofollow[number] = false;
            }
        }
    }

    /// The URL of a link.
    pub fn url_of_link(&self, link: usize) -> Option<&str> {
        self.urls[*self.href_of_link.get(link)?].as_deref()
    }

    /// The distinct URLs in order of their first link.
    pub fn distinct_urls(&self) -> impl ExactSizeIterator<Item = &str> {
        self.distinct.iter().map(|&href| self.urls[href].as_deref().unwrap_or_default())
    }
}
