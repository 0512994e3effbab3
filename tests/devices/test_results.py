"""The allocation that is written to a claim's status."""

from __future__ import annotations

import msgspec
import pytest

from kscheduler.api.devices import (
    DeviceAllocationConfiguration,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    DeviceToleration,
    OpaqueConfiguration,
    ResourceSlice,
)
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.releases import Release
from kscheduler.devices.allocator import AllocationError
from tests.devices.building import (
    DRIVER,
    NEW,
    OLD,
    Cluster,
    alternative,
    device,
    devices,
    first_available,
    make_claim,
    make_class,
    make_node,
    make_slice,
    request,
)

ZONE = SelectorRequirement("zone", "In", ["z1", "z2"])
RACK = SelectorRequirement("rack", "Exists")
NODE = make_node("node-1", zone="z1", rack="r")
ONLY_NODE_1 = NodeSelector([NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", ["node-1"])])])


def having(*requirements: SelectorRequirement) -> NodeSelector:
    return NodeSelector([NodeSelectorTerm(list(requirements))])


def opaque(parameter: str) -> OpaqueConfiguration:
    return OpaqueConfiguration(DRIVER, msgspec.Raw(f'"{parameter}"'.encode()))


def shown(configs: list[DeviceAllocationConfiguration] | None) -> list[tuple[str, list[str] | None, str]]:
    return [
        (each.source, each.requests, bytes(each.opaque.parameters).decode().strip('"'))
        for each in configs or ()
        if each.opaque is not None
    ]


def test_a_result_carries_what_the_device_and_the_request_say(release: Release) -> None:
    published = device("a", binding_conditions=["ready"], binding_failure_conditions=["failed"])
    tolerations = [DeviceToleration("k", "Exists", "", "NoExecute", toleration_seconds=30)]
    cluster = Cluster(release, [make_slice("s", [published])])
    (result,) = cluster.allocate(make_claim(request(tolerations=tolerations))) or []
    (only,) = result.devices.results or []
    assert (only.request, only.driver, only.pool, only.device) == ("req", DRIVER, "pool", "a")
    assert (only.binding_conditions, only.binding_failure_conditions) == (["ready"], ["failed"])
    assert only.tolerations == tolerations
    assert (only.admin_access, only.share_id, only.consumed_capacity) == (None, None, None)
    encoded = msgspec.json.decode(msgspec.json.encode(only))
    assert encoded["tolerations"] == [
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    ]


# --- configuration ----------------------------------------------------------------------------------------------


def test_a_class_has_its_configuration_once_for_all_requests_that_use_it() -> None:
    config = [DeviceClassConfiguration(opaque(each)) for each in ("1", "2")]
    slices = [make_slice("s", devices("a", "b", "c"))]
    classes = [make_class(config=config), make_class("other", config=[DeviceClassConfiguration(opaque("3"))])]
    claim = make_claim(request("x"), request("y", device_class_name="other"), request("z"))
    for release in (OLD, NEW):
        (result,) = Cluster(release, slices, classes).allocate(claim) or []
        assert shown(result.devices.config) == [
            ("FromClass", ["x", "z"], "1"),
            ("FromClass", ["x", "z"], "2"),
            ("FromClass", ["y"], "3"),
        ]


def test_a_list_of_all_requests_is_left_out_since_1_37() -> None:
    classes = [make_class(config=[DeviceClassConfiguration(opaque("1"))])]
    slices = [make_slice("s", devices("a", "b"))]
    config = [DeviceClaimConfiguration(["x", "y/one"], opaque("2")), DeviceClaimConfiguration(None, opaque("3"))]
    claim = make_claim(request("x"), first_available("y", alternative("one")), config=config)
    (result,) = Cluster(OLD, slices, classes).allocate(claim) or []
    assert shown(result.devices.config) == [
        ("FromClass", ["x", "y/one"], "1"),
        ("FromClaim", ["x", "y/one"], "2"),
        ("FromClaim", ["x", "y/one"], "2"),
        ("FromClaim", None, "3"),
    ]
    (result,) = Cluster(NEW, slices, classes).allocate(claim) or []
    assert shown(result.devices.config) == [
        ("FromClass", None, "1"),
        ("FromClaim", None, "2"),
        ("FromClaim", None, "3"),
    ]


def test_configuration_for_an_alternative_that_is_not_chosen_is_left_out(release: Release) -> None:
    published = [device("a", {"model": "x"}), device("b", {"model": "x"})]
    config = [
        DeviceClaimConfiguration(["req/big"], opaque("1")),
        DeviceClaimConfiguration(["req/small"], opaque("2")),
        DeviceClaimConfiguration(["req"], opaque("3")),
        DeviceClaimConfiguration(["none"], opaque("4")),
    ]
    alternatives = first_available("req", alternative("big", 1, "model=y"), alternative("small", 1, "model=x"))
    claim = make_claim(alternatives, request("more", 1, "model=x"), config=config)
    (result,) = Cluster(release, [make_slice("s", published)]).allocate(claim) or []
    assert shown(result.devices.config) == [("FromClaim", ["req/small"], "2"), ("FromClaim", ["req"], "3")]


def test_no_configuration_is_an_absent_list(release: Release) -> None:
    (result,) = Cluster(release, [make_slice("s", devices("a"))]).allocate(make_claim(request())) or []
    assert result.devices.config is None


# --- node selector ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        (make_slice("s", devices("a"), node_name="node-1"), ONLY_NODE_1),
        (make_slice("s", devices("a"), all_nodes=True), None),
        (make_slice("s", [device("a", binds_to_node=True)], all_nodes=True), ONLY_NODE_1),
        (make_slice("s", devices("a"), node_selector=having(ZONE)), having(ZONE)),
        (make_slice("s", [device("a", node_name="node-1")], per_device_node_selection=True), ONLY_NODE_1),
        (make_slice("s", [device("a", all_nodes=True)], per_device_node_selection=True), None),
        (make_slice("s", [device("a", node_selector=having(ZONE))], per_device_node_selection=True), having(ZONE)),
    ],
)
def test_an_allocation_holds_for_the_nodes_of_its_devices(
    release: Release, published: ResourceSlice, expected: NodeSelector | None
) -> None:
    (result,) = Cluster(release, [published]).allocate(make_claim(request()), node=NODE) or []
    assert result.node_selector == expected


