"""Dry runs of preemption on numbers: which pods would have to leave a node so that another pod fits there.

The conditions are free resources, and counts of pods by topology domain, each with a limit. The pods of lower priority
are removed; if the pod fits then, they are put back one by one as long as it still does. Nothing is evicted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from kscheduler._fast.codes import FEASIBLE, MAX_CODE, NOBODY, TOO_MANY_PODS, UNRESOLVABLE, entry_bit
from kscheduler._fast.reference.checks import INT32_MAX, INT64_MAX, check_length, index, within
from kscheduler._fast.reference.columns import NodeColumns, PodRequest, _Row
from kscheduler._fast.reference.verdicts import Verdicts

# (place, detail, detail without a domain or 0, row -> domain, domain -> count, domain -> highest count that is fine)
_Tally = tuple[int, int, int, "array[int]", "array[int]", "array[int] | None"]


@final
class Residents:
    """The pods on one node, as (priority, request, kind), the most important first. Immutable.

    Pods of one kind change each count by topology domain equally (`weights` of `clear_nodes`); the caller numbers the
    kinds. `members` are the same pods as objects of the caller, in the caller's order, for `are` to compare.
    """

    def __init__(self, members: Iterable[object], pods: Sequence[tuple[int, PodRequest, int]]) -> None:
        self._members = tuple(members)
        self._pods = tuple(pods)
        previous = INT32_MAX
        for priority, _, kind in self._pods:
            within("priority", priority, -INT32_MAX - 1, INT32_MAX)
            within("kind", kind, 0, INT32_MAX)
            if priority > previous:
                raise ValueError(f"pods: expected falling priorities, got {priority} after {previous}")
            previous = priority

    def __len__(self) -> int:
        return len(self._pods)

    def are(self, pods: Mapping[str, object]) -> bool:
        """Return True if the values of this dict are the members: the same objects in the same order."""
        return len(pods) == len(self._members) and all(map(_is, pods.values(), self._members))


def _is(one: object, other: object) -> bool:
    return one is other


@final
class Conditions:
    """What a pod requires of a node, as numbers that a dry run can follow. Valid for one state of the table.

    Each condition has a place, the position of its filter, ascending from 1. The request has the place `room_place`; 0
    means that there is no request. Each of the `tallies` (counts of pods by topology domain) has a place. A tally with
    limits holds if the count of the node's domain is not above its limit. Those without limits, which must share a
    place, hold if each counts a pod, or with `may_be_first`, if none of them counts a pod in any domain. `detail` is
    the reason number if a tally does not hold; `missing` that of a node without a domain, 0 if it is accepted.
    """

    def __init__(
        self,
        columns: NodeColumns,
        priority: int,
        request: PodRequest,
        room_place: int,
        tallies: Sequence[_Tally],
        may_be_first: bool,
    ) -> None:
        columns._check_resources(request)
        self._rows = columns.rows
        self._priority = within("priority", priority, -INT32_MAX - 1, INT32_MAX)
        self._request = request
        self._room_place = within("room_place", room_place, 0, MAX_CODE)
        self._tallies = tuple(tallies)
        self._may_be_first = may_be_first
        self._pairs = 0  # domains in which tallies without limits count a pod
        previous, needed = 0, 0
        for place, detail, missing, ids, counts, limits in self._tallies:
            within("place", place, max(1, previous), MAX_CODE)
            within("detail", detail, 1, INT64_MAX)
            within("missing", missing, 0, INT64_MAX)
            _check_domains(ids, counts, limits, self._rows)
            if limits is None:
                if needed and place != needed:
                    raise ValueError(f"tallies without limits: expected them at place {needed}, got {place}")
                needed = place
                self._pairs += sum(count != 0 for count in counts)
            previous = place

    @property
    def tallies(self) -> int:
        """The number of tallies, i.e. of counts of pods by topology domain, among the conditions."""
        return len(self._tallies)


def _check_domains(ids: array[int], counts: array[int], limits: array[int] | None, rows: int) -> None:
    check_length("ids", len(ids), rows)
    if limits is not None and len(limits) != len(counts):
        raise ValueError(f"limits: expected {len(counts)} domains, got {len(limits)}")
    for row in range(rows):
        if ids[row] >= len(counts):
            raise IndexError(f"row {row} is in domain {ids[row]}, there are counts for {len(counts)}")


@dataclass(slots=True)
class _State:
    """The numbers of a node at some moment of a dry run."""

    left: list[int]  # what is free of each resource of the request
    room: int  # how many more pods the node may have
    values: list[int]  # the count of the node's domain in each tally


@dataclass(frozen=True, slots=True)
class _Trial:
    """One node on which a dry run is made."""

    node: _Row
    row: int
    pods: Sequence[tuple[int, PodRequest, int]]
    nominated: Sequence[tuple[int, PodRequest, int]]  # nominated pods for which the preemptor must leave room
    weights: Sequence[Sequence[int]]  # kind -> tally -> by how much a pod that comes or leaves changes the count


def clear_nodes(
    columns: NodeColumns,
    verdicts: Verdicts,
    conditions: Conditions,
    rows: Sequence[int],
    residents: Sequence[Residents],
    nominated_by_node: Sequence[Residents | None],
    weights: array[int],
    counted: bytes | bytearray,
) -> list[tuple[int, int]]:
    """Return for each node whether the pod would fit there if all pods of lower priority left.

    If so, the node's result is (0, 0); else the place and the detail (reason number) of the first condition that fails,
    where a code of `verdicts` counts as a place; or (NOBODY, 0) if no pod there has a lower priority. The pod has to
    fit both with and without the pods nominated to the node, `nominated_by_node`. A tally is a count of pods by
    topology domain. `weights` has, by kind of pod and then by tally, how much a pod that comes or leaves changes the
    tally. `counted` has, by node and then by tally, a byte: 0 if pods that come to the node or leave it do not change
    the tally.
    """
    answers = []
    for trial in _trials(columns, conditions, rows, residents, nominated_by_node, weights, counted):
        if not _lower(conditions, trial):
            answers.append((NOBODY, 0))
            continue
        state, code = _cleared(conditions, trial), verdicts.code(trial.row)
        if code == FEASIBLE:
            answers.append(_obstacle(conditions, trial, state))
            continue
        # The verdict holds with the nominated pods, too: the answer without them is not asked for.
        place, detail = _first_obstacle(conditions, trial, _with_nominated(conditions, trial, state))
        answers.append((code, verdicts.detail(trial.row)) if not place or code < place else (place, detail))
    return answers


def spare_pods(
    columns: NodeColumns,
    conditions: Conditions,
    rows: Sequence[int],
    residents: Sequence[Residents],
    nominated_by_node: Sequence[Residents | None],
    weights: array[int],
    counted: bytes | bytearray,
    violating: bytes | bytearray,
) -> list[tuple[list[int], list[int]]]:
    """Return the victims on nodes on which the pod would fit if all pods of lower priority left.

    The nodes are those with the result (0, 0) of `clear_nodes`, with the same arguments. `violating` has a byte for
    each pod on a node, node by node: not 0 if its eviction would violate a PodDisruptionBudget. Those pods are put back
    first, then the others, each in the order of the residents. Returns for each node (positions of the violating pods
    that cannot stay, positions of the others that cannot).
    """
    wanted = sum(map(len, residents))
    if len(violating) != wanted:
        raise ValueError(f"violating: expected {wanted} bytes, got {len(violating)}")
    answers, done = [], 0
    for trial in _trials(columns, conditions, rows, residents, nominated_by_node, weights, counted):
        marks = violating[done : done + len(trial.pods)]
        done += len(trial.pods)
        state = _cleared(conditions, trial)
        lower = _lower(conditions, trial)
        guarded = [position for position in lower if marks[position]]
        others = [position for position in lower if not marks[position]]
        answers.append((_spare(conditions, trial, state, guarded), _spare(conditions, trial, state, others)))
    return answers


def _trials(
    columns: NodeColumns,
    conditions: Conditions,
    rows: Sequence[int],
    residents: Sequence[Residents],
    nominated_by_node: Sequence[Residents | None],
    weights: array[int],
    counted: bytes | bytearray,
) -> Iterator[_Trial]:
    if columns.rows != conditions._rows:
        raise ValueError(f"conditions are for {conditions._rows} rows, these columns have {columns.rows}")
    if not len(rows) == len(residents) == len(nominated_by_node):
        raise ValueError(f"expected as many residents and nominated_by_node as rows: {len(rows)}")
    tallies = conditions.tallies
    if len(counted) != tallies * len(rows):
        raise ValueError(f"counted: expected {tallies * len(rows)} bytes, got {len(counted)}")
    kinds = len(weights) // tallies if tallies else 0
    for row in rows:
        index("row", row, columns.rows)
    for pods in (*residents, *nominated_by_node):
        for _, _, kind in () if pods is None or not tallies else pods._pods:
            index("kind", kind, kinds)
    for number, (row, here, nominated) in enumerate(zip(rows, residents, nominated_by_node, strict=True)):
        marks = counted[number * tallies : (number + 1) * tallies]
        own = [
            [weights[kind * tallies + tally] if marks[tally] else 0 for tally in range(tallies)]
            for kind in range(kinds)
        ]
        yield _Trial(columns._table[row], row, here._pods, () if nominated is None else nominated._pods, own)


def _lower(conditions: Conditions, trial: _Trial) -> list[int]:
    return [position for position, (priority, _, _) in enumerate(trial.pods) if priority < conditions._priority]


def _cleared(conditions: Conditions, trial: _Trial) -> _State:
    """Return the numbers of the node without its pods of lower priority."""
    node = trial.node
    state = _State(
        [node.allocatable[resource] - node.requested[resource] for resource, _ in conditions._request.entries],
        node.allowed_pods - node.pods,
        [0 if ids[trial.row] < 0 else counts[ids[trial.row]] for _, _, _, ids, counts, _ in conditions._tallies],
    )
    for position in _lower(conditions, trial):
        _move(conditions, trial, state, trial.pods[position], -1)
    return state


def _move(conditions: Conditions, trial: _Trial, state: _State, pod: tuple[int, PodRequest, int], by: int) -> None:
    """Add a pod to the node (`by` 1), or remove it (-1)."""
    _, request, kind = pod
    asked = dict(request.entries)
    for position, (resource, _) in enumerate(conditions._request.entries):
        state.left[position] -= by * asked.get(resource, 0)
    state.room -= by
    for position in range(conditions.tallies):
        state.values[position] += by * trial.weights[kind][position]


def _spare(conditions: Conditions, trial: _Trial, state: _State, positions: Sequence[int]) -> list[int]:
    """Put these pods back where the preemptor still fits; return the positions of those that cannot stay."""
    victims = []
    for position in positions:
        _move(conditions, trial, state, trial.pods[position], 1)
        if _obstacle(conditions, trial, state)[0]:
            _move(conditions, trial, state, trial.pods[position], -1)
            victims.append(position)
    return victims


def _obstacle(conditions: Conditions, trial: _Trial, state: _State) -> tuple[int, int]:
    """Return (place, detail), i.e. filter and reason, of the first condition that fails; (0, 0) if all hold.

    They are checked with the nominated pods on the node, and then without.
    """
    if trial.nominated:
        found = _first_obstacle(conditions, trial, _with_nominated(conditions, trial, state))
        if found[0]:
            return found
    return _first_obstacle(conditions, trial, state)


def _with_nominated(conditions: Conditions, trial: _Trial, state: _State) -> _State:
    """Return the numbers of the node as if the nominated pods were there, too."""
    with_nominated = _State(list(state.left), state.room, list(state.values))
    for pod in trial.nominated:
        _move(conditions, trial, with_nominated, pod, 1)
    return with_nominated


def _first_obstacle(conditions: Conditions, trial: _Trial, state: _State) -> tuple[int, int]:
    room_place = conditions._room_place
    are_needs_met = False
    for position, (place, detail, missing, ids, _, limits) in enumerate(conditions._tallies):
        if room_place and room_place < place:
            lacking = _lacking(conditions, trial, state)
            if lacking:
                return room_place, lacking
            room_place = 0
        if limits is None:
            if not are_needs_met:
                lacking = _unmet(conditions, trial, state)
                if lacking:
                    return place, lacking
                are_needs_met = True
            continue
        domain = ids[trial.row]
        if domain < 0:
            if missing:
                return place, missing
        elif state.values[position] > limits[domain]:
            return place, detail
    lacking = _lacking(conditions, trial, state) if room_place else 0
    return (room_place, lacking) if lacking else (0, 0)


def _lacking(conditions: Conditions, trial: _Trial, state: _State) -> int:
    """Return the detail (reason number) of `filter_fit` for the request; 0 if there is room."""
    lacking = TOO_MANY_PODS if state.room < 1 else 0
    for position, (resource, amount) in enumerate(conditions._request.entries):
        if amount > state.left[position]:
            lacking |= entry_bit(position)
            if amount > trial.node.allocatable[resource]:
                lacking |= UNRESOLVABLE
    return lacking


def _unmet(conditions: Conditions, trial: _Trial, state: _State) -> int:
    """Return the detail (reason number) of the first tally (count of pods by domain) that should be above 0 and is not.

    0 if there is no such tally.
    """
    here = 0  # how many of the node's own domains they count a pod in, as the table has it
    counting = 0  # the same at this moment
    needs = 0
    first_detail = 0
    for value, (_, detail, missing, ids, counts, limits) in zip(state.values, conditions._tallies, strict=True):
        if limits is not None:
            continue
        domain = ids[trial.row]
        if domain < 0:
            if missing:
                return missing
            continue
        needs += 1
        here += counts[domain] != 0
        counting += value > 0
        if value <= 0 and not first_detail:
            first_detail = detail
    if counting == needs:
        return 0
    is_first = conditions._may_be_first and not counting and conditions._pairs == here
    return 0 if is_first else first_detail
