"""The compiled lane: decides many pods in one call of the compiled core, exactly as the general lane would one by one.

It takes the leading pods of a sequence, as many as it can, and leaves the next to `Framework.schedule_pod`: a pod that
is alike no other, one that fits nowhere, one that must leave room to nominated pods, and the like.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kscheduler.framework.interface import Handle
from kscheduler.framework.observer import Observer
from kscheduler.framework.runtime import Framework
from kscheduler.snapshot.pod_info import PodInfo

MAX_BYTES = 256 << 20


class Placement(NamedTuple):
    """Where a pod goes; all nodes were evaluated."""

    row: int
    node_name: str
    feasible: int  # nodes that fit


class Placements:
    """Where the leading pods go, in their order. Their amounts are counted on the rows, and nothing else is.

    The caller must assume each: `cache.assume(pod, node_name, counted=True)`.
    """

    __slots__ = ("feasible", "node_names", "rows")

    def __init__(self, rows: Sequence[int], node_names: Sequence[str], feasible: Sequence[int]) -> None:
        self.rows = rows
        self.node_names = node_names
        self.feasible = feasible  # nodes that fit; may be longer than `rows`

    def __len__(self) -> int:
        return len(self.node_names)

    def __iter__(self) -> Iterator[Placement]:
        return map(Placement, self.rows, self.node_names, self.feasible)


NO_PLACEMENTS = Placements(array("i"), (), array("i"))


class CompiledLane:
    """For all profiles of a scheduler, on one table."""

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        handle: Handle,
        observer: Observer,
        stopwatch: Callable[[], float],
        *,
        threads: int | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`threads`: None chooses by the machine. `max_bytes`: for what classes know of the rows."""

    def place(self, pods: Sequence[PodInfo]) -> Placements:
        """Decide the leading pods, each seeing those before it; none, if the general lane has to decide the first.

        A pod whose class joins other pods (spread, affinity) is the last of its call: it has to be assumed first.
        """
        return NO_PLACEMENTS
