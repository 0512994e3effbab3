"""The table of all feature gates, and the gates that scheduling depends on."""

from __future__ import annotations

import pytest

from kscheduler.config.feature_gates import ALPHA, BETA, GA
from kscheduler.config.known_gates import DEPRECATED, KnownGate, known_gates
from kscheduler.config.releases import RELEASES, Release

BOTH = pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))


@BOTH
def test_the_gates_of_a_release_are_in_the_table_with_their_stage(release: Release) -> None:
    known = known_gates(release.version)
    assert {gate.name: gate.stage for gate in release.features} == {
        gate.name: known[gate.name].stage for gate in release.features
    }


@BOTH
def test_gates_that_can_be_switched_are_as_by_default_and_not_locked(release: Release) -> None:
    known = known_gates(release.version)
    assert release.switchable <= {gate.name for gate in release.features}
    for name in release.switchable:
        assert known[name].is_on == release.has(name)
        assert not known[name].is_locked


def test_stages_defaults_and_locks_are_those_of_the_release() -> None:
    assert [len(known_gates(version)) for version in RELEASES] == [239, 251]
    of_1_36, of_1_37 = (known_gates(version) for version in ("1.36", "1.37"))
    assert of_1_36["StorageCapacityScoring"] == KnownGate(ALPHA, False, False)
    assert of_1_37["StorageCapacityScoring"] == KnownGate(BETA, True, False)
    assert of_1_36["DRAPrioritizedList"] == KnownGate(GA, True, False)
    assert of_1_37["DRAPrioritizedList"] == KnownGate(GA, True, True)
    assert of_1_36["GitRepoVolumeDriver"] == KnownGate(DEPRECATED, False, True)
    for name in ("SchedulerQueueingHints", "SidecarContainers", "GangScheduling"):
        assert name in of_1_36
        assert name not in of_1_37
    assert "CompositePodGroup" in of_1_37
    assert "CompositePodGroup" not in of_1_36
