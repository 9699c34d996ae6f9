"""Time series: fine for an hour, coarse for a day, with gaps, in bounded memory."""

from __future__ import annotations

import math

from crawler.daemon.monitoring.series import (
    COARSE_POINTS,
    FINE_POINTS,
    FINE_STEP_S,
    Sample,
    Series,
    Track,
)


def sample(pages_per_s: float) -> Sample:
    return Sample(
        pages_per_s=pages_per_s,
        bytes_per_s=1.0,
        queued=10.0,
        memory_bytes=math.nan,
        in_flight=1.0,
    )


def test_points_of_a_span_are_in_order() -> None:
    series = Series()
    for step in range(100):
        series.add(1_000 + step * FINE_STEP_S, sample(float(step)))
    points = series.points(Track.PAGES_PER_S, now_s=1_495, span_s=50)
    assert list(points.values) == [float(step) for step in range(89, 100)]
    assert points.times[-1] == 1_495


def test_a_day_consists_of_the_means_of_its_minutes() -> None:
    series = Series()
    for step in range(0, 7_200, 5):
        series.add(60_000 + step, sample(4.0 if step % 10 else 2.0))
    points = series.points(Track.PAGES_PER_S, now_s=67_200, span_s=86_400)
    assert 119 <= len(points.values) <= 121
    assert set(points.values) == {3.0}


def test_memory_is_bounded() -> None:
    series = Series()
    for step in range(3 * FINE_POINTS):
        series.add(step * FINE_STEP_S, sample(1.0))
    for minute in range(2 * COARSE_POINTS):
        series.add(20_000 + minute * 60, sample(1.0))
    assert max(len(column) for column in series._fine._columns) == FINE_POINTS
    assert max(len(column) for column in series._coarse._columns) == COARSE_POINTS
    assert len(series._gathering) <= 12


def test_a_gap_breaks_the_line() -> None:
    series = Series()
    for at_s in (0.0, 5.0, 300.0, 305.0):
        series.add(at_s, sample(1.0))
    values = series.points(Track.PAGES_PER_S, now_s=305, span_s=3_600).values
    assert [math.isnan(value) for value in values] == [False, False, True, False, False]


def test_samples_are_ignored_while_a_clock_is_set_back() -> None:
    series = Series()
    series.add(100.0, sample(1.0))
    series.add(50.0, sample(9.0))
    assert list(series.points(Track.PAGES_PER_S, now_s=100, span_s=100).values) == [1.0]


def test_unknown_values_stay_unknown() -> None:
    series = Series()
    series.add(100.0, sample(1.0))
    assert math.isnan(series.points(Track.MEMORY_BYTES, now_s=100, span_s=100).values[0])
