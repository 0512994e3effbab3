"""A guest's Filter answers about one pod, node by node, until enough feasible nodes are known.

A search may be interrupted, so that its calls are made on other threads, and be resumed by the pod's next cycle. An
answer about a node is then still valid if the node object has not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.engine import Module
from kscheduler.wasm.extension.cycles import Cycle
from kscheduler.wasm.extension.host.world import World
from kscheduler.wasm.extension.results import Fault
from kscheduler.wasm.extension.rows import Answer, Ends

MAX_KEPT = 4  # interrupted searches; each may hold an instance
MAX_INTERRUPTIONS = 3  # of one search: when nodes change all the time, the other calls are made at once

_FITS = (0, "")


class Search:
    def __init__(self, pod: PodInfo, cycle: Cycle, world: World, version: Module, *, sees_all_nodes: bool) -> None:
        """Prepare a search. `version` is the guest's module.

        `sees_all_nodes`: its answer about one node may depend on other nodes.
        """
        self.pod = pod
        self.cycle = cycle
        self.version = version
        self.interruptions = 0
        self.fault: Fault | None = None
        self._is_over = False  # an answer ended the search: there are no answers about the rows after it
        self._world = world
        self._sees_all_nodes = sees_all_nodes
        self._seen = world.node_changes
        self._shown: dict[int, object] = {}  # row -> the node object at the time of the call
        self._answered: dict[int, tuple[int, str]] = {}  # row -> result of the export, and its reason
        self._rows: Sequence[int] = ()
        self._enough = 0

    def begin(self, rows: Sequence[int], enough: int) -> None:
        """Begin or resume the search over `rows` of nodes, in this order.

        It ends when `enough` of them are feasible.
        """
        self._rows, self._enough = rows, enough
        self._forget_changed()

    def _forget_changed(self) -> None:
        changed = [row for row in self._answered if self._world.node_object(row) is not self._shown[row]]
        if (changed and self._is_over) or (self._sees_all_nodes and self._world.node_changes != self._seen):
            self._answered.clear()
            self._is_over = False
        for row in changed:
            self._answered.pop(row, None)
        self._seen = self._world.node_changes

    def next_rows(self) -> list[int]:
        """Return the rows of nodes to ask about next: as many as suffice if all are feasible; none at the end."""
        if self._is_over:
            return []
        found: list[int] = []
        fitting = 0
        for row in self._rows:
            answer = self._answered.get(row)
            if answer is None:
                found.append(row)
            elif answer[0] == 0:
                fitting += 1
            if fitting + len(found) >= self._enough:
                break
        self._shown.update((row, self._world.node_object(row)) for row in found)
        return found

    def take(self, rows: Collection[int], answers: Sequence[Answer], ends: Ends) -> None:
        """Store the answers about these rows (nodes).

        `answers` are those other than 0, up to the first that ends the search.
        """
        self._is_over = bool(answers) and ends(answers[-1][1])
        self._answered.update(dict.fromkeys(rows, _FITS))
        self._answered.update({row: (value, reason) for row, value, reason in answers})

    @property
    def answers(self) -> list[Answer]:
        """The answers other than 0 (success), in the order of rows (nodes)."""
        found: Mapping[int, tuple[int, str]] = self._answered
        return [(row, *found[row]) for row in self._rows if row in found and found[row][0]]


class Searches:
    """The interrupted searches of one plugin, by pod uid."""

    def __init__(self) -> None:
        self._kept: dict[str, Search] = {}

    def keep(self, search: Search) -> None:
        self._kept[search.pod.uid] = search
        while len(self._kept) > MAX_KEPT:
            self._kept.pop(next(iter(self._kept))).cycle.release()

    def take(self, pod: PodInfo) -> Search | None:
        """Remove and return the pod's search; None if there is none or the pod object has changed since."""
        found = self._kept.pop(pod.uid, None)
        if found is not None and found.pod.pod is not pod.pod:
            found.cycle.release()
            return None
        return found
