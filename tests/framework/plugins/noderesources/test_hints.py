from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from kscheduler.api.objects import ContainerStatus, Pod, ResourceRequirements
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.errors import DecodeError
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.noderesources.hints import Hints, Request, RequestIndex
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod

GPU = "example.com/gpu"
HINTS = Hints(lambda name: False, Devices())
WAITING = make_pod("p").uid("p").req(cpu="2", memory="4Gi")
PLACED = make_pod("other").uid("other").node("n1")


def nodes(old: NodeBuilder | None, new: NodeBuilder, waiting: PodBuilder = WAITING, hints: Hints = HINTS) -> bool:
    return hints.after_node(waiting.obj(), old and old.obj(), new.obj())


def pods(old: PodBuilder, new: PodBuilder | None, waiting: PodBuilder = WAITING) -> bool:
    return HINTS.after_pod(waiting.obj(), old.obj(), new and new.obj())


def sized(cpu: str, memory: str, pods: int = 110) -> NodeBuilder:
    return make_node("n1").capacity(pods=pods, cpu=cpu, memory=memory)


def test_a_new_node_helps_if_it_could_take_the_pod_were_it_empty() -> None:
    assert nodes(None, sized("2", "4Gi"))
    assert not nodes(None, sized("1999m", "4Gi"))
    assert not nodes(None, sized("2", "4Gi", pods=0))


def test_a_node_that_changed_helps_if_it_got_more_of_what_the_pod_asks_for() -> None:
    assert nodes(sized("2", "4Gi"), sized("3", "4Gi"))
    assert nodes(sized("2", "4Gi", pods=1), sized("2", "4Gi", pods=2))
    assert not nodes(sized("3", "4Gi"), sized("2", "4Gi"))
    assert not nodes(sized("2", "4Gi"), sized("2", "4Gi").allocatable(**{GPU: "1"}))
    assert not nodes(sized("1", "1Gi"), sized("1500m", "8Gi"))


def test_a_pod_that_asks_for_nothing_is_helped_by_places_only() -> None:
    nothing = make_pod("p").uid("p")
    assert nodes(sized("1", "1Gi", pods=1), sized("1", "1Gi", pods=2), nothing)
    assert not nodes(sized("1", "1Gi"), sized("2", "2Gi"), nothing)


def test_resources_that_are_ignored_do_not_hide_a_node() -> None:
    waiting = WAITING.req(cpu="2", **{GPU: "1"})
    assert not nodes(None, sized("2", "4Gi"), waiting)
    assert nodes(None, sized("2", "4Gi"), waiting, Hints(lambda name: name == GPU, Devices()))


def test_a_pod_that_goes_helps() -> None:
    assert pods(PLACED, None)


def test_a_pod_that_is_scaled_down_helps_if_both_ask_for_the_resource() -> None:
    assert pods(PLACED.req(cpu="2"), PLACED.req(cpu="1"))
    assert not pods(PLACED.req(cpu="1"), PLACED.req(cpu="2"))
    assert not pods(PLACED.req(**{GPU: "2"}), PLACED.req(**{GPU: "1"}))


def test_a_pod_without_a_node_holds_no_room_that_it_could_give() -> None:
    pending = make_pod("other").uid("other")
    assert not pods(pending.req(cpu="2"), pending.req(cpu="1"))


def test_the_pod_itself_asks_for_less() -> None:
    assert pods(WAITING.req(cpu="3"), WAITING)


def test_a_node_that_cannot_be_read_is_a_fault_of_the_hint() -> None:
    with pytest.raises(DecodeError, match=r"allocatable\[cpu\]"):
        nodes(None, sized("two", "4Gi"))


# --- the index ---

AMOUNTS = st.integers(0, 4)
REQUESTS = st.fixed_dictionaries({}, optional={"cpu": AMOUNTS, "memory": AMOUNTS, GPU: AMOUNTS}).map(
    lambda amounts: tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
)
OFFERS = st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 2))


