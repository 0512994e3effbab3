from __future__ import annotations

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.cadence import Cadence

ADAPTIVE = Freshness(cadences=3.0, at_least=Duration.of_seconds(10), at_most=Duration.of_seconds(600))


def seen(*moments: float, interval_s: float = 15.0) -> Cadence:
    cadence = Cadence(interval_s)
    for moment in moments:
        cadence.saw(moment)
    return cadence


def test_before_anything_was_seen_it_is_the_interval_of_the_source() -> None:
    assert Cadence(15.0).max_age_s(ADAPTIVE) == 45.0


def test_a_source_that_has_something_new_every_minute_is_given_three() -> None:
    assert seen(0.0, 60.0, 120.0, 180.0).max_age_s(ADAPTIVE) == 180.0


def test_samples_cannot_be_seen_more_often_than_the_source_is_asked() -> None:
    assert seen(0.0, 1.0, 2.0).max_age_s(ADAPTIVE) == 45.0


def test_one_outage_does_not_make_a_source_slow() -> None:
    assert seen(0.0, 15.0, 30.0, 3630.0, 3645.0, 3660.0).max_age_s(ADAPTIVE) == 45.0


def test_the_age_stays_within_its_bounds() -> None:
    assert seen(0.0, 1.0, interval_s=1.0).max_age_s(ADAPTIVE) == 10.0
    assert seen(0.0, 1000.0).max_age_s(ADAPTIVE) == 600.0


def test_a_fixed_age_does_not_adapt() -> None:
    assert seen(0.0, 60.0).max_age_s(Freshness(max_age=Duration.of_seconds(20))) == 20.0
