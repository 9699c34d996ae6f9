//! A floor written for this comparison, not a crawler: `floor SEEDS DATABASE`.
//!
//! reqwest, lol_html, url and rusqlite on one thread and a second for the database. robots.txt is obeyed, a host gets
//! one request at a time, 64 are in flight, redirects are links, and URLs with their states are written to SQLite in
//! batches of 1,000. There is no pace, no retry and no resuming.
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
    sync::mpsc,
    time::Duration,
};
use texting_robots::Robot;
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

const IN_FLIGHT: usize = 64;

enum Row {
    New(i64, String),
    Done(i64, u8), // 1: fetched, 2: disallowed, 3: failed
}

#[derive(Default)]
struct Host {
    origin: String,
    todo: VecDeque<(i64, String)>,
    robots: Option<Robot>,
    known: bool, // whether robots.txt was fetched
    busy: bool,
    queued: bool,
}

enum Found {
    Robots(Option<Vec<u8>>),
    Page { ok: bool, html: bool, links: Vec<String> },
}

fn links_of(base: &Url, body: &[u8]) -> Vec<String> {
    use lol_html::{element, HtmlRewriter, Settings};
    let found: Rc<RefCell<(Option<String>, Vec<String>)>> = Rc::default();
    let (anchors, bases) = (found.clone(), found.clone());
    let handlers = vec![
        element!("a[href]", move |e| {
            anchors.borrow_mut().1.extend(e.get_attribute("href"));
            Ok(())
        }),
        element!("base[href]", move |e| {
            let mut found = bases.borrow_mut();
            found.0 = found.0.take().or(e.get_attribute("href"));
            Ok(())
        }),
    ];
    let settings = Settings { element_content_handlers: handlers, ..Settings::new() };
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    let _ = rewriter.write(body);
    let _ = rewriter.end();
    let (base_href, hrefs) = found.take();
    let joined = base_href.and_then(|href| base.join(&html_escape::decode_html_entities(&href)).ok());
    let base = joined.unwrap_or_else(|| base.clone());
    let mut seen = HashSet::with_capacity(64);
    let mut links = Vec::with_capacity(hrefs.len());
    for href in hrefs {
        let href = html_escape::decode_html_entities(href.split('#').next().unwrap_or("")).into_owned();
        if !seen.insert(xxh3_64(href.as_bytes())) {
            continue;
        }
        if let Ok(mut url) = base.join(&href) {
            if matches!(url.scheme(), "http" | "https") {
                url.set_fragment(None);
                links.push(url.into());
            }
        }
    }
    links
}

async fn fetch_robots(client: &reqwest::Client, url: &str) -> Option<Vec<u8>> {
    let response = client.get(url).send().await.ok()?;
    let found = response.status() == 200;
    let body = response.bytes().await.ok()?;
    found.then(|| body.to_vec())
}

async fn fetch_page(client: &reqwest::Client, url: &str) -> Option<Found> {
    let response = client.get(url).send().await.ok()?;
    let status = response.status();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (location, kind) = (header("location"), header("content-type"));
    let body = response.bytes().await.ok()?;
    let base = Url::parse(url).ok()?;
    let html = status == 200 && kind.is_some_and(|kind| kind.starts_with("text/html"));
    let links = if html {
        links_of(&base, &body)
    } else if status.is_redirection() {
        location.and_then(|to| base.join(&to).ok()).map(String::from).into_iter().collect()
    } else {
        vec![]
    };
    Some(Found::Page { ok: true, html, links })
}

async fn fetch(client: reqwest::Client, host: usize, id: i64, url: String, robots: bool) -> (usize, i64, Found) {
    let found = if robots {
        Found::Robots(fetch_robots(&client, &url).await)
    } else {
        fetch_page(&client, &url).await.unwrap_or(Found::Page { ok: false, html: false, links: vec![] })
    };
    (host, id, found)
}

struct Crawl {
    hosts: Vec<Host>,
    by_origin: HashMap<String, usize>,
    seen: HashSet<i64, ahash::RandomState>,
    ready: VecDeque<usize>,
    rows: mpsc::Sender<Row>,
}

