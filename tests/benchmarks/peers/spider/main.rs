//! The spider crate on the synthetic web: `spider-peer SEEDS`.
//!
//! A `Website` of spider is one site, so there is one for each seed: 32 are crawled at a time, each with two requests in
//! flight. With one request in flight, and with a semaphore that all sites share, a site ends early: as soon as it waits
//! for no response and its last page had no new link, even if others are queued. spider leaves `&amp;` in an href as it
//! is; the callback decodes it.
use spider::{tokio, website::Website};
use std::{sync::Arc, time::Duration};

async fn crawl(seed: String) -> usize {
    let mut site = Website::new(&seed);
    site.with_respect_robots_txt(true)
        .with_user_agent(Some("bench"))
        .with_delay(0)
        .with_depth(0)
        .with_concurrency_limit(Some(2))
        .with_request_timeout(Some(Duration::from_secs(60)));
    site.set_on_link_find(|link, html| (link.inner().replace("&amp;", "&").into(), html));
    let mut pages = site.subscribe(4096);
    let counted = tokio::spawn(async move {
        let mut found = 0;
        while let Ok(page) = pages.recv().await {
            found += usize::from(page.status_code.as_u16() == 200);
        }
        found
    });
    site.crawl().await;
    site.unsubscribe();
    drop(site);
    counted.await.unwrap()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let seeds = std::fs::read_to_string(std::env::args().nth(1).expect("SEEDS")).unwrap();
    let at_a_time = Arc::new(tokio::sync::Semaphore::new(32));
    let mut sites = tokio::task::JoinSet::new();
    for seed in seeds.lines().map(str::to_owned) {
        let at_a_time = at_a_time.clone();
        sites.spawn(async move {
            let _permit = at_a_time.acquire_owned().await.unwrap();
            crawl(seed).await
        });
    }
    println!("pages {}", sites.join_all().await.iter().sum::<usize>());
}
