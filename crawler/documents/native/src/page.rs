//! The classes that Python sees.

use std::collections::{HashMap, HashSet};

use memchr::memmem::Finder;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::collect::{Collected, Settings, Value, collect};
use crate::resolve::{Base, Resolved};
use crate::rows::Span;
use crate::seen::SeenLinks;
use crate::structure::Structure;
use crate::tangled::may_be_tangled;

/// Reads pages.
#[pyclass(frozen, module = "courtly_native")]
pub struct Reader {
    settings: Settings,
}

#[pymethods]
impl Reader {
    /// words: in the attributes of meta elements that may address this crawler; ASCII.
    /// references: characters by the names of their references, as in `html.entities.html5`.
    #[new]
    fn new(words: Vec<String>, references: HashMap<String, String>) -> Self {
        let finder = |word: &String| Finder::new(&word.to_ascii_lowercase()).into_owned();
        Reader {
            settings: Settings { words: words.iter().map(finder).collect(), names: references },
        }
    }

    /// Read a page, in UTF-8. None: the reader in Python must read it.
    ///
    /// origin, directory, whole: parts of the canonical URL of the page. If the page has a base
    /// element, its links are not resolved.
    fn read(
        &self,
        py: Python<'_>,
        html: Bound<'_, PyBytes>,
        origin: &str,
        directory: &str,
        whole: &str,
    ) -> Option<Page> {
        let bytes = html.as_bytes();
        let (found, resolved) = py.detach(|| {
            let text = std::str::from_utf8(bytes).ok()?;
            let found = collect(text, &self.settings).ok()?;
            let resolved = match found.base {
                None => Some(Resolved::new(&found, text, &Base::new(origin, directory, whole))),
                Some(_) => None,
            };
            Some((found, resolved))
        })?;
        let may_be_tangled = found.by_structure && py.detach(|| may_be_tangled(bytes));
        Some(Page {
            html: html.unbind(),
            found,
            resolved,
            may_be_tangled,
            outside_paragraphs: None,
        })
    }
}

/// A page that was read.
#[pyclass(module = "courtly_native")]
pub struct Page {
    html: Py<PyBytes>,
    found: Collected,
    resolved: Option<Resolved>,
    may_be_tangled: bool,
    outside_paragraphs: Option<Vec<usize>>,
}

#[pymethods]
impl Page {
    /// Whether the reader in Python might not build a tree of the page.
    #[getter]
    fn may_be_tangled(&self) -> bool {
        self.may_be_tangled
    }

    /// The href of the base element, or None.
    #[getter]
    fn base(&self) -> Option<&str> {
        self.found.base.as_deref()
    }

