"""Which changes of health are reported: those that last, in few messages."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from crawler.config.webhook import CHECKS, WebhookConfig, WebhookLevel
from crawler.daemon.health import Check, CheckName, Health, HealthState
from crawler.daemon.webhook.changes import CALM_S_MAX, Change, Event, HealthChanges, notification_of

OK, WARNING, BAD = HealthState
STEP_S = 2.0
WALL_S = 1_700_000_000.0
RULES = WebhookConfig(after_s=60, repeat_s=3_600)


def health_of(state: HealthState, name: CheckName = CheckName.NETWORK) -> Health:
    return Health(state=state, checks=(Check(check=name, state=state, sentence="So it is."),))


def reported(
    spans: Iterable[tuple[HealthState, float]],
    rules: WebhookConfig = RULES,
    name: CheckName = CheckName.NETWORK,
) -> list[tuple[float, Change]]:
    """What is reported of one check that is in these states for so many seconds each, and when."""
    changes, found, now_s = HealthChanges(), [], 0.0
    for state, length_s in spans:
        for _ in range(int(length_s / STEP_S)):
            seen = changes.seen(health_of(state, name), rules, now_s=now_s, at_s=WALL_S + now_s)
            found += [(now_s, one) for one in seen]
            now_s += STEP_S
    return found


def events(spans: Iterable[tuple[HealthState, float]], **rules: object) -> list[tuple[float, str]]:
    made = WebhookConfig(**({"after_s": 60.0, "repeat_s": 3_600.0} | rules))  # type: ignore[arg-type]
    return [(at_s, one.event.value) for at_s, one in reported(spans, made)]


def test_the_config_names_every_check_but_that_of_the_webhook() -> None:
    assert set(CHECKS) == {one.value for one in CheckName} - {"webhook"}
    assert {one.value for one in WebhookLevel} < {one.value for one in HealthState}


def test_a_trouble_is_reported_when_it_has_lasted_and_when_it_is_over() -> None:
    (began_s, began), (over_s, over) = reported([(OK, 100), (BAD, 300), (OK, 300)])
    assert (began_s, began.event, began.since, began.lasted_s) == (
        160, Event.BEGAN, WALL_S + 100, 60,
    )  # fmt: skip
    assert (over_s, over.event, over.since, over.lasted_s) == (
        460, Event.RECOVERED, WALL_S + 100, 300,
    )  # fmt: skip
    assert over.check.state is OK


def test_a_short_trouble_is_not_reported() -> None:
    assert events([(OK, 10), (BAD, 58), (OK, 600), (BAD, 58), (OK, 600)]) == []


def test_a_trouble_at_the_start_is_reported() -> None:
    assert events([(BAD, 100)]) == [(60, "began")]


def test_it_is_repeated_while_it_lasts() -> None:
    assert events([(BAD, 8_000)]) == [(60, "began"), (3_660, "continues"), (7_260, "continues")]
    assert events([(BAD, 8_000)], repeat_s=float("inf")) == [(60, "began")]


def test_a_warning_is_reported_only_if_the_config_says_so() -> None:
    spans = [(WARNING, 100.0), (BAD, 100.0), (WARNING, 100.0), (OK, 100.0)]
    assert events(spans) == [(160, "began"), (260, "recovered")]
    assert events(spans, level=WebhookLevel.WARNING) == [
        (60, "began"), (160, "worsened"), (360, "recovered"),
    ]  # fmt: skip


def test_only_the_selected_checks_are_reported() -> None:
    spans = [(BAD, 100.0)]
    assert events(spans, checks=("disk", "network")) == [(60, "began")]
    assert events(spans, checks=("disk",)) == []
    assert reported(spans, name=CheckName.WEBHOOK) == []


def test_a_check_that_flaps_is_one_trouble() -> None:
    flapping = [(BAD, 20.0), (OK, 20.0)] * 60  # for 40 minutes
    assert events([*flapping, (OK, 300.0)]) == [(80, "began"), (2_440, "recovered")]


def test_a_check_that_recovers_again_and_again_is_reported_less_and_less() -> None:
    hours = 4
    cycles = [(BAD, 70.0), (OK, 70.0)] * (hours * 3_600 // 140)
    told = events(cycles)
    assert len(told) <= hours * 6  # without a limit: over 200
    assert told[1][1] == "recovered"


@given(
    st.lists(
        st.tuples(st.sampled_from(list(HealthState)), st.sampled_from([2.0, 30.0, 62.0, 400.0])),
        max_size=60,
    ),
    st.sampled_from([0.0, 10.0, 60.0]),
)
def test_messages_alternate_and_are_few(
    spans: list[tuple[HealthState, float]], after_s: float
) -> None:
    told = events(spans, after_s=after_s, repeat_s=float("inf"))
    names = [name for _, name in told]
    assert names[::2] == ["began"] * len(names[::2])
    assert names[1::2] == ["recovered"] * len(names[1::2])
    for at_s, _ in told:
        within = [one for one, _ in told if at_s <= one < at_s + CALM_S_MAX]
        assert len(within) <= 18


def test_the_text_of_a_notification() -> None:
    for event, state, words in [
        (Event.BEGAN, BAD, "crawl: network is bad. So it is."),
        (Event.BEGAN, WARNING, "crawl: network has a warning. So it is."),
        (Event.WORSENED, BAD, "crawl: network is bad now. So it is."),
        (Event.CONTINUES, BAD, "crawl: network is still bad, after 2 min. So it is."),
        (Event.RECOVERED, OK, "crawl: network is ok again, after 2 min. So it is."),
        (Event.RECOVERED, WARNING, "crawl: network is no longer bad, after 2 min. So it is."),
    ]:
        change = Change(event=event, check=health_of(state).checks[0], since=WALL_S, lasted_s=120)
        made = notification_of(
            change, daemon="crawl", health=BAD, page="http://x/", at_s=WALL_S + 120
        )
        assert made.text == words


def test_a_notification_shows_hostile_text_harmlessly() -> None:
    """A sentence may name hosts and errors."""
    check = msgspec.structs.replace(health_of(BAD).checks[0], sentence="No\n\x1b[2J\u202e\x85.")
    change = Change(event=Event.BEGAN, check=check, since=WALL_S, lasted_s=120)
    made = notification_of(change, daemon="crawl", health=BAD, page="http://x/", at_s=WALL_S + 120)
    assert made.sentence == "No\ufffd\ufffd[2J\ufffd\ufffd."
    assert made.text.endswith(f" {made.sentence}")
