"""Pods of gangs that landed elsewhere have reasons, as other pods have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.command.cli import main
from tests.compare.runs import LEAST, MOST

COSCHEDULING = "permit: {enabled: [{name: Coscheduling}]}"
ZONE = "topology.kubernetes.io/zone"
NODES, GANGS, PODS = 6, 3, 4


def config(base: str, *, has_gangs: bool = True) -> str:
    """A configuration with Coscheduling beside what it has."""
    return base.replace("  plugins: {", f"  plugins: {{{COSCHEDULING}, ") if has_gangs else base


def cluster(group: dict[str, Any], of_pod: str) -> dict[str, Any]:
    """Nodes in three zones, and gangs that leave some room. `of_pod`: how a pod names its PodGroup."""
    items: list[dict[str, Any]] = []
    for number in range(NODES):
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        labels = {ZONE: f"zone-{number % 3}"}
        items.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels},
             "status": {"allocatable": amounts, "capacity": amounts}}
        )  # fmt: skip
    for gang in range(GANGS):
        name = f"g{gang}"
        metadata = {**group.get("metadata", {}), "name": name, "namespace": "default"}
        items.append({**group, "kind": "PodGroup", "metadata": metadata})
        for number in range(PODS):
            spec: dict[str, Any] = {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
            }
            labels = {}
            if of_pod == "label":
                labels["scheduling.x-k8s.io/pod-group"] = name
            else:
                spec["schedulingGroup"] = {"podGroupName": name}
            metadata = {"name": f"{name}-{number}", "namespace": "default", "labels": labels}
            items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def coscheduling(annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"annotations": annotations}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": metadata, "spec": {"minMember": PODS}}


def kubernetes(version: str, **spec: Any) -> dict[str, Any]:
    gang = {"schedulingPolicy": {"gang": {"minCount": PODS}}}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "spec": {**gang, **spec}}


GATES_1_36 = ["--feature-gates", "GenericWorkload=true,GangScheduling=true"]
GATES_1_37 = ["--emulated-version", "1.37", "--feature-gates", "GenericWorkload=true"]


def differences(
    folder: Path, capsys: pytest.CaptureFixture[str], group: dict[str, Any], flags: list[str], a: str, b: str
) -> list[dict[str, Any]]:
    objects = folder / "cluster.json"
    objects.write_text(json.dumps(cluster(group, "spec" if flags else "label")))
    for name, text in (("a.yaml", a), ("b.yaml", b)):
        (folder / name).write_text(text)
    sides = [str(folder / "a.yaml"), str(folder / "b.yaml")]
    given = ["--nodes", str(objects), "--pods", str(objects), "--first-on-tie", "--quiet", "-o", "json"]
    assert main(["compare", *sides, *given, *flags]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["differences"]
    return found


@pytest.mark.parametrize(
    ("group", "flags", "has_gangs"),
    [
        (coscheduling({}), [], True),
        (coscheduling({"kscheduler.io/topology-required": ZONE}), [], True),
        (coscheduling({"kscheduler.io/topology-preferred": ZONE}), [], True),
        (kubernetes("v1alpha2"), GATES_1_36, False),
        (kubernetes("v1beta1"), GATES_1_37, False),
    ],
    ids=["coscheduling", "one zone", "preferably one zone", "1.36", "1.37"],
)
def test_every_pod_of_a_gang_that_landed_elsewhere_has_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], group: dict[str, Any], flags: list[str], has_gangs: bool
) -> None:
    a, b = (config(each, has_gangs=has_gangs) for each in (LEAST, MOST))
    found = differences(tmp_path, capsys, group, flags, a, b)
    assert len(found) >= GANGS
    assert {each["why"]["kind"] for each in found} <= {"score", "filter"}, [each["because"] for each in found]
    assert {each["why"]["plugin"] for each in found} == {"NodeResourcesFit"}
    assert found[0]["state"] == "equal"
    assert all(each["state"] != "not known" for each in found)


def test_a_node_outside_the_zone_of_the_gang_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = coscheduling({"kscheduler.io/topology-required": ZONE})
    found = differences(tmp_path, capsys, group, [], LEAST, config(LEAST))
    first = found[0]
    assert (first["why"]["kind"], first["why"]["run"], first["why"]["node"]) == ("outside", "B", first["node_a"])
    assert first["because"] == f"{first['node_a']} is not in the domain where its gang was placed in B"
    assert {each["why"]["kind"] for each in found} <= {"outside", "score", "filter"}


def test_reports_with_decisions_give_the_reasons_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = coscheduling({"kscheduler.io/topology-required": ZONE})
    objects = tmp_path / "cluster.json"
    objects.write_text(json.dumps(cluster(group, "label")))
    for name, text in (("a", LEAST), ("b", config(LEAST))):
        (tmp_path / f"{name}.yaml").write_text(text)
        made = ["--config", str(tmp_path / f"{name}.yaml"), "--output", str(tmp_path / f"{name}.json")]
        given = ["--nodes", str(objects), "--pods", str(objects), "--first-on-tie", "--quiet", "--decisions", "all"]
        assert main(["simulate", *given, *made]) == 0
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["differences"]
    assert {each["why"]["kind"] for each in found} == {"outside", "score"}