def node_of(offer: tuple[int, int, int, int]) -> NodeBuilder:
    cpu, memory, gpus, places = offer
    return make_node("n1").capacity(pods=places, cpu=f"{cpu}m", memory=str(memory), **{GPU: str(gpus)})


@given(st.lists(REQUESTS, max_size=40), st.lists(REQUESTS, max_size=40), st.one_of(st.none(), OFFERS), OFFERS)
def test_the_index_finds_every_request_that_a_node_helps(
    added: list[Request],
    removed: list[Request],
    old: tuple[int, int, int, int] | None,
    new: tuple[int, int, int, int],
) -> None:
    index = RequestIndex(lambda name: False, Devices())
    waiting = set(added)
    for request in dict.fromkeys(added):
        index.add(request)
    for request in dict.fromkeys(removed):
        if request in waiting:
            waiting.remove(request)
            index.remove(request)
    for request in list(waiting)[::2]:  # and some come back
        index.remove(request)
        index.add(request)
    before = node_of(old) if old else None
    found = list(index.find(before and before.obj(), node_of(new).obj()))
    assert len(found) == len(set(found))
    assert waiting.issuperset(found)
    assert {request for request in waiting if nodes(before, node_of(new), pod_of(request))} <= set(found)


def pod_of(request: Request) -> PodBuilder:
    named = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in request}
    return make_pod("p").uid("p").req(**named)


def test_a_node_with_little_room_brings_up_few_of_many_requests() -> None:
    index = RequestIndex(lambda name: False, Devices())
    for kind in range(1, 1_000):
        index.add((("cpu", 5_000 - kind), ("memory", kind)))
    small = make_node("n1").capacity(cpu="8", memory="7").obj()
    assert len(list(index.find(None, small))) == 7
    idle = make_node("n1").capacity(cpu="4010m", memory="1Gi").obj()
    assert len(list(index.find(None, idle))) == 10


def test_requests_come_and_go_without_the_order_growing() -> None:
    index = RequestIndex(lambda name: False, Devices())
    for kind in range(1_000):
        index.add((("cpu", kind + 1),))
    for kind in range(990):
        index.remove((("cpu", kind + 1),))
    assert len(list(index.find(None, make_node("n1").capacity(cpu="64").obj()))) == 10
    for kind in range(990, 1_000):
        index.remove((("cpu", kind + 1),))
    assert list(index.find(None, make_node("n1").capacity(cpu="64").obj())) == []


def test_keys_are_what_the_hints_look_at() -> None:
    pod = PodInfo(WAITING.req(cpu="2", memory="1", **{GPU: "0"}).obj())
    assert HINTS.for_nodes.key(pod) == (("cpu", 2000), ("memory", 1))
    assert HINTS.for_pods.key(pod) == frozenset({"cpu", "memory"})


@pytest.mark.parametrize(("release", "wakes"), [(RELEASE_1_36, True), (RELEASE_1_37, False)])
def test_a_resized_pod_requests_less_by_the_sums_of_the_release(release: Release, wakes: bool) -> None:
    handle = Handle(table=NodeTable(), rng=random.Random(0), release=release)
    old, new = resized(PLACED, "500m", "3"), resized(PLACED, "2", "1500m")
    assert Fit(handle)._hints.after_pod(WAITING.obj(), old, new) is wakes
    assert Fit(handle)._hints.after_pod(WAITING.obj(), old, resized(PLACED, "500m", "1"))


def resized(pod: PodBuilder, *cpus: str) -> Pod:
    made = pod.req(cpu="1").container(cpu="1").obj()
    statuses = [
        ContainerStatus(f"c{number}", ResourceRequirements(requests={"cpu": cpu}), {"cpu": "1"})
        for number, cpu in enumerate(cpus)
    ]
    return replace(made, status=replace(made.status, container_statuses=statuses))
