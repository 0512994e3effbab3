"""Simulations of gangs: PodGroups are read from manifests, and pods are placed together or not at all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.command.simulate import run
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.scheduler import Options
from kscheduler.simulator.inputs import build_scenario
from kscheduler.simulator.options import SimulateArguments, read_arguments
from kscheduler.simulator.real_run import run_real_scheduler
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report_text import _gangs
from kscheduler.simulator.run import Ending, Outcome, RunSettings, simulate_scenario
from kscheduler.testing.controlplane import workload
from kscheduler.wasm.plugins import GuestPlugins
from tests.simulator.reports import namespace

CONFIG = parse_config(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n"
)


def group(name: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least},
    }


def member(name: str, number: int) -> dict[str, Any]:
    labels = {"scheduling.x-k8s.io/pod-group": name}
    made = workload.pod(f"{name}-{number}", requests={"cpu": "2"}, labels=labels)
    made["metadata"]["namespace"] = "default"
    return made


def simulate(folder: Path, *objects: dict[str, Any], config: SchedulerConfig = CONFIG) -> Outcome:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    scenario = build_scenario(SimulateArguments(nodes=str(path), pods=str(path)))
    return simulate_scenario(scenario, real_scheduler(config, Options()), RunSettings())


def composite(name: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": least}}},
    }


def part(name: str, least: int, parent: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "parentCompositePodGroupName": parent}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def bound(outcome: Outcome, name: str) -> int:
    records = outcome.accounting.records.values()
    return sum(record.bound_s is not None for record in records if record.key.startswith(f"default/{name}-"))


def test_the_groups_of_a_composite_group_are_placed_together_or_not_at_all(tmp_path: Path) -> None:
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
    pods = [member(name, number) for name in ("a", "b", "c", "d") for number in range(2)]
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {"podGroupName": pod["metadata"]["name"].partition("-")[0]}
    groups = [part("a", 2, "fits"), part("b", 2, "fits"), part("c", 2, "large"), part("d", 3, "large")]
    outcome = simulate(
        tmp_path,
        *(workload.node(f"n{index}") for index in range(4)),
        composite("fits", 2),
        composite("large", 2),
        *groups,
        *pods,
        config=default_config(RELEASE_1_37.with_gates(gates)),
    )
    assert {name: bound(outcome, name) for name in ("a", "b", "c", "d")} == {"a": 2, "b": 2, "c": 0, "d": 0}


def test_a_gang_that_fits_is_placed_and_one_that_does_not_holds_nothing(tmp_path: Path) -> None:
    nodes = [workload.node(f"n{index}") for index in range(2)]
    pods = [
        member(name, number) for number in range(5) for name in ("large", "small") if (name, number) != ("small", 4)
    ]
    outcome = simulate(tmp_path, *nodes, group("large", 5), group("small", 4), *pods)
    assert (bound(outcome, "large"), bound(outcome, "small")) == (0, 4)
    assert outcome.ending is Ending.REST_UNSCHEDULABLE
    assert outcome.violations == []


def test_a_simulation_ends_with_a_gang_that_lacks_pods(tmp_path: Path) -> None:
    outcome = simulate(
        tmp_path, workload.node("n0"), group("train", 4), *(member("train", number) for number in range(3))
    )
    assert bound(outcome, "train") == 0
    assert outcome.violations == []


GUIDE = (Path(__file__).parents[2] / "GANGS.md").read_text(encoding="utf-8")


def of_guide(folder: Path, size: int) -> Outcome:
    """The simulation of the guide's trainings, with gangs of this size."""
    found = re.search(r"```yaml\n(# zones.yaml\n.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    described = yaml.safe_load(found.group(1))
    described["pods"]["shapes"][0]["gang"]["size"] = size
    described["pods"]["count"] = 3 * size
    path = folder / "zones.yaml"
    path.write_text(json.dumps(described))
    scenario = build_scenario(SimulateArguments(workload=str(path)))
    return simulate_scenario(scenario, real_scheduler(CONFIG, Options()), RunSettings())


def block(name: str) -> str:
    """A file of the guide."""
    found = re.search(rf"```yaml\n(# {name}\n.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(("config", "says"), [(block("reserving.yaml"), "4.69 min"), (None, "18.2 min")])
def test_trainings_among_small_pods_wait_as_long_as_the_guide_says(
    tmp_path: Path, config: str | None, says: str
) -> None:
    path = tmp_path / "starving.yaml"
    path.write_text(block("starving.yaml"))
    arguments = SimulateArguments(workload=str(path))
    parsed = CONFIG if config is None else parse_config(config)
    outcome, _ = run_real_scheduler(
        arguments, parsed, build_scenario(arguments), GuestPlugins(cache_dir=None, reloads=False)
    )
    assert outcome.violations == []
    (line,) = (line for line in GUIDE.splitlines() if line.startswith(f"    3 of 3 gangs ran, {says}"))
    assert outcome.gangs is not None
    assert _gangs(outcome.gangs) == [line.strip()]


def test_each_training_of_the_guide_gets_a_zone_of_its_own(tmp_path: Path) -> None:
    outcome = of_guide(tmp_path, 6)
    zones: dict[str, set[int]] = {}
    for record in outcome.accounting.records.values():
        assert record.bound_s is not None
        zones.setdefault(record.key.rpartition("-")[0], set()).add(record.row % 3)
    assert len(zones) == 3
    assert sorted(zones.values(), key=min) == [{0}, {1}, {2}]


def test_trainings_that_are_too_large_for_a_zone_are_not_placed(tmp_path: Path) -> None:
    assert "of 3, a, holds 6: pod train-00-6:" in GUIDE
    outcome = of_guide(tmp_path, 8)
    assert {record.bound_s for record in outcome.accounting.records.values()} == {None}


@pytest.mark.parametrize(("gates", "is_whole"), [("", False), ("GenericWorkload=true,GangScheduling=true", True)])
def test_groups_of_kubernetes_are_heeded_with_their_feature_gates(tmp_path: Path, gates: str, is_whole: bool) -> None:
    """Six pods that are to be placed together come where there is room for four."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 6}}},
    }
    pods = [workload.pod(f"train-{i}", requests={"cpu": "2"}) for i in range(6)]
    for pod in pods:
        pod["metadata"]["namespace"] = "default"
        pod["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    path = tmp_path / "cluster.json"
    nodes = [workload.node(f"n{i}", capacity={"cpu": "4", "memory": "8Gi", "pods": "110"}) for i in range(2)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, group, *pods]}))
    flags = [f"--feature-gates={gates}"] if gates else []
    arguments = read_arguments(namespace("--nodes", str(path), "--pods", str(path), "--quiet", *flags))
    report, outcome = run(arguments)
    assert bound(outcome, "train") == (0 if is_whole else 4)
    assert ("feature gates" in dict(report.parameters)) is is_whole


def test_a_gate_that_changes_nothing_is_a_note_of_the_report() -> None:
    flags = ["--nodes=1", "--pods=1", "--feature-gates=MemoryQoS=true"]
    report, _ = run(read_arguments(namespace(*flags, "--quiet")))
    assert "--feature-gates MemoryQoS=true has no effect: it is of other parts of Kubernetes." in report.notes
    with pytest.raises(ConfigError, match=r"^--feature-gates: unrecognized feature gate: Foo$"):
        run(read_arguments(namespace("--nodes=1", "--pods=1", "--feature-gates=Foo=true")))