def test_requirements_of_several_devices_are_joined_without_repetition(release: Release) -> None:
    same = SelectorRequirement("zone", "In", ["z2", "z1"])
    other = SelectorRequirement("zone", "NotIn", ["z3"])
    slices = [
        make_slice("s1", devices("a"), pool="p1", node_selector=having(ZONE, RACK)),
        make_slice("s2", devices("b"), pool="p2", node_selector=having(same, other)),
    ]
    (result,) = Cluster(release, slices).allocate(make_claim(request("req", 2)), node=NODE) or []
    assert result.node_selector == having(ZONE, RACK, other)


def test_one_local_device_restricts_the_allocation_to_the_node(release: Release) -> None:
    slices = [
        make_slice("s1", devices("a"), pool="p1", node_selector=having(ZONE)),
        make_slice("s2", devices("b"), pool="p2"),
    ]
    (result,) = Cluster(release, slices).allocate(make_claim(request("req", 2)), node=NODE) or []
    assert result.node_selector == ONLY_NODE_1


def test_a_node_selector_of_two_terms_cannot_be_written_to_a_result(release: Release) -> None:
    two = NodeSelector([NodeSelectorTerm([ZONE]), NodeSelectorTerm([RACK])])
    cluster = Cluster(release, [make_slice("s", devices("a"), node_selector=two)])
    with pytest.raises(AllocationError) as raised:
        cluster.allocate(make_claim(request()), node=NODE)
    assert str(raised.value) == (
        "create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector with 2 terms"
    )
