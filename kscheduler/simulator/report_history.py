"""Computes the report's parts that follow a simulation over virtual time, in a compact form for the report's page.

Frames are moments at equal distances from the first arrival to the end; the state of a frame includes the changes at
its very moment. There are fewer frames the more nodes there are, so that a report of any cluster stays small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kscheduler.api.objects import Node
from kscheduler.api.resources import CPU, PODS
from kscheduler.api.topology_labels import in_shown_order
from kscheduler.framework.preemption.executor import CONDITION
from kscheduler.simulator.accounting import Accounting, NodeRow, PodRecord
from kscheduler.simulator.amounts import Amounts
from kscheduler.simulator.fragmentation import Shape, frequent_shapes
from kscheduler.simulator.statistics import rounded

MAX_BYTES = 600_000  # of `NodeHistory.used`, for all resources together
MIN_FRAMES, MAX_FRAMES = 8, 97
MAX_INTERVALS = 240
SHORTEST_STEP_S = 1e-12  # between two frames; what ends sooner is one moment, whose inverse may be no number
MAX_PLACEMENTS = 100_000  # of longer simulations, placements are only in the table that --placements writes
MAX_LABELS, MAX_VALUES = 8, 200  # labels that nodes can be grouped by, and different values of one
SAMPLED_NODES = 256  # of larger clusters, the fragmentation over time is that of so many nodes, evenly chosen
FULL = 250  # the byte of a node that is full
HIGHEST = 254  # the byte of this and any higher use
NO_CAPACITY = 255  # the byte of a node that has none of the resource


class NodeLabel(msgspec.Struct, frozen=True):
    """One label of the nodes: its different values, and for each node the index of its value, -1 without the label."""

    key: str
    values: list[str]
    of_node: list[int]


class NodeHistory(msgspec.Struct, frozen=True):
    """The use of every node that exists at the end, over time.

    `used`: for each resource, one byte for each node of the first frame, then of the second, and so on: used / capacity
    in 250ths, at most 254; 255 for a node without the resource. JSON has the bytes in base64.
    """

    names: list[str]
    capacity: dict[str, list[float]]  # resource -> of each node, in the unit that the report has for the resource
    labels: list[NodeLabel]
    time_s: list[float]  # of each frame
    used: dict[str, bytes]
    fragmentation: dict[str, list[float | None]]  # resource -> of each frame
    sampled_nodes: int  # from how many nodes fragmentation is computed


class Flow(msgspec.Struct, frozen=True):
    """The numbers of pods that were created, bound and so on in equal intervals."""

    interval_s: float
    created: list[int]
    bound: list[int]
    left: list[int]
    preempted: list[int]


class Placements(msgspec.Struct, frozen=True):
    """The node of every pod that had one, in order of creation: entry i of each list is about pod i."""

    nodes: list[str]
    pods: list[str]  # namespace/name
    node: list[int]  # index into `nodes`
    bound_s: list[float]
    left_s: list[float | None]


class Preempted(msgspec.Struct, frozen=True):
    """A pod that was preempted, and the message of its DisruptionTarget condition."""

    pod: str
    priority: int
    node: str
    bound_s: float
    left_s: float | None
    message: str


# --- pods ---------------------------------------------------------------------------------------------------------


def flow(books: Accounting, start_s: float, preempted: Sequence[Preempted]) -> Flow:
    """Return how many pods were created, bound, left and preempted in each interval."""
    records = books.records.values()
    interval_s = books.duration_s / MAX_INTERVALS or 1.0
    counts = [[0] * MAX_INTERVALS for _ in range(4)]
    created, bound, left, evicted = counts
    last = MAX_INTERVALS - 1
    for record in records:
        if not record.existing:
            created[min(last, int((record.created_s - start_s) / interval_s))] += 1
            if record.bound_s is not None:
                bound[min(last, int((record.bound_s - start_s) / interval_s))] += 1
        if record.left_s is not None and record.bound_s is not None:
            left[min(last, int((record.left_s - start_s) / interval_s))] += 1
    for victim in preempted:
        if victim.left_s is not None:
            evicted[min(last, int(victim.left_s / interval_s))] += 1
    return Flow(rounded(interval_s), *counts)


def placements(books: Accounting, start_s: float) -> Placements | None:
    """Return where pods were placed; None if they are more than a report should hold."""
    here = [record for record in books.records.values() if record.row >= 0]
    if len(here) > MAX_PLACEMENTS:
        return None
    return Placements(
        [row.name for row in books.rows],
        [record.key for record in here],
        [record.row for record in here],
        [round((record.bound_s or 0.0) - start_s, 3) for record in here],
        [None if record.left_s is None else round(record.left_s - start_s, 3) for record in here],
    )


def preempted_pods(books: Accounting, start_s: float) -> list[Preempted]:
    """Return the pods that were preempted, in the order in which they left their nodes."""
    found = []
    for record in books.records.values():
        if record.left_s is None or record.bound_s is None:
            continue
        message = _disruption(record)
        if message is not None:
            node = books.rows[record.row].name if record.row >= 0 else ""
            times = rounded(record.bound_s - start_s), rounded(record.left_s - start_s)
            found.append(Preempted(record.key, record.priority, node, *times, message))
    return sorted(found, key=lambda pod: pod.left_s or 0.0)


def _disruption(record: PodRecord) -> str | None:
    conditions = record.last_seen.status.conditions or ()
    return next((condition.message for condition in conditions if condition.type == CONDITION), None)


def requests(amounts: Amounts) -> dict[str, float]:
    """Return what a pod requests, with cpu in cores, and without the resource "pods"."""
    return {name: amount / 1000 if name == CPU else amount for name, amount in amounts.items() if name != PODS}


# --- nodes --------------------------------------------------------------------------------------------------------


def node_history(
    books: Accounting, nodes: Mapping[str, Node], shown: Sequence[str], start_s: float
) -> NodeHistory | None:
    """Return the use of every node over time; None if there are no nodes. `shown`: the resources of the report."""
    rows = [row for row in books.rows if not row.gone]
    if not rows or not shown:
        return None
    frames = max(MIN_FRAMES, min(MAX_FRAMES, MAX_BYTES // (len(rows) * len(shown))))
    step_s = books.duration_s / (frames - 1)
    film = _Film(rows, books.resources, shown, books.records.values())
    for changes in _by_frame(books, start_s, frames, step_s):
        film.add(changes)
    return NodeHistory(
        names=[row.name for row in rows],
        capacity={name: film.capacities(name) for name in shown},
        labels=_labels([nodes.get(row.name) for row in rows]),
        time_s=[rounded(frame * step_s) for frame in range(frames)],
        used={name: bytes(shares) for name, shares in film.used.items()},
        fragmentation=film.fragmentation,
        sampled_nodes=len(film.sampled),
    )


_Change = tuple[int, Amounts, int]  # row in `books.rows`, amounts, 1 or -1


def _by_frame(books: Accounting, start_s: float, frames: int, step_s: float) -> list[list[_Change]]:
    """Return the changes of use that each frame is the first one to show."""
    changes: list[list[_Change]] = [[] for _ in range(frames)]
    new_row, number = {}, 0
    for index, row in enumerate(books.rows):
        if not row.gone:
            new_row[index] = number
            number += 1
    per_s = 1 / step_s if step_s > SHORTEST_STEP_S else 0.0
    last = frames - 1
    for record in books.records.values():
        at = new_row.get(record.row)
        if at is None or record.bound_s is None:
            continue
        # A hair less: the moment of a frame itself belongs to it, whatever the rounding.
        first = math.ceil((record.bound_s - start_s) * per_s - 1e-9)
        changes[min(last, max(0, first))].append((at, record.demand.amounts, 1))
        if record.left_s is not None:
            gone = math.ceil((record.left_s - start_s) * per_s - 1e-9)
            changes[min(last, max(0, gone))].append((at, record.demand.amounts, -1))
    return changes


class _Film:
    """Appends the use of all nodes frame by frame; only nodes whose use changed are computed again."""

    def __init__(
        self, rows: Sequence[NodeRow], resources: Sequence[str], shown: Sequence[str], records: Collection[PodRecord]
    ) -> None:
        self._shown = shown
        indices = [resources.index(name) for name in shown]
        self._capacity = {name: [row.capacity[at] for row in rows] for name, at in zip(shown, indices, strict=True)}
        self._amounts = {name: [0] * len(rows) for name in shown}
        self._page = {
            name: bytearray(0 if has else NO_CAPACITY for has in capacity) for name, capacity in self._capacity.items()
        }
        self.used = {name: bytearray() for name in shown}
        stride = math.ceil(len(rows) / SAMPLED_NODES)
        self.sampled = range(0, len(rows), stride)
        self._fragments = _Fragments(shown, records)
        self.fragmentation: dict[str, list[float | None]] = {name: [] for name in self._fragments.shapes}

    def capacities(self, name: str) -> list[float]:
        return [has / 1000 if name == CPU else has for has in self._capacity[name]]

    def add(self, changes: Iterable[_Change]) -> None:
        """Append one more frame."""
        used = self._amounts
        changed = set()
        for row, amounts, sign in changes:
            changed.add(row)
            for name, amount in amounts.items():
                if name in used:
                    used[name][row] += sign * amount
        for name in self._shown:
            page, amounts_here, capacity = self._page[name], used[name], self._capacity[name]
            for row in changed:
                if capacity[row]:
                    share = (amounts_here[row] * 2 * FULL + capacity[row]) // (2 * capacity[row])
                    page[row] = min(HIGHEST, share)
            self.used[name] += page
        self._add_fragmentation()

    def _add_fragmentation(self) -> None:
        columns = [(self._capacity[name], self._amounts[name]) for name in self._shown]
        frees = Counter(tuple([has[row] - taken[row] for has, taken in columns]) for row in self.sampled)
        for name, series in self.fragmentation.items():
            series.append(self._fragments.of(name, frees))


class _Fragments:
    """Computes the fragmentation of each resource from nodes' free amounts; see `fragmentation` for its definition."""

    def __init__(self, shown: Sequence[str], records: Collection[PodRecord]) -> None:
        self._at = {name: position for position, name in enumerate(shown)}
        # resource -> the weight and the needs of each frequent shape, as [(position, amount)]
        self.shapes: dict[str, list[tuple[int, list[tuple[int, int]]]]] = {}
        for name in shown:
            frequent = frequent_shapes(records, name) if name != PODS else []
            if frequent:
                self.shapes[name] = [(weight, self._needs(shape)) for shape, weight in frequent]
        self._lost: dict[tuple[str, tuple[int, ...]], int] = {}

    def _needs(self, shape: Shape) -> list[tuple[int, int]]:
        return [(self._at[name], amount) for name, amount in shape if name in self._at]

    def of(self, name: str, frees: Mapping[tuple[int, ...], int]) -> float | None:
        shapes, at = self.shapes[name], self._at[name]
        total = lost = 0
        for free, count in frees.items():
            if free[at] > 0:
                total += free[at] * count
                lost += free[at] * count * self._unfit(name, free)
        weights = sum(weight for weight, _ in shapes)
        return round(lost / (weights * total), 4) if total else None

    def _unfit(self, name: str, free: tuple[int, ...]) -> int:
        """Return the weight of the shapes that do not fit into what a node has free."""
        known = self._lost.get((name, free))
        if known is None:
            known = 0
            for weight, needs in self.shapes[name]:
                for at, amount in needs:
                    if free[at] < amount:
                        known += weight
                        break
            self._lost[name, free] = known
        return known


def _labels(nodes: Sequence[Node | None]) -> list[NodeLabel]:
    """Return the labels by which nodes can be grouped: those with a few different values, zones first."""
    labels = [node.metadata.labels or {} if node is not None else {} for node in nodes]
    values: dict[str, Counter[str]] = {}
    for each in labels:
        for key, value in each.items():
            values.setdefault(key, Counter())[value] += 1
    useful = [key for key, counts in values.items() if 1 < len(counts) <= min(MAX_VALUES, len(nodes) - 1)]
    found = []
    for key in in_shown_order(useful)[:MAX_LABELS]:
        listed = sorted(values[key])
        index = {value: position for position, value in enumerate(listed)}
        found.append(
            NodeLabel(key, listed, [index.get(each.get(key, ""), -1) if key in each else -1 for each in labels])
        )
    return found
