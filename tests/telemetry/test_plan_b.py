"""Whether plan B is in force for a pod that is not there yet."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.framework.telemetry import POLICY_KEY
from tests.telemetry.policies import ARGS, book_of

WITH_PLAN = ARGS.replace("- {name: cool,", "- {name: cool, planB: {afterFailures: 3},")


def has_plan_b(
    scheduler: str = "ours",
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
    **failures: int,
) -> bool:
    book, _ = book_of(args=WITH_PLAN)
    return book.is_in_plan_b(scheduler, "shop", labels, annotations, lambda metric: failures.get(metric, 0))


def test_plan_b_begins_with_the_last_failure_that_is_bearable() -> None:
    assert not has_plan_b(heat=2)
    assert has_plan_b(heat=3)
    assert not has_plan_b(load=9), "its policy does not read that"


def test_a_pod_without_policy_or_plan_or_with_a_policy_that_is_not_there_has_none() -> None:
    assert not has_plan_b("plain", heat=9, load=9)
    assert not has_plan_b(labels={POLICY_KEY: "idle"}, heat=9, load=9)
    assert not has_plan_b(labels={POLICY_KEY: "missing"}, heat=9, load=9)
    assert has_plan_b(annotations={POLICY_KEY: "cool"}, heat=9, load=9)
