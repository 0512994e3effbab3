"""Counts of pods by node, one for each question (such as: which pods does this selector match?), kept up to date.

A question is a key and a function that returns the weight of a group of equal pods: 0 leaves the group out, 1 counts
each of its pods. The function is called once for each group, when the counter is next used after the group appeared;
from then on a pod that comes or goes only changes the counters of its group. Two kinds of groups are counted, by the
same code: label classes, i.e. pods with equal namespace and labels (which pods does a selector match?), and the pods
that have an equal affinity term (which existing terms match this pod?).

A question can name tokens (labels, namespaces) without which nothing matches; then only the groups indexed under those
tokens are weighed. That matters when each of thousands of workloads has labels and terms of its own.

A counter is valid until the next question: get it again each time. The least recently used are dropped to save memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from kscheduler._fast import DomainTally, NodeColumns
from kscheduler.api.labels import Token

# Room for the counters of each kind and their sums by domain: at 5,000 nodes 1,491 of them, each summed in one way; a
# few are kept whatever their size.
MAX_BYTES = 128 << 20
MIN_KEPT = 64
BYTES_PER_ROW = 8
BYTES_WITH_TALLY = BYTES_PER_ROW + 10
MAX_TALLIES = 8  # of one counter: ways in which one question is summed by domain

# The token of groups without any other token; no label has such a key.
ANYWHERE: Token = ("*", "")

# Returns lists of tokens; each group that a question counts has at least one token of each list.
Narrow = Callable[[], Sequence[Sequence[Token]]]


@final
class RowCounter:
    """The number of pods on each node that count for one question, such as which pods a selector matches.

    `values` is array('q'), row -> weighted number of pods; 0 for a row without node.
    """

    __slots__ = ("_listeners", "_tallies", "groups", "seen", "total", "values")

    def __init__(self) -> None:
        self.values: array[int] = array("q")
        self.total = 0  # of all rows
        self.groups: set[PodGroup] = set()  # the groups counted
        self.seen = -1  # id of the last group weighed for this question
        self._tallies: dict[Hashable, _Kept] = {}  # way to sum -> sums
        self._listeners: list[Callable[[int, int], None]] = []  # `add` of each tally

    def add(self, row: int, amount: int) -> None:
        if row >= len(self.values):
            self.grow_to(row + 1)
        self.values[row] += amount
        self.total += amount
        for add in self._listeners:
            add(row, amount)

    def grow_to(self, rows: int) -> None:
        """Grow `values` to at least `rows` entries."""
        if rows > len(self.values):
            missing = max(rows, 2 * len(self.values)) - len(self.values)
            self.values.frombytes(bytes(BYTES_PER_ROW * missing))

    def tally(self, way: Hashable, nodes: int, build: Callable[[DomainTally], None]) -> DomainTally:
        """Return these counts summed by topology domain, kept up to date as pods come and go.

        `way` identifies the domains and the nodes that count. `build` fills the sums again, which is needed when
        `nodes`, the table's static generation, has changed. Sums that were dropped to save memory are no longer valid:
        call this method again.
        """
        found = self._tallies.get(way)
        if found is None:
            if len(self._tallies) >= MAX_TALLIES:
                self._give_up(next(iter(self._tallies)))
            found = self._tallies[way] = _Kept(DomainTally(), nodes - 1, build)
            self._listeners.append(found.tally.add)
        if found.nodes != nodes or not found.tally.is_good:
            build(found.tally)
            found.nodes, found.build = nodes, build
        return found.tally

    def give_up(self) -> None:
        """Drop the sums by topology domain, and mark them invalid: this counter will not be updated any more."""
        for way in list(self._tallies):
            self._give_up(way)

    def _give_up(self, way: Hashable) -> None:
        tally = self._tallies.pop(way).tally
        self._listeners.remove(tally.add)
        tally.give_up()


@dataclass(slots=True, eq=False)
class _Kept:
    tally: DomainTally
    nodes: int  # static generation of the table for which the tally was built
    build: Callable[[DomainTally], None]


class PodGroup:
    """A group of pods that every count of pods treats equally, with their number by row (node).

    The group is a `LabelClass`, i.e. pods with equal namespace and labels, or `TermHolders`, i.e. pods that state an
    equal affinity term.
    """

    __slots__ = ("counted_by", "found_by", "id", "key", "rows")

    def __init__(self, id: int, key: Hashable) -> None:
        self.id = id  # ascending in order of appearance, never used again
        self.key = key
        self.rows: dict[int, int] = {}  # row -> how many are there, never 0
        self.counted_by: dict[RowCounter, int] = {}  # counter -> weight of one of these pods in it, never 0
        self.found_by: Sequence[Token] = ()  # the tokens the index has it under

    def narrowings(self) -> Sequence[Sequence[Token]]:
        """Return lists of lookup tokens (labels, namespaces), by which the group is found.

        The index chooses one of the lists, and must contain the group under each token of that list.
        """
        return ()


G = TypeVar("G", bound=PodGroup)


@final
class GroupCounters(Generic[G]):
    """Groups of equal pods on nodes, and the counts of pods by node that are computed group by group.

    The groups of one such object are either pods with equal labels, or pods with an equal affinity term.
    """

    def __init__(self, columns: NodeColumns, make: Callable[[int, Hashable], G]) -> None:
        self._columns = columns
        self._make = make
        self._groups: dict[Hashable, G] = {}  # key -> group; each has pods
        self.get: Callable[[Hashable], G | None] = self._groups.get  # returns the group with a key, if there is one
        self._appeared: list[G] = []  # in order of id; may hold groups that are gone
        self.last_id = -1  # the id of the group that appeared last
        self.vanished = 0  # groups that have lost their last pod so far
        self._index: dict[Token, dict[G, None]] = {}  # token -> groups found by it, in order of id
        self._kept: OrderedDict[Hashable, RowCounter] = OrderedDict()  # question -> answer, latest use last

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[G]:
        return iter(self._groups.values())

    def since(self, seen: int) -> list[G]:
        """Return the groups of pods that appeared after the group with id `seen`.

        Some may have lost all their pods since.
        """
        if seen >= self.last_id:
            return []
        return self._appeared[bisect_right(self._appeared, seen, key=lambda group: group.id) :]

    # --- pods come and go ---

    def clear(self) -> None:
        """Remove all groups of pods and all counters.

        Ids are not reused: a group that appears again gets a new one.
        """
        for counter in self._kept.values():
            counter.give_up()
        self._kept.clear()
        self.vanished += len(self._groups)
        self._groups.clear()
        self._appeared.clear()
        self._index.clear()

    def add(self, key: Hashable, row: int, count: int = 1) -> None:
        """Add `count` (at least 1) pods of the group `key` to a row (node).

        A pod that states its group's affinity term several times counts as often.
        """
        group = self.group(key)
        group.rows[row] = group.rows.get(row, 0) + count
        for counter, weight in group.counted_by.items():
            counter.add(row, weight * count)

    def group(self, key: Hashable) -> G:
        """Return the group of pods with this key, for the caller to add pods; it is created if necessary."""
        return self._groups.get(key) or self._appear(key)

    def remove(self, key: Hashable, row: int, count: int = 1) -> None:
        group = self._groups[key]
        left = group.rows[row] - count
        if left:
            group.rows[row] = left
        else:
            del group.rows[row]
        for counter, weight in group.counted_by.items():
            counter.add(row, -weight * count)
        if not group.rows:
            self._vanish(group)

    def _appear(self, key: Hashable) -> G:
        self.last_id += 1
        group = self._groups[key] = self._make(self.last_id, key)
        if len(self._appeared) > 2 * len(self._groups) + MIN_KEPT:
            self._appeared = [known for known in self._appeared if known.rows]
        self._appeared.append(group)
        group.found_by = self._cheapest(group.narrowings() or ((ANYWHERE,),))
        for token in group.found_by:
            self._index.setdefault(token, {})[group] = None
        return group

    def _vanish(self, group: G) -> None:
        self.vanished += 1
        del self._groups[group.key]
        for counter in group.counted_by:
            counter.groups.discard(group)
        group.counted_by.clear()
        for token in group.found_by:
            found = self._index.get(token, {})
            found.pop(group, None)
            if not found:
                self._index.pop(token, None)

    # --- questions ---

    def counter(self, key: Hashable, weigh: Callable[[G], int], narrow: Narrow | None = None) -> RowCounter:
        """Return the counter (pods by node) for a question, up to date and at least as long as the table has rows.

        `key` identifies the question; equal keys must come with equal `weigh` and `narrow`. `weigh` returns how much
        each pod of a group counts; it is called once for a group, and must depend on the key and the group's identity
        alone. `narrow` returns lists of tokens (labels, namespaces); only the groups indexed under the list that finds
        the fewest are weighed.
        """
        found = self._kept.get(key)
        if found is None:
            self._make_room()
            found = self._kept[key] = RowCounter()
        else:
            self._kept.move_to_end(key)
        found.grow_to(self._columns.rows)
        if found.seen < self.last_id:
            narrowings = narrow() if narrow is not None else ()
            self._catch_up(found, weigh, self._find(narrowings, found.seen) if narrowings else self.since(found.seen))
        return found

    def _catch_up(self, counter: RowCounter, weigh: Callable[[G], int], groups: Iterable[G]) -> None:
        for group in groups:
            weight = weigh(group) if group.rows else 0
            if weight:
                group.counted_by[counter] = weight
                counter.groups.add(group)
                for row, count in group.rows.items():
                    counter.add(row, weight * count)
        counter.seen = self.last_id

    def _find(self, narrowings: Sequence[Sequence[Token]], seen: int) -> Iterable[G]:
        """Return the groups with an id above `seen` that may count for a question.

        `narrowings` are the question's lists of tokens, i.e. labels and namespaces, under which groups are indexed. The
        list is used that finds the fewest groups.
        """
        found: dict[G, None] = {}
        for token in self._cheapest(narrowings):
            for group in reversed(self._index.get(token, {})):
                if group.id <= seen:
                    break
                found[group] = None
        return found

    def _cheapest(self, narrowings: Sequence[Sequence[Token]]) -> Sequence[Token]:
        """Return the list of tokens (labels, namespaces) under which the fewest groups are indexed."""
        if len(narrowings) == 1:
            return narrowings[0]
        return min(narrowings, key=lambda tokens: sum(len(self._index.get(token, ())) for token in tokens))

    def _make_room(self) -> None:
        most = max(MIN_KEPT, MAX_BYTES // (BYTES_WITH_TALLY * max(self._columns.rows, 1)))
        while len(self._kept) >= most:
            _, given_up = self._kept.popitem(last=False)
            given_up.give_up()
            for group in given_up.groups:
                del group.counted_by[given_up]