    /// Titles as written: the first one with text is among them, unless none has any.
    #[getter]
    fn titles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let text = self.text(py);
        PyList::new(py, self.found.titles.iter().map(|span| slice(text, span)))
    }

    /// Name and content of the meta elements that may address this crawler.
    #[getter]
    fn metas(&self) -> Vec<(&str, &str)> {
        self.found.metas.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect()
    }

    /// The number of distinct hrefs.
    #[getter]
    fn number_of_hrefs(&self) -> usize {
        self.resolved.as_ref().map_or(0, |resolved| resolved.hrefs.len())
    }

    /// The number of characters of the longest href.
    #[getter]
    fn longest_href(&self) -> usize {
        self.resolved.as_ref().map_or(0, |resolved| resolved.longest)
    }

    /// Resolve the links against the base.
    fn resolve(&mut self, py: Python<'_>, origin: &str, directory: &str, whole: &str) {
        let bytes = self.html.as_bytes(py);
        let found = &self.found;
        self.resolved = py.detach(|| {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(Resolved::new(found, text, &Base::new(origin, directory, whole)))
        });
    }

    /// The distinct hrefs whose URLs the caller must find, in order.
    #[getter]
    fn left<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let text = self.text(py);
        let left = self.resolved.as_ref().map_or(&[][..], |resolved| &resolved.left);
        PyList::new(py, left.iter().map(|&number| self.distinct_href(text, number)))
    }

    /// Set the URLs of the hrefs that were left.
    fn settle(&mut self, urls: Vec<Option<String>>) {
        if let Some(resolved) = &mut self.resolved {
            for (number, url) in resolved.left.iter().zip(urls) {
                resolved.urls[*number] = url;
            }
            resolved.finish(&self.found);
        }
    }

    /// The distinct hrefs that have no URL, in order, without those of usual other schemes.
    #[getter]
    fn without_url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let text = self.text(py);
        let urls = self.resolved.as_ref().map_or(&[][..], |resolved| &resolved.urls);
        let numbers = (0..urls.len()).filter(|&number| urls[number].is_none());
        let hrefs: Vec<&str> = numbers
            .map(|number| self.distinct_href(text, number))
            .filter(|href| !has_usual_scheme(href))
            .collect();
        PyList::new(py, hrefs)
    }

    /// The number of distinct hrefs of usual other schemes.
    #[getter]
    fn number_of_usual_schemes(&self, py: Python<'_>) -> usize {
        let text = self.text(py);
        let urls = self.resolved.as_ref().map_or(&[][..], |resolved| &resolved.urls);
        let numbers = (0..urls.len()).filter(|&number| urls[number].is_none());
        numbers.filter(|&number| has_usual_scheme(self.distinct_href(text, number))).count()
    }

    /// The number of distinct URLs.
    #[getter]
    fn number_of_urls(&self) -> usize {
        self.resolved.as_ref().map_or(0, |resolved| resolved.distinct.len())
    }

    /// The number of distinct URLs to which all links say nofollow.
    #[getter]
    fn number_of_nofollow(&self) -> usize {
        let all = self.resolved.as_ref().map_or(&[][..], |resolved| &resolved.nofollow);
        all.iter().filter(|&&nofollow| nofollow).count()
    }

    /// The distinct URLs to follow that are new, which they are no longer then, in order.
    fn fresh(&self, mut seen: PyRefMut<'_, SeenLinks>, depth: i64) -> Vec<&str> {
        let Some(resolved) = &self.resolved else {
            return Vec::new();
        };
        let with_flags = resolved.distinct_urls().zip(&resolved.nofollow);
        with_flags
            .filter_map(|(url, &nofollow)| (!nofollow && seen.is_new(url, depth)).then_some(url))
            .collect()
    }

    /// The distinct URLs in order of their first link.
    #[getter]
    fn urls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match &self.resolved {
            Some(resolved) => PyList::new(py, resolved.distinct_urls()),
            None => Ok(PyList::empty(py)),
        }
    }

    /// The distinct URLs to which all links say nofollow.
    #[getter]
    fn nofollow(&self) -> Vec<&str> {
        let Some(resolved) = &self.resolved else {
            return Vec::new();
        };
        let with_flags = resolved.distinct_urls().zip(&resolved.nofollow);
        with_flags.filter_map(|(url, &nofollow)| nofollow.then_some(url)).collect()
    }

    /// The URL of the first rel=canonical that has one.
    #[getter]
    fn canonical_url(&self) -> Option<&str> {
        let resolved = self.resolved.as_ref()?;
        self.found.canonicals.iter().find_map(|&link| resolved.url_of_link(link))
    }

    /// The URLs of all distinct hrefs.
    fn url_of_href<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let urls = PyDict::new(py);
        if let Some(resolved) = &self.resolved {
            let text = self.text(py);
            for (number, url) in resolved.urls.iter().enumerate() {
                urls.set_item(self.distinct_href(text, number), url.as_deref())?;
            }
        }
        Ok(urls)
    }

    /// Whether no paragraph is open around an anchor, so that it may contain blocks.
    ///
    /// place: of its content.
    fn may_contain_blocks(&mut self, py: Python<'_>, place: usize) -> bool {
        let bytes = self.html.as_bytes(py);
        let places = self
            .outside_paragraphs
            .get_or_insert_with(|| py.detach(|| Structure::outside_paragraphs(bytes)));
        places.binary_search(&place).is_ok()
    }

    /// The contents of the anchors that link to some URLs, in the order of the page, with their
    /// places.
    fn contents_of<'py>(
        &self,
        py: Python<'py>,
        urls: Vec<String>,
    ) -> Vec<(&str, Bound<'py, PyString>, usize)> {
        let text = self.text(py);
        let wanted: HashSet<&str> = urls.iter().map(String::as_str).collect();
        let Some(resolved) = &self.resolved else {
            return Vec::new();
        };
        let mut contents = Vec::new();
        for (place, link) in self.found.links.iter().enumerate() {
            if let (Some(span), Some(url)) = (&link.content, resolved.url_of_link(place))
                && wanted.contains(url)
            {
                contents.push((url, PyString::new(py, slice(text, span)), span.start));
            }
        }
        contents
    }

    /// All links of the page as written: the href, its content if it is an anchor, and whether it
    /// says nofollow and canonical.
    fn links<'py>(
        &self,
        py: Python<'py>,
    ) -> Vec<(String, Option<Bound<'py, PyString>>, bool, bool)> {
        let text = self.text(py);
        let canonicals: HashSet<usize> = self.found.canonicals.iter().copied().collect();
        let of = |(place, link): (usize, &crate::collect::Link)| {
            let content = link.content.as_ref().map(|span| PyString::new(py, slice(text, span)));
            let href = href_of(text, &link.href).to_owned();
            (href, content, link.nofollow, canonicals.contains(&place))
        };
        self.found.links.iter().enumerate().map(of).collect()
    }
}

impl Page {
    fn text<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.html.as_bytes(py)
    }

    fn distinct_href<'a>(&'a self, text: &'a [u8], number: usize) -> &'a str {
        let link = self.resolved.as_ref().map_or(0, |resolved| resolved.hrefs[number]);
        href_of(text, &self.found.links[link].href)
    }
}

/// Whether an href has one of the most common schemes besides HTTP and HTTPS.
fn has_usual_scheme(href: &str) -> bool {
    ["mailto:", "javascript:", "tel:"].iter().any(|scheme| href.starts_with(scheme))
}

fn href_of<'a>(text: &'a [u8], href: &'a Value) -> &'a str {
    match href {
        Value::Written(span) => slice(text, span),
        Value::Decoded(value) => value,
    }
}

/// A part of the markup, which is known to be UTF-8.
fn slice<'a>(text: &'a [u8], span: &Span) -> &'a str {
    std::str::from_utf8(&text[span.clone()]).unwrap_or_default()
}
