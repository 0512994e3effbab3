"""What kube-scheduler does in a scenario on a real control plane, kscheduler does too, and says in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.framework.plugins.registry import IN_TREE
from tests.controlplane.parity import placing, preempting, volumes, waking
from tests.controlplane.parity.outcome import Outcome, differences
from tests.controlplane.parity.scenario import Scenario

SCENARIOS = (
    *placing.NODES,
    *placing.SPREADING,
    *placing.TOGETHER,
    *placing.PROFILES,
    *waking.WAKING,
    *preempting.PREEMPTING,
    *volumes.VOLUMES,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_both_do_and_say_the_same(scenario: Scenario, compared: Callable[[Scenario], tuple[Outcome, Outcome]]) -> None:
    if missing := scenario.needs - IN_TREE.keys():
        pytest.skip(f"kscheduler has no {', '.join(sorted(missing))} yet")
    theirs, ours = compared(scenario)
    assert theirs.problems == [], "kube-scheduler did not do what the scenario expects of it"
    found = differences(theirs, ours)
    assert not found, "\n".join([f"{scenario.name}: {len(found)} differences", *found])
