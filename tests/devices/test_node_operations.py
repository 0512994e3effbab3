"""Devices for which kubelets skip operations, with the gate DRAOptionalNodeOperations of 1.37."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Node, NodeStatus
from kscheduler.config.releases import Release
from tests.devices.building import NEW, OLD, Cluster, devices, make_claim, make_node, make_slice, request

ON = NEW.with_gates({"DRAOptionalNodeOperations": True})
OTHER = NEW.with_gates({"DRAListTypeAttributes": True})  # with it, kube-scheduler looks at operations as well
SKIPPED = ["*"]


def node(*features: str) -> Node:
    return replace(make_node(), status=NodeStatus(declared_features=list(features)))


@pytest.mark.parametrize(
    ("release", "features", "expected"),
    [
        (ON, ["DRAOptionalNodeOperations"], [("g0", SKIPPED)]),
        (ON, [], None),
        (OTHER, ["DRAOptionalNodeOperations"], None),
        (NEW, [], [("g0", None)]),  # the apiserver keeps the field out of slices then
        (OLD, [], [("g0", None)]),
    ],
)
def test_a_device_whose_operations_are_skipped_needs_the_gate_and_a_kubelet_that_can(
    release: Release, features: list[str], expected: list[tuple[str, list[str] | None]] | None
) -> None:
    slices = [make_slice("s", devices("g0"), skip_node_operations=SKIPPED)]
    found = Cluster(release, slices).allocate(make_claim(request()), node=node(*features))
    results = None if found is None else found[0].devices.results or []
    assert (None if results is None else [(each.device, each.skip_node_operations) for each in results]) == expected
