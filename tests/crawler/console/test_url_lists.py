"""The pages of URLs by state, with made-up data: filters, commands and downloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawler.operator_commands import DropFailed, RetryFailed
from tests.crawler.console.test_web import HOSTILE, Site, serving, tags


@pytest.fixture
async def site(answers: Any) -> AsyncIterator[Site]:
    async with serving(answers) as site:
        yield site


async def test_the_filter_is_that_of_the_address_and_stays_in_the_form(
    site: Site, answers: Any
) -> None:
    html = await site.get('/urls?state=failed&host=a.test&text="x&code=dns')
    _, state, asked = answers.asked[-1]
    assert (state, asked["host"], asked["text"], asked["code"]) == ("failed", "a.test", '"x', "dns")
    fields = {one.get("name"): one.get("value") for one in tags(html, "input")}
    assert fields["text"] == '"x'
    following = [one["href"] for one in tags(html, "a") if one.get("rel") == "next"]
    assert following == ["/urls?state=failed&host=a.test&text=%22x&code=dns&after=more"]
    downloads = [one["href"] for one in tags(html, "a") if "download" in one]
    assert downloads == [
        f"/urls.{kind}?state=failed&host=a.test&text=%22x&code=dns" for kind in ("csv", "jsonl")
    ]


async def test_a_status_that_is_none_is_refused(site: Site) -> None:
    assert "Status: must be an HTTP status" in await site.get("/urls?state=visited&status=4x", 422)


async def test_failed_urls_are_retried_and_dropped_by_code(site: Site, answers: Any) -> None:
    html = await site.get("/urls?state=failed")
    codes = [one["value"] for one in tags(html, "input") if one.get("name") == "code"]
    assert codes == ["dns", "dns", "body", "body"]
    _, html, answer = await site.post("/urls/retry", code="dns")
    assert (RetryFailed(code="dns"),) in answers.asked
    assert "2 URLs queued again" in html
    assert answer.url.path == "/urls"
    _, html, _ = await site.post("/urls/drop", host="a.test", code="body")
    assert (DropFailed(host="a.test", code="body"),) in answers.asked
    assert "1 URL dropped" in html


async def test_urls_are_escaped(site: Site, answers: Any) -> None:
    lists = answers.url_lists
    for rows in lists.rows.values():
        rows[0]["url"] = f"http://a.test/{HOSTILE}"
        if "error" in rows[0]:
            rows[0]["error"] = HOSTILE
        if "title" in rows[0]:
            rows[0]["title"] = HOSTILE
    for path in ("/urls", "/urls?state=failed", "/urls?state=visited", "/seeds"):
        html = await site.get(path)
        assert "<script>alert" not in html
        assert not [tag for tag in tags(html, "img") if "onerror" in tag]


async def test_lists_are_downloaded_whole(site: Site, answers: Any) -> None:
    answers.url_lists.rows["failed"][0]["error"] = "=1+1"
    text = await site.get("/urls.csv?state=failed")
    assert text.splitlines()[0] == "url,error,attempts,last_at"
    assert len(text.splitlines()) == 3  # two pages of one row
    assert "'=1+1" in text
    lines = (await site.get("/urls.jsonl?state=visited")).splitlines()
    assert len(lines) == 2
    assert '"status": 404' in lines[0]
    assert (await site.get("/seeds.csv")).splitlines()[1] == "http://a.test/,failed,,dns: no,0,0.0"
