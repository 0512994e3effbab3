"""What the bare client does when its watches report nodes and pods."""

from __future__ import annotations

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
