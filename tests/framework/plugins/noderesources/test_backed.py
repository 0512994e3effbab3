"""Extended resources that device classes back, as the resource scores count them: by the devices of the class."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.api.devices import (
    AllocationResult,
    ClaimMeta,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugins.noderesources.backed import Backing
from kscheduler.framework.plugins.noderesources.balanced_allocation import BalancedAllocation
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.noderesources.strategies import MostAllocated
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.devices.building import DRIVER, device, devices, make_slice, selectors
from tests.support.devices import backing
from tests.support.framework_bench import Bench

GPU = "example.com/gpu"
BIG = 'device.attributes["gpu.example.com"].size == "big"'
OF_MANY = "device.allowMultipleAllocations"


def of_class(*expressions: str) -> DeviceClass:
    made = backing("gpu-class", GPU)
    return replace(made, spec=replace(made.spec, selectors=selectors(*expressions)))


def bench(make: Any, *expressions: str, release: Release = RELEASE_1_36) -> Bench:
    """Nodes n1, with four devices, and n2, with two. `plugin`: four of its own, which are no devices."""
    made = Bench.of(make, release=release)
    made.nodes("n1", "n2")
    made.nodes("plugin", **{GPU: "4"})
    known = made.handle.devices
    known.set_class(of_class(*expressions))
    known.set_slice(make_slice("s1", sized("big", "big", "small", "small"), node_name="n1", pool="n1"))
    known.set_slice(make_slice("s2", sized("big", "small"), node_name="n2", pool="n2"))
    return made


def sized(*sizes: str) -> list[Device]:
    return [device(f"g{index}", {"size": size}) for index, size in enumerate(sizes)]


def allocate(made: Bench, *taken: tuple[str, str], share: str | None = None) -> None:
    """Devices (pool, name) that claims have been allocated."""
    results = [
        DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=pool, device=name, share_id=share)
        for pool, name in taken
    ]
    status = ResourceClaimStatus(AllocationResult(DeviceAllocationResult(results)))
    made.handle.devices.set_claim(ResourceClaim(ClaimMeta(name="c", namespace="ns", uid="c"), status=status))


def most_allocated(handle: Any) -> Fit:
    """Scores by GPUs only: percent in use with the pod there."""
    return Fit(handle, [(GPU, 1)], strategy=MostAllocated())


def pod(gpus: int = 1) -> Any:
    return make_pod("p").req(cpu="1", **({GPU: str(gpus)} if gpus else {}))


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37], ids=["1.36", "1.37"])
def test_devices_count_where_the_node_has_none_of_the_resource_itself(release: Release) -> None:
    made = bench(most_allocated, release=release)
    assert made.scores(pod()) == {"n1": 25, "n2": 50, "plugin": 25}
    allocate(made, ("n1", "g0"), ("n1", "g3"), ("n2", "g1"), ("elsewhere", "g0"))
    assert made.scores(pod()) == {"n1": 75, "n2": 100, "plugin": 25}
    assert made.scores(pod(gpus=0)) == {"n1": 0, "n2": 0, "plugin": 0}


def test_a_node_without_devices_has_no_score_from_them() -> None:
    made = bench(most_allocated)
    made.nodes("n3")
    assert made.scores(pod())["n3"] == 0


def test_only_devices_that_all_selectors_of_the_class_choose_count() -> None:
    made = bench(most_allocated, "true", BIG)
    allocate(made, ("n1", "g2"), ("n1", "g3"))
    assert made.scores(pod()) == {"n1": 50, "n2": 100, "plugin": 25}


def test_a_shared_device_is_in_use_and_selectors_see_it_as_of_one_use() -> None:
    release = RELEASE_1_36.with_gates({"DRAConsumableCapacity": True})
    made = bench(most_allocated, f"!{OF_MANY}", release=release)
    shared = [device(f"g{index}", allow_multiple_allocations=True) for index in range(4)]
    made.handle.devices.set_slice(make_slice("s1", shared, node_name="n1", pool="n1"))
    allocate(made, ("n1", "g0"), ("n1", "g0"), ("n1", "g1"), share="s")
    assert made.scores(pod())["n1"] == 75


@pytest.mark.parametrize(
    "expression", ["this is no expression", 'device.attributes["gpu.example.com"].unknown == 1'], ids=["compile", "run"]
)
def test_a_selector_at_fault_gives_no_devices(expression: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert bench(most_allocated, expression).scores(pod()) == {"n1": 0, "n2": 0, "plugin": 25}
    assert len([record for record in caplog.records if "cannot be counted" in record.message]) == 2


def term(key: str, operator: str, values: Sequence[str]) -> NodeSelector:
    return NodeSelector([NodeSelectorTerm([SelectorRequirement(key, operator, list(values))])])


def test_slices_and_devices_for_several_nodes() -> None:
    made = Bench.of(most_allocated)
    made.node(make_node("n1").label(zone="a").capacity(cpu="4"))
    made.node(make_node("n2").label(zone="b").capacity(cpu="4"))
    known = made.handle.devices
    known.set_class(of_class())
    known.set_slice(make_slice("all", devices("g0"), all_nodes=True, pool="all"))
    known.set_slice(make_slice("zone", devices("g0", "g1"), node_selector=term("zone", "In", ["a", "c"]), pool="zone"))
    known.set_slice(
        make_slice(
            "each",
            [
                device("g0", node_name="n2"),
                device("g1", all_nodes=True),
                device("g2", node_selector=term("zone", "NotIn", ["a"])),
            ],
            per_device_node_selection=True,
            pool="each",
        )
    )
    assert made.scores(pod()) == {"n1": 100 // 4, "n2": 100 // 4}
    known.remove_slice("zone")
    assert made.scores(pod()) == {"n1": 100 // 2, "n2": 100 // 4}
    known.set_slice(make_slice("bad", devices("g0"), node_selector=term("zone", "Sideways", ["a"]), pool="bad"))
    assert made.scores(pod()) == {"n1": 0, "n2": 0}


def test_a_slice_that_names_no_nodes_counts_for_all_of_them() -> None:
    made = Bench.of(most_allocated)
    for name in ("n1", "n2"):
        made.node(make_node(name).capacity(cpu="4"))
    made.handle.devices.set_class(of_class())
    made.handle.devices.set_slice(make_slice("s1", devices("g0", "g1"), pool="n1", node_name="n1"))
    made.handle.devices.set_slice(make_slice("nobody", devices("g0", "g1"), pool="nobody", node_name=None))
    assert made.scores(pod()) == {"n1": 25, "n2": 50}


def test_balance_counts_devices() -> None:
    made = bench(lambda handle: BalancedAllocation(handle, ["cpu", GPU]))
    allocate(made, ("n1", "g0"))
    # n1: 0 and 1/4 of cpu and GPUs: 87; with the pod 1/4 and 2/4: 87. n2: 0 and 0; 1/4 and 1/2: 87.
    # plugin: 0 and 0; 1/4 and 1/4.
    assert made.scores(pod()) == {"n1": 75, "n2": 50 + (50 + 87 - 100) // 2, "plugin": 75}
    assert made.scores(pod(gpus=0)) == {"n1": 75, "n2": 75, "plugin": 75}


@pytest.mark.parametrize("make", [most_allocated, lambda handle: BalancedAllocation(handle, ["cpu", GPU])])
def test_classes_of_pods_are_not_compiled_if_backed_resources_are_scored(make: Any) -> None:
    made = bench(make)
    plugin = make(made.handle)
    draft = ClassDraft(made.cache.table.columns, 1)
    assert not plugin.compile_class(draft, PodInfo(pod().obj()))
    assert Source.DEVICES in draft.sources
    made.handle.devices.remove_class("gpu-class")
    assert plugin.compile_class(ClassDraft(made.cache.table.columns, 1), PodInfo(pod().obj()))


def test_a_pod_needs_no_room_for_what_devices_stand_for_but_is_counted_with_it() -> None:
    made = Bench.of(Fit)
    made.node(make_node("n1").capacity(cpu="4"))
    made.handle.devices.set_class(of_class())
    draft = ClassDraft(made.cache.table.columns, 1)
    draft.begin("NodeResourcesFit", filters=True, weight=1)
    assert Fit(made.handle).compile_class(draft, PodInfo(pod().obj()))
    column = made.handle.table.resources.column(GPU)
    assert draft.counted is not None
    assert column in dict(draft.counted.entries)
    assert column not in dict(draft.make().request.entries)
    assert {Source.DEVICES, Source.OBJECTS} <= draft.sources
    # A node that has the resource itself needs room for it.
    made.node(make_node("n2").capacity(cpu="4", **{GPU: 1}))
    assert not Fit(made.handle).compile_class(ClassDraft(made.cache.table.columns, 2), PodInfo(pod().obj()))


def test_a_class_that_is_gone_backs_nothing() -> None:
    made = bench(most_allocated)
    column = made.handle.table.resources.column(GPU)
    backed = Backing(made.handle)
    assert backed.columns(PodInfo(pod().obj())) == [column]
    assert backed.stocks(PodInfo(pod().obj()), [column]) is not None
    assert backed.stocks(PodInfo(pod().obj()), []) is None
    made.handle.devices.remove_class("gpu-class")
    assert backed.columns(PodInfo(pod().obj())) == []


@pytest.mark.parametrize("is_last", [True, False], ids=["after the others", "before them"])
@pytest.mark.parametrize("cpu", ["1", "3", "9"])
def test_the_table_form_of_filter_judges_as_that_of_one_node(is_last: bool, cpu: str) -> None:
    made, other = Bench.of(lambda handle: Fit(handle)), "example.com/nic"
    for name in (other, GPU) if is_last else (GPU, other):
        made.handle.table.resources.column(name)
    made.handle.devices.set_class(of_class())
    made.nodes("plain", "busy")
    made.nodes("own", **{GPU: "4", other: "1"})
    made.nodes("few", **{GPU: "1", other: "1"})
    made.nodes("none", **{GPU: "0", other: "1"})
    made.nodes("other", **{other: "1"})
    for name in ("few", "busy"):
        made.place(make_pod(f"on-{name}").req(cpu="2", **{GPU: "1"}), name)
    table, plugin = made.handle.table, Fit(made.handle)
    for amounts in ({GPU: "1"}, {GPU: "2"}, {GPU: "1", other: "1"}, {GPU: "5", other: "2"}):
        info, state, verdicts = PodInfo(make_pod("p").req(cpu=cpu, **amounts).obj()), CycleState(), Verdicts()
        plugin.pre_filter(state, info)
        verdicts.reset(table.columns)
        plugin.filter_table(state, info, table, verdicts, 1)
        for node in table:
            is_feasible = verdicts.code(node.row) == FEASIBLE
            found = None if is_feasible else plugin.explain(state, info, verdicts.detail(node.row))
            assert found == plugin.filter(state, info, node), (node.name, amounts)
