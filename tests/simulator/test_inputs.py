"""What a simulation begins with, where a record has the pods and a list the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.api.devices import ResourceClaim
from kscheduler.errors import ConfigError
from kscheduler.simulator.inputs import with_nodes
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_pod

LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n0}, status: {allocatable: {cpu: "4", pods: "9"}}}
- apiVersion: kscheduler.io/v1alpha1
  kind: MetricPolicy
  metadata: {name: hot}
  spec: {filter: [{metric: heat, operator: GreaterThan, value: 8}]}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: default}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: used, namespace: default}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
  status:
    allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: n0, device: g0}]}}
    reservedFor: [{resource: pods, name: left-out, uid: "0"}, {resource: pods, name: here, uid: "1"}]
"""


def joined(tmp_path: Path, text: str, uid: str = "1") -> Scenario:
    """The scenario of a record of one pod, with the nodes of a list."""
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    recorded = Scenario(arrivals=[Arrival(0.0, make_pod("here").uid(uid).obj())], parameters={"record": "1 pod"})
    return with_nodes(recorded, SimulateArguments(record="cluster.zst", nodes=str(path)))


def test_policies_and_budgets_that_are_listed_with_the_nodes_are_in_the_cluster_of_a_record(tmp_path: Path) -> None:
    scenario = joined(tmp_path, LIST)
    assert [each.metadata.name for each in scenario.policies] == ["hot"]
    assert scenario.parameters == {
        "nodes": "1 from nodes.yaml",
        "devices": "1 ResourceClaim",
        "policies": "1 MetricPolicy",
        "other objects": "1 PodDisruptionBudget",
        "record": "1 pod",
    }
    assert len(scenario.notes) == 1, "budgets allow the same all the time"


def test_a_claim_that_is_listed_with_the_nodes_is_reserved_for_pods_of_the_record_alone(tmp_path: Path) -> None:
    (used,) = joined(tmp_path, LIST).devices
    assert isinstance(used, ResourceClaim)
    assert [each.uid for each in used.status.reserved_for or ()] == ["1"]
    (free,) = joined(tmp_path, LIST, uid="another").devices
    assert isinstance(free, ResourceClaim)
    assert free.status.allocation is None


@pytest.mark.parametrize(
    ("changed", "into", "message"),
    [
        ("value: 8", "value: much", r"MetricPolicy .*much"),
        (
            "- apiVersion: policy/v1",
            "- {apiVersion: v1, kind: Node, metadata: {name: n0}}\n- apiVersion: policy/v1",
            "n0",
        ),
    ],
)
def test_what_is_wrong_in_the_list_of_nodes_is_said_before_the_record_is_played(
    tmp_path: Path, changed: str, into: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        joined(tmp_path, LIST.replace(changed, into))
