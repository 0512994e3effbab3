"""A framework on a table of its own, with plugins of the test's choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscheduler.api.objects import Node
from kscheduler.cache.cache import Cache
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin, extension_points
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Status, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod


class Bench:
    """`plugins`: extension point -> plugins, with weight 1 or as pairs."""

    def __init__(
        self, plugins: Mapping[str, Sequence[Any]], *, release: Release = DEFAULT_RELEASE, **options: Any
    ) -> None:
        self.cache = Cache()
        self.bound: list[tuple[str, str]] = []
        self.nominations = Nominations()
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(1),
            bind=self._bind,
            nominations=self.nominations,
            release=release,
        )
        self._plugins = plugins
        self._options = options
        self.state = CycleState()
        self.framework = self.make()

    def make(self) -> Framework:
        points: dict[str, list[tuple[Plugin, int]]] = {
            point: [entry if isinstance(entry, tuple) else (entry, 1) for entry in entries]
            for point, entries in self._plugins.items()
        }
        options: dict[str, Any] = {"observer": Measurements(), "stopwatch": lambda: 0.0, "first_on_tie": True}
        return Framework("default-scheduler", points, self.handle, **{**options, **self._options})

    @classmethod
    def of(cls, make: Callable[[Handle], Any], **options: Any) -> Bench:
        """With one plugin at every point it extends."""
        bench = cls({}, **options)
        plugin = make(bench.handle)
        bench._plugins = {point: [plugin] for point in extension_points(plugin)}
        bench.framework = bench.make()
        return bench

    async def _bind(self, pod: PodInfo, node_name: str) -> None:
        self.bound.append((pod.key, node_name))

    def nodes(self, *names: str, **capacity: Any) -> None:
        for name in names:
            self.node(make_node(name).capacity(**{"cpu": "4", "memory": "8Gi", **capacity}))

    def node(self, node: NodeBuilder | Node) -> NodeInfo:
        return self.cache.set_node(node.obj() if isinstance(node, NodeBuilder) else node)

    def place(self, pod: PodBuilder, node_name: str) -> None:
        """A pod that is there already."""
        self.cache.set_pod(PodInfo(pod.node(node_name).obj()))

    def nominate(self, pod: PodBuilder, node_name: str) -> None:
        """A pod that waits, and is expected on the node."""
        self.nominations.nominate(PodInfo(pod.obj()), node_name)

    def schedule(self, pod: PodBuilder | None = None) -> Decision | Rejection:
        self.state = CycleState()
        return self.framework.schedule_pod(self.state, PodInfo((pod or make_pod("p")).obj()))

    def choose(self, pod: PodBuilder | None = None) -> str:
        found = self.schedule(pod)
        assert isinstance(found, Decision), found
        return found.node_name

    def feasible(self, pod: PodBuilder | None = None) -> list[str]:
        """Names of the nodes the pod may run on."""
        found = self.schedule(pod)
        if isinstance(found, Decision):
            verdicts = self.framework.algorithm._verdicts
            return sorted(self.cache.table.at(row).name for row in verdicts.feasible_rows())
        return []

    def scores(self, pod: PodBuilder | None = None) -> dict[str, int]:
        """Node name -> weighted sum, where at least two nodes are feasible."""
        assert isinstance(self.schedule(pod), Decision)
        algorithm = self.framework.algorithm
        rows = algorithm._verdicts.feasible_rows()
        return {self.cache.table.at(row).name: algorithm._scores.total(row) for row in rows}

    def reject(self, pod: PodBuilder | None = None) -> Rejection:
        found = self.schedule(pod)
        assert isinstance(found, Rejection), found
        return found


class Only:
    """Filter: the named nodes and no other, node by node."""

    def __init__(self, *names: str, name: str = "Only", status: Status | None = None) -> None:
        self.name = name
        self._names = names
        self._status = status
        self.asked: list[str] = []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return None if node.name in self._names else self._status


NO = unschedulable("no")


class Table:
    """Score: as the table says, 0 for others; normalised if configured so."""

    def __init__(self, scores: Mapping[str, int], name: str = "Table") -> None:
        self.name = name
        self._scores = scores
        self.asked: list[str] = []

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        self.asked.append(node.name)
        return self._scores.get(node.name, 0), None
