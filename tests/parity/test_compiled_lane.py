"""What the compiled lane places on generated clusters is what kube-scheduler's code would have placed there.

Only the pods that the lane decides are compared: their node must be among the oracle's best, and as many nodes must
have been found to fit. All else about decisions is compared in the general lane, with which this one agrees.
"""

from __future__ import annotations

import json

import pytest

from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from tests.parity.case import SEQUENCE, Case, Object
from tests.parity.compare import _best
from tests.parity.detours import read_pod
from tests.parity.generate import generate
from tests.parity.oracle import Answer, Oracle
from tests.parity.ours import BY_TABLE, World, read_config
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_LANE_CASES", 300)


class LaneWorld(World):
    """The same cluster, with a lane beside the frameworks that are listened to."""

    def __init__(self, case: Case) -> None:
        super().__init__(case, BY_TABLE)
        config = read_config(json.dumps(case.config), case.release)
        profiles = {}
        for profile in config.profiles:
            own = profile.percentage_of_nodes_to_score
            profiles[profile.scheduler_name] = Framework(
                profile.scheduler_name,
                build(profile, self.handle),
                self.handle,
                observer=Measurements(),
                stopwatch=lambda: 0.0,
                percentage_of_nodes_to_score=config.percentage_of_nodes_to_score if own is None else own,
            )
        self.lane = CompiledLane(profiles, self.handle, Measurements(), lambda: 0.0)
        self._frameworks = profiles

    def place(self, document: Object) -> tuple[str, int] | None:
        """Return the node that the lane chooses for one pod and how many fit; nothing stays counted."""
        pod = read_pod(document, self.handle.release)
        if self._frameworks[pod.pod.spec.scheduler_name].run_pre_enqueue(pod) is not None:
            return None  # it never comes so far
        found = self.lane.place([pod])
        if not found:
            return None
        self.cache.table.columns.remove_pod(found.rows[0], self.cache.table.request_of(pod))
        return found.node_names[0], found.feasible[0]


@pytest.mark.search
def test_what_the_lane_places_is_what_kube_scheduler_would(oracle: Oracle, release: str) -> None:
    placed, seeds = 0, [*kept_seeds("compiled lane"), *cases_with(release, SEEDS)]
    for case, answer in oracle.answers(generate(seed, release) for seed in seeds):
        found, count = differences(case, answer)
        placed += count
        assert not found, f"seed {case.seed}: {found}\nin\n{case}"
    assert placed >= 3 * len(seeds), f"{placed} pods placed: this has compared next to nothing"


def differences(case: Case, answer: Answer) -> tuple[list[str], int]:
    """What differs, and how many pods the lane placed."""
    world, found, placed = LaneWorld(case), [], 0
    for position, (pod, theirs) in enumerate(zip(case.pending, answer.pods or (), strict=True)):
        ours = world.place(pod)
        if ours is not None:
            placed += 1
            node_name, feasible = ours
            if node_name not in _best(theirs):
                found.append(f"pod {position}: expected one of {sorted(_best(theirs))}, got {node_name}")
            if feasible != len(theirs.found):
                found.append(f"pod {position}: expected {len(theirs.found)} nodes that fit, got {feasible}")
        if case.mode == SEQUENCE and theirs.host:
            world.decide(pod)  # Reserve wants to know what was found
            world.assume(pod, theirs.host)
    return found, placed
