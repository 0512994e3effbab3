from __future__ import annotations

from collections.abc import Sequence

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.cadence import Cadence

ADAPTIVE = Freshness(cadences=3.0, at_least=Duration.of_seconds(10), at_most=Duration.of_seconds(600))


def seen(*samples: float, values: Sequence[float] = (), interval_s: float = 15.0) -> Cadence:
    """An answer for each; `values`: answers with changed values."""
    cadence = Cadence(interval_s)
    for seconds in samples:
        cadence.saw([seconds], [])
    for seconds in values:
        cadence.saw([], [seconds])
    return cadence


def test_before_anything_was_seen_it_is_the_interval_of_the_source() -> None:
    assert Cadence(15.0).max_age_s(ADAPTIVE) == 45.0


def test_a_source_that_has_something_new_every_minute_is_given_three() -> None:
    assert seen(60.0, 60.0, 60.0).max_age_s(ADAPTIVE) == 180.0


def test_samples_cannot_be_seen_more_often_than_the_source_is_asked() -> None:
    assert seen(1.0, 1.0).max_age_s(ADAPTIVE) == 45.0


def test_one_outage_does_not_make_a_source_slow() -> None:
    assert seen(15.0, 15.0, 3600.0, 15.0, 15.0).max_age_s(ADAPTIVE) == 45.0


def test_the_age_stays_within_its_bounds() -> None:
    assert seen(1.0, interval_s=1.0).max_age_s(ADAPTIVE) == 10.0
    assert seen(1000.0).max_age_s(ADAPTIVE) == 600.0


def test_a_fixed_age_does_not_adapt() -> None:
    assert seen(60.0).max_age_s(Freshness(max_age=Duration.of_seconds(20))) == 20.0


def test_a_source_that_gives_each_answer_a_new_time_is_judged_by_how_often_its_values_change() -> None:
    assert seen(15.0, 15.0, 15.0, values=(60.0, 60.0)).max_age_s(ADAPTIVE) == 180.0


def test_a_source_that_measures_rarely_is_not_judged_by_values_that_happen_to_change_often() -> None:
    assert seen(60.0, 60.0, values=(15.0,)).max_age_s(ADAPTIVE) == 180.0


def test_of_an_answer_the_usual_node_counts() -> None:
    cadence = Cadence(15.0)
    cadence.saw([15.0] * 5, [15.0, 60.0, 60.0, 60.0, 900.0])
    assert cadence.seconds == 60.0
