"""What kube-scheduler does in a scenario on a real control plane, kscheduler does too, and says in the same words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kscheduler.framework.plugins.registry import IN_TREE
from tests.controlplane.parity import (
    devices,
    disrupting,
    node_resources,
    nominating,
    placing,
    pools,
    preempting,
    preparing,
    volumes,
    waking,
)
from tests.controlplane.parity.conftest import Play
from tests.controlplane.parity.outcome import Outcome, differences
from tests.controlplane.parity.scenario import Scenario, play
from tests.controlplane.parity.sides import THEIRS
from tests.controlplane.parity.stage import Cluster

SCENARIOS = (
    *placing.NODES,
    *placing.SPREADING,
    *placing.TOGETHER,
    *placing.PROFILES,
    *waking.WAKING,
    *preempting.PREEMPTING,
    *nominating.NOMINATING,
    *disrupting.BUDGETS,
    *disrupting.REPLICAS,
    *volumes.VOLUMES,
    *devices.DEVICES,
    *pools.POOLS,
    *preparing.PREPARING,
    *node_resources.NODE_RESOURCES,
)


@pytest.mark.shared_by_releases
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_both_have_equal_outcomes_and_messages(
    scenario: Scenario, release: str, compared: Callable[[Scenario], tuple[Outcome, Outcome]]
) -> None:
    if release in scenario.by_chance_in:
        pytest.skip(f"what kube-scheduler {release} does here depends on chance")
    if missing := scenario.needs - IN_TREE.keys():
        pytest.skip(f"kscheduler has no {', '.join(sorted(missing))} yet")
    theirs, ours = compared(scenario)
    assert theirs.problems == [], "kube-scheduler did not do what the scenario expects of it"
    found = differences(theirs, ours)
    assert not found, "\n".join([f"{scenario.name}: {len(found)} differences", *found])


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Asks the same scheduler for other profiles than scenarios say."""

    instead: dict[str, str]

    def scheduler_name(self, profile: str) -> str:
        return THEIRS.scheduler_name(self.instead.get(profile, profile))

    def profile_name(self, scheduler_name: str) -> str | None:
        return THEIRS.profile_name(scheduler_name)


def test_a_scheduler_that_decides_otherwise_is_noticed(play_to: Play, cluster: Cluster) -> None:
    scenario = placing.PACKING
    theirs = play_to(scenario, THEIRS)
    found = differences(theirs, play(scenario, cluster, Otherwise({"packing": "default"})))
    assert any(each.startswith("placements of main/packed-0") for each in found), found
