"""No bound loses anything silently.

Every constant whose name ends in _MAX or _LIMIT(S) stands in one of three tables: it loses nothing;
or what it cuts, leaves out or refuses leaves a trace that a user can find, shown here by doing so
or by a test elsewhere. A new one without an entry fails. docs/limits.md says it to users.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import fragments, links, page
from crawler.documents.links import PageLinks, anchor_text, collapsed
from crawler.documents.sitemap import SitemapParser
from crawler.fetching import cookies
from crawler.processing.attempts import redirected_too_often
from crawler.sinks import requisites
from crawler.testing import JumpClock
from policies import declarations, indexing, robots, robots_state
from policies.robots.lint import lint
from policies.robots_policy import Closed, robots_policy
from policies.robots_state import UNKNOWN, RobotsFetch, RobotsRules
from policies.scope import CUTS, SKIP_WORDS, Skip
from storage.store import Queued

ROOT: Final = Path(__file__).parents[1]
URL: Final = "http://a.test/"
TOKENS: Final = ("bot",)
_BOUND: Final = re.compile(r"_*[A-Z][A-Z0-9_]*?_(?:MAX|LIMITS?)(?:_[A-Z]{1,2})?|LIMITS?")


@cache
def bounds() -> frozenset[str]:
    return frozenset(_bounds())


def _bounds() -> Iterator[str]:
    """`path:NAME` of every bound in the source: constants of modules and classes."""
    for package in ("crawler", "policies", "storage"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            bodies = [
                tree.body,
                *(node.body for node in tree.body if isinstance(node, ast.ClassDef)),
            ]
            for node in (node for body in bodies for node in body):
                targets = node.targets if isinstance(node, ast.Assign) else ()
                if isinstance(node, ast.AnnAssign):
                    targets = [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and _BOUND.fullmatch(target.id):
                        yield f"{path.relative_to(ROOT).as_posix()}:{target.id}"


# ---------------------------------------------------------------- shown here

MonkeyPatch = pytest.MonkeyPatch
Caught = pytest.LogCaptureFixture
Proof = Callable[[MonkeyPatch, Caught], None]


def headers(**values: str) -> CIMultiDictProxy[str]:
    given = {"Content-Type": "text/html; charset=utf-8"}
    given |= {name.replace("_", "-"): value for name, value in values.items()}
    return CIMultiDictProxy(CIMultiDict(given))


def read(html: str, *, fragments: bool = False, **given: str) -> page.ParsedPage:
    return page.parse_page(URL, headers(**given), html.encode(), tokens=TOKENS, fragments=fragments)


def skips(reason: Skip, html: str, module: object = page, name: str = "", **given: str) -> Proof:
    """Reading a page that is beyond the bound counts under the reason, and marks the page."""

    def proof(patch: MonkeyPatch, _: Caught) -> None:
        if name:
            patch.setattr(module, name, 2)
        assert read(html, fragments=True, **given).skipped[reason] >= 1
        assert reason in CUTS
        assert reason in SKIP_WORDS

    return proof


def long_texts(_: MonkeyPatch, __: Caught) -> None:
    for chars_max in (links.ANCHOR_CHARS_MAX, page.TITLE_CHARS_MAX):
        for text in ("x" * (chars_max + 1), "word " * chars_max, "x" + " " * 5_000 + "y"):
            shown = collapsed(text, chars_max)
            assert shown is not None
            assert shown.endswith("…")
            assert len(shown) <= chars_max
        assert collapsed("x" * chars_max, chars_max) == "x" * chars_max
    assert (anchor_text("y" * 300) or "").endswith("…")
    assert (read(f"<title>{'x' * 600}</title>").title or "").endswith("…")


def malformed_links(_: MonkeyPatch, __: Caught) -> None:
    found = PageLinks(URL)
    for number in range(links.MALFORMED_MAX + 7):
        found.add(f"hhttp://{number}/{'x' * links.MALFORMED_CHARS_MAX}")
    assert found.skipped == {Skip.SCHEME: links.MALFORMED_MAX + 7}  # all are counted
    assert len(found.malformed) == links.MALFORMED_MAX
    assert all(href.endswith("…") for href, _ in found.malformed)


def sitemap(body: bytes, said: str) -> Proof:
    def proof(_: MonkeyPatch, __: Caught) -> None:
        parser = SitemapParser(bytes_max=10_000)
        for _entries in (*parser.feed(body), *parser.close()):
            pass
        assert parser.overlong if said == "overlong" else said in (parser.problem or "")

    return proof


def cookies_left_out(values: list[str]) -> Proof:
    def proof(_: MonkeyPatch, caught: Caught) -> None:
        jars = cookies.Cookies(JumpClock())
        with caught.at_level(logging.WARNING, "courtly.cookies"):
            jars.learn("http://shop.example.org/", values)
            jars.header("http://shop.example.org/")
            jars.header("http://shop.example.org/")
        (record,) = caught.records  # once for each site
        assert "cookies of example.org were dropped" in record.getMessage()

    return proof


def some_requisites(html: str, body: bytes = b"") -> Proof:
    def proof(_: MonkeyPatch, __: Caught) -> None:
        kind, content = ("text/css", body) if body else ("text/html", html.encode())
        assert not requisites.requisites(URL, kind, content, scripts=True).whole
        assert requisites.requisites(URL, "text/html", b"<img src=x>", scripts=True).whole

    return proof


def signals_of_use(_: MonkeyPatch, __: Caught) -> None:
    many = [("tdm-policy", f"http://a.test/{n}") for n in range(declarations.SIGNALS_MAX + 1)]
    assert str(declarations.usage_of(lambda _: (), many)).endswith("; …")
    long = declarations.usage_of(lambda _: (), [("tdm-policy", "x" * 2_000)])
    assert "x… (meta)" in str(long)


def long_robots(_: MonkeyPatch, __: Caught) -> None:
    news = RobotsFetch(status=200, body=b"#" * 600_000, headers={}, url=f"{URL}robots.txt")
    known = robots_state.next_state(UNKNOWN, news, now_s=0.0, rules=RobotsRules())
    assert known.truncated  # a column of `robots`, and in `why`


def long_robots_error(_: MonkeyPatch, __: Caught) -> None:
    news = RobotsFetch(status=None, body=None, headers={}, url=URL, failure="x" * 900)
    error = robots_state.next_state(UNKNOWN, news, now_s=0.0, rules=RobotsRules()).error
    assert error is not None
    assert error.endswith("…")


def unstored_robots(_: MonkeyPatch, __: Caught) -> None:
    known = structs.replace(UNKNOWN, error=robots_state.NO_SPACE, unreachable_since=0.0)
    closed = robots_policy(known, now_s=1.0, rules=RobotsRules())
    assert isinstance(closed, Closed)
    assert robots_state.NO_SPACE in closed.reason


def long_robots_line(_: MonkeyPatch, __: Caught) -> None:
    body = b"User-agent: *\nDisallow: /" + b"x" * 40_000
    assert "long-line" in {one.code for one in lint(robots.parse(body))}


def robots_redirects(_: MonkeyPatch, __: Caught) -> None:
    news = RobotsFetch(status=302, url=URL, redirect_overflow=True)
    known = robots_state.next_state(UNKNOWN, news, now_s=0.0, rules=RobotsRules())
    assert known.error == "redirected more than five times"


def long_target(_: MonkeyPatch, __: Caught) -> None:
    queued = Queued(id=1, url=URL, depth=0, priority=0, attempts=0, refusals=0, seed=True, hops=9)
    assert redirected_too_often(queued, "a.test", URL + "x" * 900, now_s=0.0).error.endswith("…")


def nested(times: int) -> str:
    """A document in a document."""
    html = "<img src=x>"
    for _ in range(times):
        html = f'<iframe srcdoc="{escape(html)}"></iframe>'
    return html


LINES = "".join(f"<a href={n}>x</a>" for n in range(9))
TANGLE = "\0" + "<a href=x><object>" * 3_000
DOCUMENTS = "crawler/documents/"
SHOWN_HERE: Final[dict[str, Proof]] = {
    f"{DOCUMENTS}links.py:LINKS_MAX": skips(Skip.MAX_LINKS, LINES, links, "LINKS_MAX"),
    f"{DOCUMENTS}links.py:HREF_CHARS_MAX": skips(
        Skip.MAX_URL_BYTES, f"<a href=/{'x' * 20_000}>x</a>"
    ),
    f"{DOCUMENTS}links.py:ANCHOR_CHARS_MAX": long_texts,
    f"{DOCUMENTS}page.py:TITLE_CHARS_MAX": long_texts,
    f"{DOCUMENTS}links.py:MALFORMED_MAX": malformed_links,
    f"{DOCUMENTS}links.py:MALFORMED_CHARS_MAX": malformed_links,
    f"{DOCUMENTS}links.py:_HEADER_CHARS_MAX": skips(
        Skip.LONG_HEADER, "", Link="<x>; rel=next, " * 9_000
    ),
    f"{DOCUMENTS}page.py:MARKUP_BYTES_MAX": skips(Skip.MAX_MARKUP, "x" * 5_000_001),
    f"{DOCUMENTS}page.py:_METAS_MAX": skips(
        Skip.MANY_METAS, "<meta name=robots content=index>" * 1_001
    ),
    f"{DOCUMENTS}page.py:_TITLES_MAX": skips(
        Skip.MANY_TITLES, "<svg><title>x</title></svg>" * 101 + "<title>page</title>"
    ),
    "policies/indexing.py:_CHARS_MAX": skips(
        Skip.LONG_HEADER, "", indexing, X_Robots_Tag="x" * 10_000 + ", noindex"
    ),
    **{
        f"{DOCUMENTS}fragments.py:{name}": skips(Skip.MANY_FRAGMENTS, html, fragments, name)
        for name, html in {
            "ELEMENTS_MAX": "<p id=a><p id=b><p id=c>",
            "POINTERS_MAX": "<a href=#a>x</a><a href=#b>x</a><a href=#c>x</a>",
            "NAME_CHARS_MAX": "<a href=#long>x</a>",
        }.items()
    },
    **{
        f"{DOCUMENTS}nesting.py:{name}": skips(Skip.TANGLED, TANGLE)
        for name in (
            "NESTING_MAX",
            "FORMATTING_MAX",
            "COPIED_BYTES_MAX",
            "MERGED_BYTES_MAX",
            "ATTRIBUTES_MAX",
            "ROOTS_MAX",
            "STEPS_PER_BYTE_MAX",
            "TREE_TAGS_MAX",
        )
    },
    f"{DOCUMENTS}open_elements.py:OPEN_MAX": skips(Skip.TANGLED, TANGLE),
    f"{DOCUMENTS}sitemap.py:SITEMAP_BYTES_MAX": sitemap(
        b"<urlset>" + b"<url><loc>http://a.test/</loc></url>" * 1_000, "longer than"
    ),
    **{
        f"{DOCUMENTS}sitemap_xml.py:{name}": sitemap(
            b"<urlset><url><loc>http://a.test/" + b"x" * 9_000 + b"</loc></url></urlset>",
            "overlong",
        )
        for name in ("CHARS_MAX", "_TEXT_CHARS_MAX")
    },
    **{
        f"crawler/fetching/cookies.py:{name}": cookies_left_out(values)
        for name, values in {
            "COOKIES_MAX": [f"n{n}=x" for n in range(101)],
            "COOKIE_CHARS_MAX": ["a=" + "x" * 5_000],
            "HEADER_CHARS_MAX": [f"n{n}={'x' * 4_000}" for n in range(3)],
        }.items()
    },
    "crawler/sinks/requisites.py:REQUISITES_MAX": some_requisites(
        "".join(f"<img src={n}>" for n in range(1_001))
    ),
    "crawler/sinks/requisites.py:BYTES_READ_MAX": some_requisites("", b" " * 5_000_001),
    "crawler/sinks/references.py:_REFERENCE_CHARS_MAX": some_requisites(
        f"<img src=/{'x' * 20_000}>"
    ),
    "crawler/sinks/references.py:REFERENCES_MAX": some_requisites("<img src=x>" * 50_001),
    "crawler/sinks/rewriting.py:_DEPTH_MAX": some_requisites(nested(5)),
    "policies/declarations.py:SIGNALS_MAX": signals_of_use,
    "policies/declarations.py:_VALUE_CHARS_MAX": signals_of_use,
    "crawler/downloading/robots_fetcher.py:REDIRECTS_MAX": robots_redirects,
    "policies/robots/syntax.py:BYTES_MAX": long_robots,
    "storage/engine/robots_copies.py:DOMAIN_BYTES_MAX": unstored_robots,
    "crawler/downloading/robots_exchange.py:ROBOTS_BYTES_MAX": long_robots,
    "crawler/downloading/robots_exchange.py:LIMITS": long_robots,
    "policies/robots_state.py:_ERROR_CHARS_MAX": long_robots_error,
    "policies/robots/syntax.py:LINE_BYTES_MAX": long_robots_line,
    "policies/robots/library_lines.py:LINE_BYTES_MAX": long_robots_line,
    "crawler/processing/attempts.py:_TARGET_CHARS_MAX": long_target,
}

# ---------------------------------------------------------------- shown elsewhere

CRAWLER: Final = "tests/crawler/"
RECORDER: Final = f"{CRAWLER}daemon/monitoring/test_history_recorder.py"
TOO_LARGE: Final = "`failed`, code too-large"
REFUSED: Final = "an error that names the bound"
# The trace, and the test that meets the bound and finds it.
SHOWN_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "crawler/mcp_server/page_text.py:MARKUP_CHARS_MAX": (
        "a note in the answer",
        f"{CRAWLER}mcp_server/test_page_text.py::test_only_the_beginning_of_large_markup_is_searched",
    ),
    "crawler/mcp_server/page_text.py:LINKS_SHOWN_MAX": (
        "a line in the answer",
        f"{CRAWLER}mcp_server/test_page_text.py::test_links_beyond_the_limit_are_counted",
    ),
    "crawler/mcp_server/server.py:MESSAGE_BYTES_MAX": (
        "a log line",
        f"{CRAWLER}cli/test_mcp.py::test_lines_that_are_no_messages_do_not_stop_it",
    ),
    "crawler/processing/stored_links.py:URL_CHARS_MAX": (
        "a row of `malformed`",
        "tests/site/test_links_view.py::test_long_urls_and_dropped_parameters",
    ),
    **{
        f"crawler/processing/sitemaps.py:{name}": (
            "`too-many-sitemaps` in `skipped`",
            f"{CRAWLER}scheduling/test_sitemaps.py::{test}",
        )
        for name, test in {
            "NAMED_MAX": "test_sitemaps_beyond_their_number_are_counted",
            "CHILDREN_MAX": "test_sitemaps_beyond_their_number_are_counted",
            "NESTING_MAX": "test_indexes_are_followed_so_deep_and_no_deeper",
        }.items()
    },
    "crawler/downloading/robots_fetcher.py:ELSEWHERE_S_MAX": (
        "the state of the view `robots`",
        f"{CRAWLER}downloading/test_robots_elsewhere.py::test_after_a_minute_it_counts_as_unreachable",
    ),
    "crawler/processing/page_requisites.py:DEPTH_MAX": (
        "`too-many-requisites` in `skipped`, and in `cut` of the last",
        "tests/site/test_requisites.py::test_style_sheets_that_import_new_ones_without_end",
    ),
    "crawler/fetching/request.py:DEFAULT_LIMITS": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_endless_body",
    ),
    **{
        f"crawler/output.py:{name}": (
            "a line in the log says how many are missing; `log_lines_lost`",
            f"{CRAWLER}daemon/monitoring/test_event_log.py::test_a_pipe_that_nobody_reads_never_makes_it_wait",
        )
        for name in ("BYTES_MAX", "STREAM_BYTES_MAX")
    },
    "crawler/sinks/inert.py:XML_BYTES_MAX": (
        "a line in the log",
        f"{CRAWLER}sinks/test_mirror.py::test_files_that_are_cut_are_logged",
    ),
    "crawler/fetching/body.py:WIRE_BYTES_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_sink.py::test_a_sink_may_refuse_what_is_too_large",
    ),
    "crawler/fetching/connection_pool.py:FIELD_BYTES_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_header_field_of_100_kb_is_too_large",
    ),
    "crawler/fetching/connection_pool.py:FIELDS_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_too_many_header_fields",
    ),
    "crawler/fetching/connection_pool.py:FOLDS_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_too_many_continuation_lines",
    ),
    "crawler/fetching/connection_pool.py:FRAMING_BYTES_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_a_flood_of_small_chunks_has_a_bound",
    ),
    "crawler/fetching/costly_input.py:OVERHEAD_BYTES_MAX": (
        TOO_LARGE,
        f"{CRAWLER}fetching/test_tls_records.py::test_records_of_one_byte_have_a_bound",
    ),
    "crawler/fetching/connection_pool.py:INTERIM_MAX": (
        "`failed`, code protocol",
        f"{CRAWLER}fetching/test_fetcher_hostile.py::test_flood_of_interim_answers",
    ),
    "crawler/fetching/content_coding.py:MEMBERS_MAX": (
        "`failed`, code body",
        f"{CRAWLER}fetching/test_content_coding.py::test_members_have_a_bound",
    ),
    "crawler/fetching/content_coding.py:ZSTD_WINDOW_LOG_MAX": (
        "`failed`, code body",
        f"{CRAWLER}fetching/test_content_coding.py::test_rfc9659_zstd_window_over_8_mb_is_refused",
    ),
    "crawler/embedding/redirects.py:REDIRECTS_MAX": (
        "TooManyRedirects",
        f"{CRAWLER}embedding/test_session.py::test_redirects_are_bounded",
    ),
    "crawler/embedding/redirects.py:RETRY_WAIT_S_MAX": (
        "the response, or FetchFailed",
        f"{CRAWLER}embedding/test_retry_waits.py::test_without_a_limit_a_very_long_retry_is_not_waited_for",
    ),
    "crawler/config/seed_files.py:_LINE_CHARS_MAX": (
        REFUSED,
        f"{CRAWLER}config/test_seed_files.py::test_a_device_is_not_a_seed_file",
    ),
    "crawler/daemon/monitoring/access_log.py:EVENTS_MAX": (
        "the number of the others is in a line of the log (`others`)",
        f"{CRAWLER}daemon/http/test_no_secret_leaks.py::test_wrong_tokens_are_counted_for_each_address",
    ),
    "crawler/daemon/monitoring/event_stream.py:QUEUE_MAX": (
        "the stream ends, and its reader connects again",
        f"{CRAWLER}daemon/http/test_sse.py::test_a_listener_that_is_too_slow_is_let_go",
    ),
    **{
        f"crawler/daemon/monitoring/recent_log.py:{name}": (
            "the log itself has all lines; `kept` and `written` of GET /api/log",
            f"{CRAWLER}daemon/monitoring/test_recent_log.py::{test}",
        )
        for name, test in {
            "LINES_MAX": "test_a_flood_of_one_kind_displaces_no_other",
            "BYTES_MAX": "test_its_size_is_bounded",
            "LINE_CHARS_MAX": "test_a_line_that_is_too_long_is_kept_without_its_details",
        }.items()
    },
    "crawler/daemon/webhook/delivery.py:WAITING_MAX": (
        "`notification_lost` in the log, and `courtly_webhook_notifications_total`",
        f"{CRAWLER}daemon/webhook/test_delivery.py::test_the_queue_is_bounded_and_what_is_lost_leaves_a_trace",
    ),
    "storage/socket_path.py:PATH_BYTES_MAX": (
        REFUSED,
        f"{CRAWLER}daemon/test_unix_socket.py::test_a_name_that_is_too_long_is_refused",
    ),
    "crawler/reports/report_sections.py:ROWS_MAX": (
        "and N more; `links_total`",
        f"{CRAWLER}reports/test_findings.py::test_a_section_is_bounded",
    ),
    "crawler/sinks/jsonl.py:_LINKS_BYTES_MAX": (
        "`links_omitted` in the line",
        f"{CRAWLER}sinks/test_jsonl.py::test_links_that_are_far_longer_than_their_page_are_left_out_and_counted",
    ),
    **{
        f"crawler/sinks/symbols.py:{name}": (
            "a line in the log",
            f"{CRAWLER}sinks/test_symbols.py::test_what_is_not_copied_is_logged",
        )
        for name in ("DRAWING_BYTES_MAX", "COPIED_BYTES_MAX", "DRAWINGS_MAX")
    },
    "crawler/sinks/references.py:GROWTH_BYTES_MAX": (
        "a line in the log",
        f"{CRAWLER}sinks/test_mirror.py::test_references_that_stay_are_logged",
    ),
    "crawler/sinks/sink_writer.py:FINISH_S_MAX": (
        "the next run does the rest",
        f"{CRAWLER}sinks/test_dispatch.py::test_a_stop_bounds_what_closing_a_sink_completes",
    ),
    "policies/robots/lint.py:FINDINGS_MAX": (
        "a finding that says so",
        f"{CRAWLER}cli/robots/test_lint.py::test_many_findings_are_truncated",
    ),
    "policies/robots/search.py:WORK_MAX": (
        "a verdict that says so, and blocks",
        "tests/policies/robots/test_work.py::test_what_cannot_be_judged_in_time_is_disallowed_and_says_so",
    ),
    **{
        f"storage/history.py:{name}": (
            "fewer, coarser points of the page History",
            "tests/storage/contract/test_history.py::test_there_are_at_most_so_many_rows",
        )
        for name in ("MINUTE_ROWS_MAX", "MARKS_MAX")
    },
    **{
        f"crawler/daemon/monitoring/history_recorder.py:{name}": (
            "a gap in the history, during a hold by the database",
            f"{RECORDER}::test_a_locked_database_delays_the_history_and_nothing_else",
        )
        for name in ("MINUTES_WAITING_MAX", "MARKS_WAITING_MAX")
    },
    "policies/retries.py:REFUSALS_MAX": (
        "`failed`, code refused",
        "tests/policies/test_retries.py::test_refusals_are_not_attempts_and_the_fifth_is_the_last",
    ),
}

# ---------------------------------------------------------------- what loses nothing

CACHE: Final = "how much is remembered; what is forgotten is looked up again"
BATCH: Final = "how much at once; the rest follows"
WAITS: Final = "others wait until there is room"
SHOWN: Final = "how much is shown at once; the database has all of it"
SAME: Final = "beyond it the same is found in another way"
PACE: Final = "a time or number that no sensible rule exceeds; less waiting than this is exact"
NO_VALUE: Final = "what is longer is no value of its kind"
ASKED: Final = "what a request may ask at once; more is refused with an error"
RETRY: Final = "how often or long something is tried before the error is told"

LOSES_NOTHING: Final[Mapping[str, tuple[str, ...]]] = {
    CACHE: (
        "crawler/cli/robots/verdict_batch.py:FILES_BYTES_MAX",
        "crawler/cli/robots/verdict_batch.py:FILES_MAX",
        "crawler/front_door/rate_limit.py:PEERS_MAX",
        "crawler/daemon/http/accounts.py:SESSIONS_MAX",
        "crawler/daemon/http/accounts.py:SESSIONS_OF_ACCOUNT_MAX",
        "crawler/daemon/monitoring/recent_contacts.py:HOSTS_MAX",
        "crawler/daemon/monitoring/health_monitor.py:SAMPLES_MAX",
        "crawler/embedding/caller_gate.py:LOOPBACK_NAMES_MAX",
        "crawler/mcp_server/tools.py:BYTES_MAX",
        "crawler/mcp_server/tools.py:PAGES_MAX",
        "crawler/scheduling/due_work.py:VAIN_MAX",
        "crawler/scheduling/host_leases.py:FULL_KEPT_MAX",
        "crawler/scheduling/host_leases.py:ELSEWHERE_MAX",
        "crawler/fetching/client_session.py:ORIGINS_MAX",
        "crawler/fetching/cookies.py:JARS_MAX", "crawler/fetching/direct.py:ENDPOINTS_MAX",
        "crawler/fetching/header_scope.py:DOMAINS_MAX",
        "crawler/fetching/resolver.py:REMEMBERED_MAX",
        "crawler/frontier/process_contacts.py:HOSTS_KEPT_MAX",
        "crawler/frontier/system_holds.py:SUSPECTS_MAX",
        "crawler/frontier/fair_queue.py:_FINISHED_MAX",
        "crawler/frontier/robots_budget.py:DOMAINS_MAX",
        "crawler/frontier/crowd_pace.py:STARTS_MAX",
        "crawler/frontier/robots_budget.py:LARGE_BYTES_MAX",
        "crawler/frontier/robots_budget.py:LARGE_BYTES_OF_DOMAIN_MAX",
        "crawler/frontier/robots_budget.py:SMALL_BYTES_MAX",
        "crawler/frontier/robots_budget.py:SMALL_BYTES_OF_DOMAIN_MAX",
        "storage/engine/robots_copies.py:COPY_BYTES_MAX",
        "crawler/frontier/robots_cache.py:ORIGINS_PER_HOST_MAX",
        "crawler/sinks/warc.py:_DIGESTS_MAX",
        "policies/robots/file.py:_RULE_SETS_MAX", "storage/engine/link_table.py:_CHARS_MAX",
        "storage/engine/name_ids.py:_KEPT_MAX", "policies/holds.py:UNKNOWN_MAX",
    ),
    BATCH: (
        "crawler/scheduling/due_work.py:DUE_ORIGINS_MAX",
        "crawler/frontier/host_queue.py:PREFETCH_MAX",
        "crawler/frontier/grant_limits.py:PASS_BEHIND_MAX",
        "crawler/frontier/grant_limits.py:PASS_MAX",
        "crawler/sinks/rotating_file.py:_BUFFER_BYTES_MAX",
        "crawler/sinks/journal.py:_LINES_BYTES_MAX",
        "crawler/processing/parse_queue.py:AT_ONCE_MAX", "storage/sqlite/statements.py:_ROWS_MAX",
        "storage/paging.py:ROWS_MAX", "crawler/daemon/api/operations.py:LIMIT_MAX",
        "storage/engine/url_pages.py:LOOKED_THROUGH_MAX",
    ),
    WAITS: (
        "crawler/scheduling/scheduler.py:WAITING_PAGES_MAX",
        "crawler/scheduling/host_leases.py:HOSTS_LEASED_MAX",
        "crawler/frontier/robots_budget.py:FETCHES_OF_DOMAIN_MAX",
        "crawler/frontier/crowd_pace.py:INTERVAL_S_MAX",
        "crawler/frontier/crowd_pace.py:COMMIT_GROWTH_MAX",
        "crawler/frontier/robots_budget.py:UNPARSED_BYTES_MAX",
        "crawler/frontier/robots_budget.py:UNPARSED_BYTES_OF_DOMAIN_MAX",
        "crawler/sinks/dispatch.py:BYTES_MAX",
        "crawler/sinks/dispatch.py:PAGES_MAX", "crawler/frontier/commit_buffer.py:LINKS_MAX",
        "crawler/frontier/commit_buffer.py:OUTCOMES_MAX",
        "crawler/processing/page_queue.py:UNVISITED_MAX",
        "crawler/frontier/permits.py:UNPARSED_BYTES_MAX",
        "crawler/frontier/large_bodies.py:BYTES_MAX",
        "crawler/frontier/large_bodies.py:DOMAIN_BYTES_MAX",
        "crawler/daemon/api/caller_requests.py:BODIES_BYTES_MAX",
        "crawler/cli/process.py:FILES_MAX", "crawler/cli/process.py:OTHER_FILES_MAX",
        "crawler/front_door/connections.py:CONNECTIONS_MAX",
        "crawler/front_door/listener.py:HANDSHAKES_MAX",
    ),
    SHOWN: (
        "storage/engine/url_pages.py:FAILURES_COUNTED_MAX",
        "storage/engine/row_lookup.py:_TABLES_MAX",
        "crawler/cli/robots/lint_report.py:LINE_CHARS_MAX",
        "crawler/cli/robots/verdict_view.py:LINE_CHARS_MAX",
        "crawler/daemon/api/operations.py:FAILED_OF_MAX",
        "crawler/daemon/monitoring/event_stream.py:EVENTS_PER_S_MAX",
        "crawler/console/charts.py:_POINTS_MAX", "crawler/console/drawing.py:READ_MAX",
        "crawler/console/robots_sheet.py:_LINES_MAX",
        "crawler/console/timeline.py:STRIP_CONTACTS_MAX",
        "crawler/daemon/api/robots_views.py:COMPARED_MAX",
        "crawler/daemon/api/robots_views.py:PAIRS_MAX",
        "crawler/daemon/api/robots_views.py:SHOWN_MAX",
        "storage/engine/page_queries.py:GROUPED_MAX", "storage/engine/url_pages.py:ORIGINS_MAX",
        "crawler/console/filters.py:_SHOWN_CHARS_MAX", "crawler/events.py:LOOKED_AT_MAX",
        "crawler/mcp_server/answers.py:QUOTED_CHARS_MAX",
        "crawler/mcp_server/answers.py:WHY_CHARS_MAX",
        "crawler/mcp_server/robots_report.py:LINES_SHOWN_MAX",
        "crawler/mcp_server/robots_report.py:LINE_CHARS_MAX",
        "crawler/mcp_server/robots_report.py:SITEMAPS_SHOWN_MAX",
        "policies/robots/agent_rules.py:RULES_SHOWN_MAX",
        "policies/robots/agent_rules.py:_TRIED_OCTETS_MAX",
        "storage/database_info.py:FINDINGS_MAX",
    ),
    SAME: (
        "crawler/operator_commands.py:SEEDS_NAMED_MAX",
        "crawler/documents/scan.py:_ATTRIBUTES_MAX", "crawler/documents/scan.py:_PASSED_MAX",
        "crawler/documents/scan.py:_PIECES_MAX", "crawler/documents/scan.py:_ROWS_MAX",
        "crawler/sinks/rotating_file.py:_TRIES_MAX",
        "crawler/sinks/mirror_paths.py:_NAME_CHARS_MAX",
        "crawler/sinks/mirror_paths.py:_PATH_CHARS_MAX",
        "crawler/cli/atomic_file.py:_NAME_CHARS_MAX",
        "crawler/processing/recrawl_planner.py:_VALIDATOR_CHARS_MAX",
        "policies/robots_state.py:_HEADER_CHARS_MAX",
        "policies/robots/index.py:_HITS_MAX", "policies/robots/index.py:_LENGTHS_MAX",
        "policies/robots/index.py:_SCAN_MAX", "policies/robots/index.py:_TUPLE_MAX",
        "policies/robots/agent_rules.py:_OCTETS_MAX", "policies/robots/agent_rules.py:_SHARE_MAX",
        "policies/robots/agent_rules.py:_WINDOWS_MAX", "policies/robots/search.py:_CHILDREN_MAX",
        "policies/robots/syntax.py:_PLAIN_MAX",
        "crawler/cli/robots/sources.py:FILE_BYTES_MAX",
        "crawler/fetching/resolver.py:PER_FAMILY_MAX",
    ),
    PACE: (
        "crawler/daemon/webhook/changes.py:CALM_S_MAX",
        "crawler/fetching/cookies.py:_AGE_S_MAX",
        "crawler/operator_commands.py:SLOW_S_MAX",
        "policies/pacing.py:LATENCY_TERM_MAX_S", "policies/pacing.py:DELAY_S_MAX",
        "policies/retries.py:DENIALS_MAX", "policies/retries.py:BACKOFF_S_MAX",
        "policies/retries.py:RETRY_AFTER_S_MAX",
        "policies/retries.py:_DOUBLINGS_MAX", "policies/retries.py:_RETRY_S_MAX",
        "policies/retries.py:_STEPS_TO_MAX", "policies/recrawl.py:GONE_MAX_S",
        "policies/robots/fields.py:NUMBER_MAX", "policies/robots/fields.py:_SENSE_DIGITS_MAX",
        "storage/records.py:WAIT_S_MAX", "storage/engine/leases.py:_NUMBER_MAX",
        "storage/engine/link_table.py:_PRIORITY_MAX", "storage/engine/link_table.py:_INTEGER_MAX",
        "storage/postgres/copying.py:_TURN_MAX",
        "storage/engine/refused_values.py:_NUMBER_MAX",
        "storage/engine/crawl_sessions.py:_SESSION_MAX",
        "storage/engine/crawl_sessions.py:_TIME_S_MAX",
        "crawler/scheduling/rejudging.py:JUDGING_MAX_S",
        "crawler/processing/worker.py:JUDGING_MAX_S",
        "crawler/embedding/middleware.py:UNREAD_MAX_S",
    ),
    NO_VALUE: (
        "crawler/config/checks.py:NAME_CHARS_MAX",
        "crawler/documents/charset.py:_HEADER_CHARS_MAX",
        "crawler/documents/prescan.py:_BYTES_MAX", "crawler/documents/sitemap_xml.py:ELEMENTS_MAX",
        "crawler/documents/sitemap_xml.py:_TAG_CHARS_MAX", "policies/listing.py:_DATE_CHARS_MAX",
        "policies/retries.py:_DATE_CHARS_MAX", "policies/schemes.py:_CHARS_MAX",
        "storage/sqlite/file_lock.py:_OWNER_BYTES_MAX", "crawler/sinks/warc.py:_HEAD_BYTES_MAX",
        "crawler/testing/local_web.py:_HEAD_BYTES_MAX", "crawler/sinks/inert.py:_ENTITIES_MAX",
        "crawler/sinks/inert.py:_EXPANSION_CHARS_MAX", "crawler/sinks/symbols.py:_DEPTH_MAX",
        "crawler/sinks/requisites.py:MANIFEST_BYTES_MAX",
    ),
    ASKED: (
        "crawler/cli/worker_options.py:WORKERS_MAX",
        "crawler/cli/robots/verdict_batch.py:LINE_BYTES_MAX",
        "crawler/config/loading.py:CONFIG_BYTES_MAX",
        "crawler/daemon/api/caller_requests.py:REQUESTS_MAX",
        "crawler/daemon/api/caller_requests.py:QUERIES_MAX",
        "crawler/daemon/api/caller_requests.py:BODY_BYTES_MAX",
        "crawler/embedding/request_arguments.py:WAIT_S_MAX",
        "crawler/daemon/api/caller_requests.py:LENT_S_MAX",
        "crawler/embedding/remote_requests.py:CALLS_MAX",
        "crawler/daemon/api/caller_requests.py:LENT_MAX",
        "crawler/daemon/api/history_view.py:POINTS_MAX",
        "crawler/operator_commands.py:HOSTS_NAMED_MAX",
        "crawler/operator_commands.py:SEEDS_MAX",
        "crawler/operator_commands.py:SEED_BYTES_MAX",
        "crawler/daemon/api/robots_check.py:AGENTS_MAX",
        "crawler/daemon/api/robots_check.py:AGENT_BYTES_MAX",
        "crawler/daemon/api/robots_check.py:URL_BYTES_MAX",
        "crawler/daemon/api/robots_check.py:VERDICTS_MAX",
        "crawler/daemon/control_client.py:ANSWER_BYTES_MAX",
        "crawler/mcp_server/arguments.py:PART_CHARS_MAX",
        "crawler/mcp_server/arguments.py:URL_CHARS_MAX",
        "crawler/mcp_server/arguments.py:WAIT_S_MAX",
        "crawler/front_door/connections.py:HEAD_BYTES_MAX",
        "crawler/front_door/request_handler.py:HEADERS_MAX",
        "crawler/front_door/calls_server.py:BODY_BYTES_MAX",
        "crawler/front_door/calls_server.py:CALLS_MAX",
        "crawler/mcp_server/answers.py:CALLS_OF_HOST_MAX",
        "crawler/embedding/link_choice.py:DATA_BYTES_MAX",
        "crawler/daemon/http/guards.py:STREAMS_MAX",
        "crawler/daemon/http/guards.py:STREAMS_OF_ACCOUNT_MAX",
        "crawler/daemon/http/guards.py:STREAMS_OF_PEER_MAX",
        "crawler/daemon/http/application.py:BODY_BYTES_MAX",
        "crawler/console/login.py:FORM_BYTES_MAX",
        "crawler/front_door/tls.py:PEM_BYTES_MAX",
        "crawler/console/general_pages.py:URLS_MAX",
        "policies/scope.py:HOPS_MAX",
        "storage/secret_sources.py:SECRET_BYTES_MAX",
    ),
    RETRY: (
        "crawler/daemon/webhook/delivery.py:RETRY_S_MAX",
        "crawler/cli/supervisor.py:FAILURES_MAX",
        "crawler/frontier/system_holds.py:OURS_IN_A_ROW_MAX",
        "crawler/frontier/system_holds.py:OUTAGES_MAX",
        "crawler/frontier/host_queue.py:EXCUSES_MAX",
        "crawler/periodic.py:FAILURES_MAX",
        "storage/engine/transactions.py:CONFLICTS_MAX",
        "storage/timekeeper.py:KEPT_MAX",
        "storage/postgres/database.py:_WORKERS_MAX",
        "storage/sqlite/maintenance.py:LOCK_WAIT_S_MAX",
        "storage/transient_faults.py:MEMORY_WAIT_S_MAX", "storage/transient_faults.py:RETRY_S_MAX",
        "storage/transient_faults.py:UNKNOWN_WAIT_S_MAX",
        "storage/transient_faults.py:START_WAIT_S_MAX",
    ),
}  # fmt: skip


def listed() -> list[str]:
    harmless = [name for names in LOSES_NOTHING.values() for name in names]
    return [*SHOWN_HERE, *SHOWN_ELSEWHERE, *harmless]


def test_every_bound_has_its_entry_and_every_entry_its_bound() -> None:
    names = listed()
    assert sorted(bounds() - set(names)) == [], (
        "say what is lost beyond it, and where a user finds that"
    )
    assert sorted(set(names) - bounds()) == [], "there is no such bound any more"
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", SHOWN_HERE)
def test_what_is_lost_leaves_a_trace(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    SHOWN_HERE[name](monkeypatch, caplog)


def test_a_test_elsewhere_finds_the_trace() -> None:
    for name, (_, place) in SHOWN_ELSEWHERE.items():
        path, _, test = place.partition("::")
        source = (ROOT / path).read_text("utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE), name