impl Crawl {
    fn add(&mut self, url: String) {
        let id = xxh3_64(url.as_bytes()) as i64;
        if !self.seen.insert(id) {
            return;
        }
        let origin = &url[..8 + url[8..].find('/').unwrap()];
        let host = match self.by_origin.get(origin) {
            Some(&host) => host,
            None => {
                self.hosts.push(Host { origin: origin.to_owned(), ..Host::default() });
                self.by_origin.insert(origin.to_owned(), self.hosts.len() - 1);
                self.hosts.len() - 1
            }
        };
        self.rows.send(Row::New(id, url.clone())).unwrap();
        self.hosts[host].todo.push_back((id, url));
        self.offer(host);
    }

    fn offer(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if !host.queued && !host.busy && !host.todo.is_empty() {
            host.queued = true;
            self.ready.push_back(index);
        }
    }

    /// Returns the next request of a host: its id, URL, and whether it is robots.txt.
    fn next(&mut self, index: usize) -> Option<(i64, String, bool)> {
        let host = &mut self.hosts[index];
        host.queued = false;
        if !host.known {
            return Some((0, format!("{}/robots.txt", host.origin), true));
        }
        while let Some((id, url)) = host.todo.pop_front() {
            if host.robots.as_ref().is_none_or(|robots| robots.allowed(&url)) {
                return Some((id, url, false));
            }
            self.rows.send(Row::Done(id, 2)).unwrap();
        }
        None
    }
}

async fn crawl(seeds: &str, rows: mpsc::Sender<Row>) -> usize {
    let builder = reqwest::Client::builder().user_agent("bench").redirect(reqwest::redirect::Policy::none());
    let client = builder.no_proxy().timeout(Duration::from_secs(60)).pool_max_idle_per_host(2).build().unwrap();
    let (hosts, by_origin, seen, ready) = Default::default();
    let mut crawl = Crawl { hosts, by_origin, seen, ready, rows };
    for seed in std::fs::read_to_string(seeds).unwrap().lines() {
        crawl.add(Url::parse(seed).unwrap().into());
    }
    let (mut requests, mut pages) = (tokio::task::JoinSet::new(), 0);
    loop {
        while requests.len() < IN_FLIGHT {
            let Some(host) = crawl.ready.pop_front() else { break };
            if let Some((id, url, robots)) = crawl.next(host) {
                crawl.hosts[host].busy = true;
                requests.spawn(fetch(client.clone(), host, id, url, robots));
            }
        }
        let Some(done) = requests.join_next().await else { return pages };
        let (host, id, found) = done.unwrap();
        crawl.hosts[host].busy = false;
        match found {
            Found::Robots(body) => {
                crawl.hosts[host].known = true;
                crawl.hosts[host].robots = body.and_then(|body| Robot::new("bench", &body).ok());
            }
            Found::Page { ok, html, links } => {
                crawl.rows.send(Row::Done(id, if ok { 1 } else { 3 })).unwrap();
                pages += usize::from(html);
                links.into_iter().for_each(|url| crawl.add(url));
            }
        }
        crawl.offer(host);
    }
}

fn write_rows(file: &str, rows: mpsc::Receiver<Row>) {
    let mut database = rusqlite::Connection::open(file).unwrap();
    let schema = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
        CREATE TABLE urls(id INTEGER PRIMARY KEY, url TEXT NOT NULL, state INTEGER)";
    database.execute_batch(schema).unwrap();
    while let Ok(first) = rows.recv() {
        let mut batch = vec![first];
        while batch.len() < 1000 {
            match rows.recv_timeout(Duration::from_millis(200)) {
                Ok(row) => batch.push(row),
                Err(_) => break, // the next recv() says whether there are more to come
            }
        }
        let transaction = database.transaction().unwrap();
        {
            let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO urls VALUES(?, ?, 0)").unwrap();
            let mut update = transaction.prepare_cached("UPDATE urls SET state = ? WHERE id = ?").unwrap();
            for row in batch {
                match row {
                    Row::New(id, url) => insert.execute((id, url)).unwrap(),
                    Row::Done(id, state) => update.execute((state, id)).unwrap(),
                };
            }
        }
        transaction.commit().unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (sender, receiver) = mpsc::channel();
    let file = arguments[2].clone();
    let writer = std::thread::spawn(move || write_rows(&file, receiver));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pages = runtime.block_on(crawl(&arguments[1], sender));
    writer.join().unwrap();
    println!("pages {pages}");
}
