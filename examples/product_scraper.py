"""Products of a shop, with the category that leads to each, in a table that survives kill -9."""

import asyncio
import re
import sqlite3
import sys
from typing import Any

from crawler import CrawledPage, Crawler, FailedPage, FollowLink, PageLink

PRICE = re.compile(r'itemprop="price" content="([\d.]+)"')


def choose(page: CrawledPage, link: PageLink) -> FollowLink | bool:
    if "/product/" in link.url:
        return FollowLink(priority=1, data={"category": page.title})
    return "/category/" in link.url


async def main(user_agent: str, seed: str, folder: str = ".", **options: Any) -> None:
    table = sqlite3.connect(f"{folder}/products.db")
    table.execute("CREATE TABLE IF NOT EXISTS products (url PRIMARY KEY, category, name, price)")
    async with Crawler(
        [seed], user_agent=user_agent, db=f"{folder}/crawl.db", links=choose, **options
    ) as crawl:
        async for outcome in crawl.outcomes():
            if isinstance(outcome, FailedPage):
                print(f"{outcome.url} failed: {outcome.sentence}")
            elif isinstance(outcome, CrawledPage) and outcome.data:
                price = PRICE.search(outcome.text)
                row = (outcome.url, outcome.data["category"], outcome.title, price and price[1])
                with table:  # committed before the page is: after a crash, the row is replaced
                    table.execute("REPLACE INTO products VALUES (?, ?, ?, ?)", row)
    summary = await crawl.summary()
    print(f"{summary.visited} pages visited, {summary.failed} failed, {summary.queued} queued")
    table.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
