"""Every statement finds its rows by an index; what reads a table from end to end is listed here."""

from __future__ import annotations

import re
import sqlite3

import pytest

from storage import paging
from storage.engine import page_queries
from storage.sqlite.schema import migrate
from storage.sqlite.statements import SqliteStatements, for_rows, statements

# What may read a whole table, and why.
SCANS = {
    "crawl": {"crawl"},  # one row
    "secret": {"secret"},
    "some_chains": {"chains"},  # a few, from its beginning
    "new_session": {"crawl"},
    "put_time": {"crawl"},
    "put_paused": {"crawl"},
    "paused": {"crawl"},
    "recheck_delays": {"slots"},  # when delays were changed
    "mark_all_to_rejudge": {"origins"},  # when the config reads robots.txt in another way
    "totals": {"slots"},  # at the opening, and by readers; one row a host
    "failed_slots": {"o"},  # by hand
    "sizes": {"origins", "copies"},
    "last_sessions": {"sessions"},
    "marks_excess": {"marks"},  # an index of some thousand
    "session_names": {"sessions"},  # from the newest, 20 of them
}
# Read in the order of an index that holds nothing but candidates.
PARTIAL = {
    "slots_claimable", "slots_leased", "origins_robots_due", "origins_with_work", "urls_queue",
    "urls_waiting", "origins_to_rejudge",
}  # fmt: skip
NO_TABLES = {"CONSTANT", "v", "c", "q", "r", "json_each"}
# What a crawl does all the time: the index each must use.
HOT = {
    "known_ids": ["PRIMARY KEY (origin=? AND fingerprint=?)"],
    "claimable": ["INDEX slots_claimable (ready_at<?)"],
    "next_claim": ["INDEX slots_claimable"],
    "prefetch": [
        "origins_with_work (slot=? AND rowid>?)", "urls_queue (origin=?)", "urls_waiting (origin=?",
    ],
    "promote": ["INDEX origins_with_work (slot=?)", "urls_waiting (origin=? AND due_at<?)"],
    "settle_slots": ["origins_with_work (slot=?)", "urls_queue (origin=?)", "urls_waiting"],
    "leased": ["slots_leased"],
    "address_delays": ["slots_at_address (address=?)"],
    "void_leases": ["slots_leased"],
    "leading_to": ["redirects_by_target (target=? AND rowid>?)"],
    "redirect_targets": ["redirects_by_target (target=?)"],
    "robots_due": ["origins_robots_due (robots_at>? AND robots_at<?)"],
    "next_robots": ["origins_robots_due (robots_at>?)"],
    "rejudge_due": ["origins_to_rejudge (rejudge_at>?)"],
    "blocked_by_robots": ["b USING PRIMARY KEY (origin=? AND id>?)"],
    "ungoverned": ["g USING PRIMARY KEY (origin=?)"],
    "some_queued": ["urls_queue (origin=?)", "urls_waiting (origin=? AND due_at>?)"],
    "some_failed": ["f USING INTEGER PRIMARY KEY (rowid>?)"],
}  # fmt: skip


@pytest.fixture(scope="module")
def db():
    made = sqlite3.connect(":memory:", isolation_level=None)
    migrate(made)
    yield made
    made.close()


def plan(db, sql):
    count = len(re.findall(r"\?(?!\d)", sql))
    count = max([count, *(int(n) for n in re.findall(r"\?(\d+)", sql))])
    return [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + sql, [None] * count)]


def scans(steps):
    """Tables read from end to end, other than the values handed in and views of them."""
    for step in steps:
        found = re.match(r"SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?", step)
        if found is None or found[2] in PARTIAL or found[1] in NO_TABLES:
            continue
        if not found[1].isdigit() and not found[1].startswith("(subquery"):
            yield found[1]


def test_no_statement_reads_a_whole_table(db):
    for name in statements():
        for sql in {for_rows(name, rows) for rows in (1, 2, 16, 64)}:
            steps = plan(db, sql)
            assert set(scans(steps)) <= SCANS.get(name, set()), (name, sql, steps)
            assert not [step for step in steps if "AUTOMATIC" in step], (name, sql, steps)


def test_a_hot_query_uses_its_index(db):
    for name, indexes in HOT.items():
        for rows in (1, 16):
            steps = plan(db, for_rows(name, rows))
            for wanted in indexes:
                assert any(wanted in step for step in steps), (name, wanted, steps)


def test_a_hot_query_sorts_nothing(db):
    for name in ("claimable", "prefetch", "next_robots", "rejudge_due"):
        steps = plan(db, for_rows(name, 16))
        assert not [step for step in steps if "TEMP B-TREE" in step], (name, steps)


def test_one_row_of_a_view_is_found_by_its_id(db):
    for view in ("visited", "blocked", "failed", "queued"):
        steps = plan(db, f"SELECT * FROM {view} WHERE id = ?")
        scanned = [step for step in steps if step.startswith("SCAN") and step != "SCAN crawl"]
        assert not scanned, (view, steps)


@pytest.mark.parametrize("asked", ["status = 404", "content_type = 'text/html'", "indexable = 0"])
def test_pages_are_not_looked_for_by_what_they_share(db, asked):
    """There is no index of pages by kind: it would be made anew, in memory, for every query."""
    steps = plan(db, f"SELECT * FROM visited WHERE {asked}")
    assert not [step for step in steps if "AUTOMATIC" in step], steps


def test_hosts_by_name_are_read_along_the_index(db):
    """A page costs the same wherever it begins, at any number of hosts."""
    after = paging.mark("host", ("m.test", "m.test"))
    for sort in ("host", "-host"):
        query = page_queries.hosts(
            search="", state="all", sort=sort, limit=100, after="", now_s=0.0
        )
        steps = named_plan(db, query)
        assert any("USING INDEX sqlite_autoindex_slots_1" in step for step in steps), steps
        assert not [step for step in steps if "TEMP B-TREE" in step], steps
    query = page_queries.hosts(
        search="", state="all", sort="host", limit=100, after=after, now_s=0.0
    )
    assert any("(name>?)" in step for step in named_plan(db, query))


@pytest.mark.parametrize("asked", [{}, {"rule": "/x"}, {"host": "a.test"}])
def test_blocked_urls_are_read_along_the_index(db, asked):
    query = page_queries.blocked(
        **{"host": None, "rule": "", "limit": 100, "after": paging.mark("id", (1, 2)), **asked}
    )
    steps = named_plan(db, query)
    assert any("SEARCH b USING PRIMARY KEY (" in step for step in steps), steps
    assert not [step for step in steps if "TEMP B-TREE FOR ORDER" in step], steps


def named_plan(db, query):
    values = query.values | {"origins": [1, 2]}
    return [
        row[3] for row in SqliteStatements(db).select("EXPLAIN QUERY PLAN " + query.sql, values)
    ]
