"""Whether plan B is in force for a pod that is not there yet."""

from __future__ import annotations

from kscheduler.framework.telemetry import POLICY_KEY
from kscheduler.telemetry.plan_b import PlanBLookout
from tests.telemetry.policies import ARGS, book_of

WITH_PLAN = ARGS.replace("- {name: cool,", "- {name: cool, planB: {afterFailures: 3},")


def lookout(**failures: int) -> PlanBLookout:
    return PlanBLookout(book_of(args=WITH_PLAN)[0], lambda metric: failures.get(metric, 0))


def test_plan_b_begins_with_the_last_failure_that_is_bearable() -> None:
    assert not lookout(heat=2).is_in_force("ours", "shop", {}, {})
    assert lookout(heat=3).is_in_force("ours", "shop", {}, {})
    assert not lookout(load=9).is_in_force("ours", "shop", {}, {}), "its policy does not read that"


def test_a_pod_without_policy_or_plan_or_with_a_policy_that_is_not_there_has_none() -> None:
    failing = lookout(heat=9, load=9)
    assert not failing.is_in_force("plain", "shop", {}, {})
    assert not failing.is_in_force("ours", "shop", {POLICY_KEY: "idle"}, {})
    assert not failing.is_in_force("ours", "shop", {POLICY_KEY: "missing"}, {})
    assert failing.is_in_force("ours", "shop", {}, {POLICY_KEY: "cool"})
