"""What the bare client does when its watches tell of nodes and pods."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.testing import make_node, make_pod
from perf.bare_client import PodsAsTheyCome


class Written:
    """The bindings there would be."""

    def __init__(self) -> None:
        self.bindings: list[tuple[str, str]] = []  # pod, node
        self.pods = PodsAsTheyCome(lambda pod, node_name: self.bindings.append((pod.metadata.name, node_name)))

    def add_nodes(self, *names: str) -> None:
        for name in names:
            self.pods.nodes.on_add(make_node(name).obj())


def plain(name: str) -> Pod:
    return make_pod(name).obj()


def test_pods_go_to_node_after_node() -> None:
    written = Written()
    written.add_nodes("a", "b")
    for name in ("p", "q", "r"):
        written.pods.on_add(plain(name))
    assert written.bindings == [("p", "a"), ("q", "b"), ("r", "a")]


def test_pods_that_come_before_the_first_node_wait_for_it() -> None:
    written = Written()
    written.pods.on_add(plain("p"))
    assert written.bindings == []
    written.add_nodes("a", "b")
    assert written.bindings == [("p", "a")]


def test_no_pod_is_bound_twice_nor_one_that_has_a_node() -> None:
    written = Written()
    written.add_nodes("a")
    pod = plain("p")
    written.pods.on_add(pod)
    written.pods.on_update(pod, pod)
    written.pods.on_add(make_pod("q").node("a").obj())
    assert written.bindings == [("p", "a")]


def test_gated_pod_goes_when_its_gates_are_gone() -> None:
    written = Written()
    written.add_nodes("a")
    gated = make_pod("p").scheduling_gate("example.com/quota").obj()
    written.pods.on_add(gated)
    assert written.bindings == []
    written.pods.on_update(gated, replace(gated, spec=replace(gated.spec, scheduling_gates=None)))
    assert written.bindings == [("p", "a")]
