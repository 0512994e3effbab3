"""Arrival processes and durations: what they yield, and what they say about nonsense."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import pytest

from kscheduler.errors import ConfigError
from kscheduler.simulator.processes import parse_arrival, parse_duration


def times(text: str, count: int, seed: int = 1) -> list[float]:
    return list(islice(parse_arrival(text, "--arrival").times(random.Random(seed)), count))


def test_all_pods_may_arrive_at_once() -> None:
    assert times("now", 3) == [0.0, 0.0, 0.0]


def test_a_constant_rate_does_not_drift() -> None:
    assert times("constant:10", 4) == [0.0, 0.1, 0.2, pytest.approx(0.3)]
    assert times("constant:3", 30_001)[-1] == 10_000.0


def test_bursts_come_every_so_many_seconds() -> None:
    assert times("bursts:2/60", 5) == [0.0, 0.0, 60.0, 60.0, 120.0]


def test_poisson_arrivals_have_the_rate_and_follow_the_seed() -> None:
    arrivals = times("poisson:500", 20_000)
    assert arrivals == sorted(arrivals)
    assert 20_000 / arrivals[-1] == pytest.approx(500, rel=0.03)
    assert times("poisson:5", 10) == times("poisson:5", 10) != times("poisson:5", 10, seed=2)


def test_daily_arrivals_are_fewest_at_midnight_and_most_at_noon() -> None:
    arrivals = times("daily:1,3", 2 * 2 * 86_400)  # 2 a second on average, so about two days
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(2 * 86_400, rel=0.01)
    hours = Counter(int(at // 3600) for at in arrivals)
    for hour, rate in ((0, 1), (6, 2), (11, 3), (12, 3), (17, 2), (23, 1), (24, 1), (36, 3)):
        assert hours[hour] / 3600 == pytest.approx(rate, abs=0.2), hour
    assert times("daily:1,3", 10) == times("daily:1,3", 10)


def test_durations_are_drawn_from_their_law() -> None:
    source = random.Random(1)
    assert parse_duration("forever", "--duration").draw(source) is None
    assert parse_duration("constant:7.5", "--duration").draw(source) == 7.5
    exponential = parse_duration("exp:60", "--duration")
    drawn = [exponential.draw(source) or 0.0 for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(60, rel=0.03)
    lognormal = parse_duration("lognormal:60,1.5", "--duration")
    assert sorted(lognormal.draw(source) or 0.0 for _ in range(20_001))[10_000] == pytest.approx(60, rel=0.05)


@pytest.mark.parametrize(
    "text",
    ["", "poison:5", "poisson", "poisson:", "poisson:x", "poisson:0", "poisson:-1", "poisson:inf", "constant:1,2"],
)
def test_a_wrong_arrival_process_is_named_with_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--arrival: expected now, constant:RATE, .*, got ") as caught:
        parse_arrival(text, "--arrival")
    assert f'"{text}"' in str(caught.value)


@pytest.mark.parametrize("text", ["bursts:10", "bursts:2.5/60", "bursts:0/60"])
def test_a_wrong_burst_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="--arrival: expected"):
        parse_arrival(text, "--arrival")


@pytest.mark.parametrize("text", ["lognormal:60,500", "lognormal:1e300,5"])
def test_a_spread_of_durations_without_end_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"pods\.duration: expected a SIGMA, .*, of at most (53\.5|0\.71), got "
    ) as caught:
        parse_duration(text, "pods.duration")
    assert f'"{text}"' in str(caught.value)


@pytest.mark.parametrize("text", ["never", "exp", "exp:nan", "lognormal:60", "lognormal:60,0", "constant:-3"])
def test_a_wrong_duration_is_named_with_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"pods\.duration: expected forever, constant:SECONDS"):
        parse_duration(text, "pods.duration")
