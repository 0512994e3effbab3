"""A grid compares releases, and a record in it is played with the release that it was made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.errors import ConfigError
from kscheduler.simulator.configuration import simulated_release
from kscheduler.sweep.grid import read_grid
from kscheduler.sweep.plan import Plan
from tests.replay.recorded_run import busy, recorded


def test_configurations_of_a_grid_may_be_of_different_releases() -> None:
    grid = read_grid(
        {
            "traces": [{"name": "t", "pods": 10}],
            "cluster": [5],
            "configs": [{"name": "old"}, {"name": "new", "emulatedVersion": "v1.37"}],
        }
    )
    tasks = list(Plan(grid, [1]).tasks())
    assert [(task.run.config, task.inputs.arguments.emulated_version) for task in tasks] == [
        ("old", None),
        ("new", "1.37"),
    ]
    assert tasks[0].run.key != tasks[1].run.key


def test_a_version_that_is_not_known_is_refused_by_its_place() -> None:
    configs = [{"name": "a", "emulatedVersion": "1.12"}]
    with pytest.raises(ConfigError, match=r"configs\[0\]\.emulatedVersion: emulation version 1\.12 is not between"):
        read_grid({"traces": [{"name": "t", "pods": 10}], "configs": configs})


def test_a_record_is_played_with_its_own_release_unless_the_configuration_has_another(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    own = RELEASE_1_37.with_gates({"VolumeLimitScaling": False})
    recorded(path, busy, config=default_config(own))
    configs = [{"name": "its"}, {"name": "old", "emulatedVersion": "1.36"}]
    grid = read_grid({"traces": [{"name": "t", "record": str(path)}], "configs": configs})
    its, old = Plan(grid, [1]).tasks()
    assert simulated_release(its.inputs.arguments) == own
    assert simulated_release(old.inputs.arguments) == RELEASE_1_36
    assert '"shape"' in its.inputs.configuration
    assert '"shape"' not in old.inputs.configuration


def test_configurations_of_a_grid_may_set_feature_gates() -> None:
    gates = {"GenericWorkload": True, "GangScheduling": True}
    configs = [{"name": "without"}, {"name": "with", "featureGates": gates}]
    grid = read_grid({"traces": [{"name": "t", "pods": 10}], "cluster": [5], "configs": configs})
    without, with_them = Plan(grid, [1]).tasks()
    assert simulated_release(without.inputs.arguments) == RELEASE_1_36
    assert simulated_release(with_them.inputs.arguments) == RELEASE_1_36.with_gates(gates)
    assert without.run.key != with_them.run.key


def test_a_gate_that_is_not_known_is_refused_by_its_configuration() -> None:
    configs = [{"name": "a", "featureGates": {"Foo": True}}]
    grid = read_grid({"traces": [{"name": "t", "pods": 10}], "configs": configs})
    with pytest.raises(ConfigError, match=r'^config "a": featureGates: unrecognized feature gate: Foo$'):
        Plan(grid, [1])


def test_a_gate_without_effect_is_a_warning_about_its_configuration() -> None:
    gates = {"MemoryQoS": True, "GenericWorkload": True}
    configs = [{"name": "a"}, {"name": "b", "featureGates": gates}]
    grid = read_grid({"traces": [{"name": "t", "pods": 10}, {"name": "u", "pods": 10}], "configs": configs})
    reason = "it is of other parts of Kubernetes"
    assert Plan(grid, [1]).warnings == [f'config "b": featureGates MemoryQoS=true has no effect: {reason}']
