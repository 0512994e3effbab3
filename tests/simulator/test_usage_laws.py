"""Shares of requests are drawn as written, from the seed alone, and stay within limits."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from kscheduler.errors import ConfigError
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP
from kscheduler.simulator.usage_laws import UsageLaw, parse_share


def draws(text: str, count: int = 2_000) -> list[float]:
    law, source = parse_share(text, "share"), random.Random(1)
    return [law(source) for _ in range(count)]


def test_each_form_is_drawn_around_what_it_says() -> None:
    assert set(draws("0.2", 3)) == {0.2}
    even = draws("uniform:0.5,1.5")
    assert 0.5 <= min(even) < 0.55
    assert 1.45 < max(even) <= 1.5
    assert fmean(draws("normal:0.8,0.1")) == pytest.approx(0.8, abs=0.02)
    assert sorted(draws("lognormal:0.3,0.5"))[1_000] == pytest.approx(0.3, rel=0.05)


def test_a_share_is_never_below_zero() -> None:
    assert min(draws("normal:0.1,1")) == 0.0


WRONG = ("", "much", "normal:1", "normal:1,2,3", "-1", "nan", "inf", "gauss:1,2", "lognormal:0,1", "uniform:2,1")


@pytest.mark.parametrize("text", [*WRONG, "lognormal:1,99", "normal:1e308,1e308"])
def test_what_is_no_share_is_named_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: expected"):
        parse_share(text, "here")


def test_pods_carry_what_is_drawn_and_nothing_that_the_law_does_not_name() -> None:
    law = UsageLaw(cpu=parse_share(0.25, "cpu"), ramp_s=30)
    assert law.annotations({"cpu": 2, "memory": "1Gi"}, {}, random.Random(1)) == {USAGE_CPU: "500m", USAGE_RAMP: "30"}


def test_no_pod_uses_more_than_its_limit() -> None:
    law = UsageLaw(parse_share(5, "cpu"), parse_share("uniform:2,3", "memory"))
    drawn = law.annotations({"cpu": "1", "memory": "1Mi"}, {"cpu": "1500m", "memory": 2_000_000}, random.Random(1))
    assert drawn == {USAGE_CPU: "1500m", USAGE_MEMORY: "2000000"}
