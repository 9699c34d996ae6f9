"""What is known of an origin's robots.txt over time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.robots import BYTES_MAX, DIALECTS
from policies.robots_policy import Closed, Governed, Open, RobotsPolicy, Unknown, robots_policy
from policies.robots_state import (
    GONE_AGAIN_S,
    UNKNOWN,
    RobotsFetch,
    RobotsRules,
    RobotsState,
    Unreachable,
    is_due,
    next_due_at,
    next_state,
)
from tests.tables import each

T0 = 1_795_000_000.0
HOUR = 3_600.0
DAY = 24 * HOUR
BODY = b"User-agent: *\nDisallow: /private/\n"
FOUND = RobotsFetch(status=200, body=BODY, url="http://a.test/robots.txt")


def rules(*dialect: str, unreachable: Unreachable | None = None) -> RobotsRules:
    return RobotsRules(dialect=dialect or ("slurp",), unreachable=unreachable)


def after(
    *news: tuple[float, RobotsFetch], by: RobotsRules, start: RobotsState = UNKNOWN
) -> RobotsState:
    """What is known after news at these times after T0."""
    access = start
    for at_s, answer in news:
        access = next_state(access, answer, now_s=T0 + at_s, rules=by)
    return access


def at(access: RobotsState, in_s: float, by: RobotsRules) -> RobotsPolicy:
    return robots_policy(access, now_s=T0 + in_s, rules=by)


def status(code: int, **headers: str) -> RobotsFetch:
    body = BODY if 200 <= code < 300 else None
    return RobotsFetch(
        status=code,
        body=body,
        url="http://a.test/robots.txt",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


NO_ANSWER = RobotsFetch(failure="the connection was reset")
BROKEN = RobotsFetch(status=200, body=b"Disa", broken_body=True, url="http://a.test/robots.txt")

# ---------------------------------------------------------------- nothing known, found


def test_an_unknown_origin_must_be_asked_first() -> None:
    assert is_due(UNKNOWN, T0)
    assert next_due_at(UNKNOWN) is None
    assert at(UNKNOWN, 0, rules()) == Unknown()


def test_a_body_governs_until_it_expires() -> None:
    access = after((0, FOUND), by=rules())
    assert at(access, 1, rules()) == Governed(body=BODY, copy_at=T0, stale=False)
    assert not is_due(access, T0 + DAY - 1)
    assert is_due(access, T0 + DAY)
    assert at(access, DAY, rules()) == Governed(body=BODY, copy_at=T0, stale=True)


def test_every_field_can_be_kept_by_a_store() -> None:
    access = after((0, status(200, etag='"a"')), (1, status(503)), by=rules())
    for field in msgspec.structs.fields(access):
        value = getattr(access, field.name)
        assert value is None or type(value) in (str, bytes, float, int, bool)


def test_a_body_is_cut_at_500_kib_and_says_so() -> None:
    news = msgspec.structs.replace(FOUND, body=b"#" * (BYTES_MAX + 1))
    access = after((0, news), by=rules())
    assert access.body is not None
    assert len(access.body) == BYTES_MAX
    assert access.truncated
    found = at(access, 0, rules())
    assert isinstance(found, Governed)
    assert found.truncated


def test_an_empty_body_is_a_copy_that_forbids_nothing() -> None:
    access = after((0, RobotsFetch(status=204, body=b"", url="u")), by=rules())
    assert at(access, 0, rules()) == Governed(body=b"", copy_at=T0, stale=False)


@each("code", [400, 404, 410, 418, 451, 301, 308, 499])
@each("name", DIALECTS)
def test_a_body_of_another_status_is_never_parsed(name: str, code: int) -> None:
    access = after(
        (0, RobotsFetch(status=code, body=b"User-agent: *\nDisallow: /", url="u")),
        by=rules(name),
    )
    assert access.body is None
    assert isinstance(at(access, 0, rules(name)), Open)


# ---------------------------------------------------------------- statuses without a copy

CLOSED, OPEN = "closed", "open"
DOORS = [
    # dialect, 401, 403, 404, 429, 503, no answer, broken body
    ("slurp", OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN),
    ("rfc9309", OPEN, OPEN, OPEN, CLOSED, CLOSED, CLOSED, CLOSED),
    ("google", OPEN, OPEN, OPEN, CLOSED, CLOSED, CLOSED, CLOSED),
    ("google2010", OPEN, OPEN, OPEN, CLOSED, CLOSED, CLOSED, CLOSED),
    ("bing", OPEN, OPEN, OPEN, CLOSED, CLOSED, CLOSED, CLOSED),
    ("teoma", OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN),
    ("res1996", CLOSED, CLOSED, OPEN, CLOSED, CLOSED, CLOSED, CLOSED),
    ("res1994", OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN),
    ("yandex", OPEN, OPEN, OPEN, OPEN, OPEN, OPEN, OPEN),
]
NEWS = [status(401), status(403), status(404), status(429), status(503), NO_ANSWER, BROKEN]
CASES = [(row[0], news, door) for row in DOORS for news, door in zip(NEWS, row[1:], strict=True)]


@each(("name", "news", "door"), CASES)
def test_what_an_answer_without_a_copy_means(name: str, news: RobotsFetch, door: str) -> None:
    """The rows of the table: 401 and 403, other 4xx, and what cannot be had."""
    access = after((0, news), by=rules(name))
    found = at(access, 1, rules(name))
    assert isinstance(found, Closed if door == CLOSED else Open)
    assert isinstance(found, (Closed, Open))
    assert found.reason
    if isinstance(found, Open):
        assert found.answered == (news.status in (401, 403, 404))


def test_what_no_source_says_is_called_ours() -> None:
    """1994 has no status rules: the reason names them as our reading."""
    found = at(after((0, status(401)), by=rules("res1994")), 0, rules("res1994"))
    assert isinstance(found, Open)
    assert "the 1994 document has no rule" in found.reason


@each("override", list(Unreachable))
@each("name", DIALECTS)
def test_unreachable_in_the_config_overrides_the_dialect(name: str, override: Unreachable) -> None:
    by = rules(name, unreachable=override)
    found = at(after((0, status(503)), by=by), 13 * HOUR, by)
    assert isinstance(found, Open if override is Unreachable.OPEN else Closed)
    assert "robots.unreachable" in found.reason


def test_unreachable_does_not_open_a_404_or_close_it() -> None:
    by = rules("slurp", unreachable=Unreachable.CLOSED)
    assert isinstance(at(after((0, status(404)), by=by), 0, by), Open)


def test_obey_false_opens_everything() -> None:
    by = RobotsRules(obey=False)
    found = at(after((0, FOUND), by=by), 0, by)
    assert found == Open(reason="robots.obey = false", answered=True)


# ---------------------------------------------------------------- lifetimes

EXPIRES_IN_2H = "Sat, 21 Nov 2026 02:00:00 GMT"
DATE = "Sat, 21 Nov 2026 00:00:00 GMT"
LIFETIMES = [
    ("slurp", {"cache_control": "max-age=60"}, DAY),
    ("slurp", {}, DAY),
    ("rfc9309", {}, DAY),
    ("rfc9309", {"cache_control": "max-age=60"}, HOUR),
    ("rfc9309", {"cache_control": "public, max-age=7200"}, 2 * HOUR),
    ("rfc9309", {"cache_control": 'max-age="7200"'}, 2 * HOUR),
    ("rfc9309", {"cache_control": "max-age=604800"}, DAY),
    ("rfc9309", {"cache_control": "no-store"}, HOUR),
    ("rfc9309", {"cache_control": "max-age=soon"}, DAY),
    ("google", {"cache_control": "max-age=172800"}, 2 * DAY),
    ("google", {"cache_control": "max-age=1"}, HOUR),
    ("google", {"cache_control": "max-age=99999999999"}, 30 * DAY),
    ("bing", {"cache_control": "max-age=1"}, DAY),
    ("teoma", {}, DAY),
    ("res1996", {}, 7 * DAY),
    ("res1996", {"expires": EXPIRES_IN_2H, "date": DATE}, 2 * HOUR),
    ("res1996", {"expires": "0"}, HOUR),
    ("res1996", {"expires": DATE, "date": DATE}, HOUR),
    ("res1996", {"expires": "Fri, 20 Nov 2037 00:00:00 GMT", "date": DATE}, 7 * DAY),
    ("res1996", {"cache_control": "max-age=60"}, 7 * DAY),
    ("res1994", {}, DAY),
]


@each(("name", "headers", "kept_s"), LIFETIMES)
@each("code", [200, 404])
def test_how_long_an_answer_is_kept(
    name: str, headers: dict[str, str], kept_s: float, code: int
) -> None:
    access = after((0, status(code, **headers)), by=rules(name))
    assert access.expires_at == T0 + kept_s


def test_of_several_dialects_the_shortest_lifetime_counts() -> None:
    by = rules("res1996", "slurp", "rfc9309")
    assert after((0, status(200, cache_control="max-age=7200")), by=by).expires_at == T0 + 2 * HOUR


def test_of_several_dialects_closed_beats_rules_beats_open() -> None:
    by = rules("slurp", "rfc9309")
    assert isinstance(at(after((0, status(503)), by=by), 0, by), Closed)
    by = rules("slurp", "google")
    failing = after((0, FOUND), (DAY, status(503)), by=by)
    assert isinstance(at(failing, DAY + 1, by), Closed)
    assert isinstance(at(failing, DAY + 13 * HOUR, by), Governed)


# ---------------------------------------------------------------- the retry clock


def test_the_retry_clock_while_it_cannot_be_had() -> None:
    """2 s, 10 s, 30 s, then 1 min doubling to 6 h; the count persists."""
    access, waits, now_s = UNKNOWN, [], T0
    for _ in range(14):
        access = next_state(access, status(503), now_s=now_s, rules=rules())
        assert access.retry_at is not None
        waits.append(access.retry_at - now_s)
        assert not is_due(access, access.retry_at - 0.5)
        assert is_due(access, access.retry_at)
        now_s = access.retry_at
    assert waits[:5] == [2, 10, 30, 60, 120]
    assert waits[-1] == 6 * HOUR
    assert access.failures == 14
    assert access.unreachable_since == T0


@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_on_robots_is_respected(code: int) -> None:
    assert after((0, status(code, retry_after="120")), by=rules()).retry_at == T0 + 120
    dated = next_state(
        UNKNOWN, status(code, retry_after=EXPIRES_IN_2H), now_s=1_795_219_200.0, rules=rules()
    )
    assert dated.retry_at == 1_795_219_200.0 + 2 * HOUR
    assert after((0, status(code, retry_after="1")), by=rules()).retry_at == T0 + 2
    assert after((0, status(code, retry_after="9999999")), by=rules()).retry_at == T0 + 30 * DAY
    assert after((0, status(code, retry_after="nonsense")), by=rules()).retry_at == T0 + 2


def test_an_answer_ends_the_failing() -> None:
    access = after((0, status(503)), (2, NO_ANSWER), (12, FOUND), by=rules())
    assert access.failures == 0
    assert access.retry_at is None
    assert access.error is None
    assert isinstance(at(access, 13, rules()), Governed)


def test_res1994_asks_again_when_the_day_is_over() -> None:
    assert after((0, status(503)), by=rules("res1994")).retry_at == T0 + DAY


def test_the_last_failure_is_told_in_words() -> None:
    assert after((0, NO_ANSWER), by=rules()).error == "the connection was reset"
    assert after((0, status(500)), by=rules()).error == "answered 500"
    assert "broken" in (after((0, BROKEN), by=rules()).error or "")


# ---------------------------------------------------------------- copies

NOT_GOOGLE = [name for name in DIALECTS if not name.startswith("google")]


@each("name", NOT_GOOGLE)
def test_the_last_good_copy_holds_up_to_30_days(name: str) -> None:
    access = after((0, FOUND), (8 * DAY, status(500)), (8 * DAY + 2, NO_ANSWER), by=rules(name))
    assert at(access, 30 * DAY, rules(name)) == Governed(body=BODY, copy_at=T0, stale=True)
    later = at(access, 30 * DAY + 1, rules(name))
    fresh = at(after((0, status(500)), by=rules(name)), 0, rules(name))
    assert type(later) is type(fresh)


def test_google_closes_for_12_hours_then_takes_the_copy_then_looks_whether_the_site_answers() -> (
    None
):
    """Google's documentation: 12 hours closed, 30 days by the copy, then by the site's answers."""
    by = rules("google")
    access = after((0, FOUND), (DAY, status(503)), by=by)
    assert isinstance(at(access, DAY + 12 * HOUR - 1, by), Closed)
    assert isinstance(at(access, DAY + 12 * HOUR, by), Governed)
    assert isinstance(at(access, 31 * DAY - 1, by), Governed)
    assert isinstance(at(access, 31 * DAY, by), Open)
    silent = next_state(access, NO_ANSWER, now_s=T0 + 31 * DAY, rules=by)
    assert isinstance(at(silent, 31 * DAY, by), Closed)


def test_google_opens_after_12_hours_where_there_is_no_copy() -> None:
    by = rules("google")
    access = after((0, NO_ANSWER), by=by)
    assert isinstance(at(access, 12 * HOUR - 1, by), Closed)
    found = at(access, 12 * HOUR, by)
    assert isinstance(found, Open)
    assert not found.answered


def test_an_expired_copy_of_over_30_days_is_asked_for_again_first() -> None:
    access = after((0, FOUND), by=rules())
    assert at(access, 31 * DAY, rules()) == Unknown()
    assert is_due(access, T0 + 31 * DAY)


@each("code", [401, 403, 404, 410])
@each("name", DIALECTS)
def test_a_copy_holds_until_a_second_4xx_15_minutes_later(name: str, code: int) -> None:
    by = rules(name)
    once = after((0, FOUND), (DAY, status(code)), by=by)
    assert at(once, DAY, by) == Governed(body=BODY, copy_at=T0, stale=True)
    assert next_due_at(once) == T0 + DAY + GONE_AGAIN_S
    early = next_state(once, status(code), now_s=T0 + DAY + 60, rules=by)
    assert isinstance(at(early, DAY + 61, by), Governed)
    assert next_due_at(early) == T0 + DAY + GONE_AGAIN_S
    twice = next_state(early, status(code), now_s=T0 + DAY + GONE_AGAIN_S, rules=by)
    assert twice.body is None
    assert isinstance(at(twice, DAY + GONE_AGAIN_S, by), (Open, Closed))
    assert twice.expires_at is not None
    assert twice.expires_at > T0 + DAY + HOUR


def test_a_copy_that_came_back_forgets_the_first_4xx() -> None:
    access = after(
        (0, FOUND), (DAY, status(404)), (DAY + 900, FOUND), (3 * DAY, status(404)), by=rules()
    )
    assert isinstance(at(access, 3 * DAY, rules()), Governed)


def test_a_failure_between_two_4xx_does_not_reset_their_distance() -> None:
    access = after((0, FOUND), (DAY, status(404)), (DAY + 900, status(500)), by=rules())
    assert isinstance(at(access, DAY + 901, rules()), Governed)
    access = next_state(access, status(404), now_s=T0 + DAY + 902, rules=rules())
    assert access.body is None


def test_a_sixth_redirect_counts_as_absent() -> None:
    for code in (302, None):
        access = after((0, RobotsFetch(status=code, redirect_overflow=True)), by=rules("rfc9309"))
        found = at(access, 0, rules("rfc9309"))
        assert isinstance(found, Open)
        assert found.answered
        assert "redirect" in found.reason


# ---------------------------------------------------------------- validators


def test_validators_belong_to_the_url_that_gave_them() -> None:
    news = RobotsFetch(status=200, body=BODY, url="http://b.test/r.txt", headers={"etag": '"1"'})
    access = after((0, news), by=rules())
    assert (access.etag, access.validators_url) == ('"1"', "http://b.test/r.txt")
    assert after((0, FOUND), by=rules()).validators_url is None


def test_304_confirms_the_copy() -> None:
    access = after((0, status(200, etag='"1"')), (DAY, status(304)), by=rules())
    assert at(access, DAY, rules()) == Governed(body=BODY, copy_at=T0 + DAY, stale=False)
    assert access.expires_at == T0 + 2 * DAY
    assert access.etag == '"1"'


def test_304_without_a_copy_is_a_failure() -> None:
    access = after((0, status(304)), by=rules("rfc9309"))
    assert isinstance(at(access, 0, rules("rfc9309")), Closed)
    assert access.retry_at == T0 + 2


def test_a_clock_set_back_by_a_day_does_not_keep_robots_for_ever() -> None:
    access = after((0, FOUND), by=rules())
    assert is_due(access, T0 - 2 * DAY)
    assert not is_due(access, T0 - 1)


# ---------------------------------------------------------------- properties

ANY_NEWS = st.one_of(
    st.sampled_from([FOUND, NO_ANSWER, BROKEN, RobotsFetch(status=302, redirect_overflow=True)]),
    st.builds(
        status,
        st.sampled_from([200, 204, 301, 304, 401, 403, 404, 410, 429, 500, 503, 599, 999]),
    ),
    st.builds(
        lambda code, value: status(code, retry_after=value, expires=value, cache_control=value),
        st.sampled_from([200, 404, 429, 503]),
        st.text(max_size=20),
    ),
)
STEPS = st.lists(st.tuples(st.floats(0, 20 * DAY), ANY_NEWS), max_size=12)


@given(
    steps=STEPS,
    names=st.lists(st.sampled_from(sorted(DIALECTS)), min_size=1, max_size=3),
    override=st.sampled_from([None, *Unreachable]),
    wait_s=st.floats(0, 40 * DAY),
)
def test_never_opens_what_its_row_closes(
    steps: list[tuple[float, RobotsFetch]],
    names: list[str],
    override: Unreachable | None,
    wait_s: float,
) -> None:
    """An open door has an answer that opens it, or a row (or the config) that says so."""
    by = rules(*names, unreachable=override)
    access, now_s = UNKNOWN, T0
    for step_s, news in steps:
        now_s += step_s
        before = access
        access = next_state(access, news, now_s=now_s, rules=by)
        at_s = next_due_at(access)
        assert at_s is not None
        assert at_s > now_s
        if news.status is None and not news.redirect_overflow:
            assert access.body == before.body
    now_s += wait_s
    found = robots_policy(access, now_s=now_s, rules=by)
    rows = [DIALECTS[name] for name in names]
    if not steps:
        assert found == Unknown()
    if not isinstance(found, Open):
        return
    if found.answered:
        assert access.unreachable_since is None
        assert access.body is None
        denied = access.status in (401, 403)
        assert all((row.denied if denied else row.missing).value == "open" for row in rows)
        return
    assert access.unreachable_since is not None
    if override is not None:
        assert override is Unreachable.OPEN
        return
    for row in rows:
        assert row.unreachable.value == "open"
        assert now_s >= access.unreachable_since + row.closed_first_s


def test_a_file_that_never_answered_is_due_when_the_clock_was_set_back() -> None:
    state = RobotsState(
        failures=1, unreachable_since=1_000_000.0, retry_at=1_000_300.0, error="no answer"
    )
    assert not is_due(state, 1_000_100.0)
    assert is_due(state, 1_000_000.0 - 30 * 86_400)
