"""Gates that depend on others. tests/controlplane/test_feature_gates.py compares them with kube-scheduler."""

from __future__ import annotations

import pytest

from kscheduler.config.gate_dependencies import DEPENDENCIES, unmet_dependencies
from kscheduler.config.known_gates import known_gates
from kscheduler.config.releases import RELEASES

VERSIONS = pytest.mark.parametrize("version", RELEASES)


@VERSIONS
def test_by_default_nothing_lacks_what_it_depends_on(version: str) -> None:
    assert unmet_dependencies({name: gate.is_on for name, gate in known_gates(version).items()}, version) == []


def test_each_name_in_the_table_is_a_gate_of_a_release() -> None:
    known = set().union(*map(known_gates, RELEASES))
    assert {*DEPENDENCIES, *(name for names in DEPENDENCIES.values() for name in names)} <= known


def test_all_that_is_missing_is_named_in_order() -> None:
    is_on = dict.fromkeys(known_gates("1.37"), False) | {"CompositePodGroup": True}
    assert unmet_dependencies(is_on, "1.37") == [
        "CompositePodGroup is enabled, but depends on features that are disabled: "
        "[GenericWorkload TopologyAwareWorkloadScheduling]"
    ]


def test_a_gate_that_a_release_does_not_have_is_not_asked_for() -> None:
    is_on = known_gates("1.37").keys() - {"AuthorizeNodeWithSelectors"}
    assert unmet_dependencies(dict.fromkeys(is_on, True), "1.37") == []


def test_a_dependency_that_came_with_a_release_is_asked_for_from_then_on() -> None:
    is_on = {"EventedPLEG": True, "PLEGOnDemandRelist": False}
    assert unmet_dependencies(is_on, "1.36") == []
    assert unmet_dependencies(is_on, "1.37") == [
        "EventedPLEG is enabled, but depends on features that are disabled: [PLEGOnDemandRelist]"
    ]
