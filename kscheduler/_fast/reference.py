"""The kernels in plain Python: what the compiled ones must answer, and what runs where those are not built.

Integer division here is on non-negative numbers unless a comment says otherwise, so Python's floor equals Go's
truncation. A filter touches only rows that are still feasible; a score writes only those. Formulas are
kube-scheduler 1.36's and must come out bit for bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, final

from kscheduler._fast.codes import (
    CPU,
    EPHEMERAL_STORAGE,
    FEASIBLE,
    MAX_AMOUNT,
    MAX_CODE,
    MAX_ENTRIES,
    MAX_RAW,
    MAX_SCORED_RESOURCES,
    MAX_WEIGHT,
    MEMORY,
    NO_NODE,
    NOT_EXAMINED,
    TOO_MANY_PODS,
    UNRESOLVABLE,
)

if TYPE_CHECKING:
    from array import array

_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


def _within(what: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"{what}: expected {low}..{high}, got {value}")
    return value


def _index(what: str, value: int, count: int) -> int:
    if not 0 <= value < count:
        raise IndexError(f"{what} {value} outside 0..{count - 1}" if count else f"{what} {value}: the table is empty")
    return value


@final
class PodRequest:
    """What one pod asks for: (resource column, amount above zero) in column order. Equal by value, immutable.

    `non_zero_cpu` (milli) and `non_zero_memory` (bytes) count the scoring defaults for containers without a request.
    """

    __slots__ = ("_amounts", "_entries", "_non_zero_cpu", "_non_zero_memory")

    def __init__(self, entries: Sequence[tuple[int, int]], non_zero_cpu: int, non_zero_memory: int) -> None:
        if len(entries) > MAX_ENTRIES:
            raise ValueError(f"entries: expected at most {MAX_ENTRIES} resources, got {len(entries)}")
        previous = -1
        for resource, amount in entries:
            _within("resource", resource, 0, _INT32_MAX)
            if resource <= previous:
                raise ValueError(f"entries: expected ascending resources, got {resource} after {previous}")
            _within("amount", amount, 1, MAX_AMOUNT)
            previous = resource
        self._entries = tuple((resource, amount) for resource, amount in entries)
        self._amounts = dict(self._entries)  # resource column -> amount
        self._non_zero_cpu = _within("non_zero_cpu", non_zero_cpu, 0, MAX_AMOUNT)
        self._non_zero_memory = _within("non_zero_memory", non_zero_memory, 0, MAX_AMOUNT)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return self._entries

    @property
    def non_zero_cpu(self) -> int:
        return self._non_zero_cpu

    @property
    def non_zero_memory(self) -> int:
        return self._non_zero_memory

    def _key(self) -> tuple[tuple[tuple[int, int], ...], int, int]:
        return self._entries, self._non_zero_cpu, self._non_zero_memory

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, PodRequest) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"PodRequest({self._entries!r}, {self._non_zero_cpu}, {self._non_zero_memory})"


class _Row:
    """One node: what is asked of it so far, and what it has."""

    __slots__ = (
        "alive",
        "allocatable",
        "allowed_pods",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "profile",
        "requested",
    )

    def __init__(self, resources: int, *, alive: bool) -> None:
        self.alive = alive
        self.allocatable = [0] * resources  # resource column -> amount
        self.requested = [0] * resources  # resource column -> amount
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        self.pods = 0
        self.allowed_pods = 0
        self.profile = -1


@final
class NodeColumns:
    """All nodes as integers, one row a node. The only place where these numbers are kept; one writer.

    A new row is empty: everything 0, no profile (-1). Resource columns 0..2 exist from the start.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._capacity = _within("capacity", capacity, 1, _INT32_MAX)
        self._table: list[_Row] = []
        self._resource_count = EPHEMERAL_STORAGE + 1
        self._generation = 0

    # --- shape ---

    @property
    def rows(self) -> int:
        """Rows ever in use at once, dead ones included; what kernels scan."""
        return len(self._table)

    @property
    def alive_count(self) -> int:
        return sum(node.alive for node in self._table)

    @property
    def resource_count(self) -> int:
        return self._resource_count

    @property
    def capacity(self) -> int:
        """Rows there is memory for; doubles when it is used up."""
        return self._capacity

    @property
    def generation(self) -> int:
        """Bumped by every change."""
        return self._generation

    def add_resource(self) -> int:
        """A new resource column, zero everywhere; returns its index."""
        for node in self._table:
            node.allocatable.append(0)
            node.requested.append(0)
        self._resource_count += 1
        self._generation += 1
        return self._resource_count - 1

    def add_row(self) -> int:
        """A row for a new node: the lowest freed one, or else one more at the end."""
        row = next((row for row, node in enumerate(self._table) if not node.alive), len(self._table))
        fresh = _Row(self._resource_count, alive=True)
        if row < len(self._table):
            self._table[row] = fresh
        else:
            while row >= self._capacity:
                self._capacity *= 2
            self._table.append(fresh)
        self._generation += 1
        return row

    def free_row(self, row: int) -> None:
        """The node is gone, with whatever was counted on it."""
        self._alive(row)
        self._table[row] = _Row(self._resource_count, alive=False)
        self._generation += 1

    # --- writing ---

    def set_allocatable(self, row: int, resource: int, amount: int) -> None:
        node = self._alive(row)
        _index("resource", resource, self._resource_count)
        node.allocatable[resource] = _within("amount", amount, -MAX_AMOUNT, MAX_AMOUNT)
        self._generation += 1

    def set_allowed_pods(self, row: int, count: int) -> None:
        self._alive(row).allowed_pods = _within("count", count, -MAX_AMOUNT, MAX_AMOUNT)
        self._generation += 1

    def set_profile(self, row: int, profile: int) -> None:
        self._alive(row).profile = _within("profile", profile, 0, _INT32_MAX)
        self._generation += 1

    def add_pod(self, row: int, request: PodRequest) -> None:
        """Count a pod on a node, fitting or not. OverflowError, and no change, if a sum passes MAX_AMOUNT."""
        node = self._alive(row)
        self._check_resources(request)
        sums = [(f"resource {resource}", node.requested[resource], amount) for resource, amount in request.entries]
        sums.append(("non_zero_cpu", node.non_zero_cpu, request.non_zero_cpu))
        sums.append(("non_zero_memory", node.non_zero_memory, request.non_zero_memory))
        for what, before, amount in sums:
            if before + amount > MAX_AMOUNT:
                raise OverflowError(f"row {row}: {what} at {before}, {amount} more pass {MAX_AMOUNT}")
        self._count(node, request, 1)

    def remove_pod(self, row: int, request: PodRequest) -> None:
        """Take off what add_pod counted. ValueError, and no change, if that much was never counted."""
        node = self._alive(row)
        self._check_resources(request)
        left = [("pod count", node.pods, 1)]
        left += [(f"resource {resource}", node.requested[resource], amount) for resource, amount in request.entries]
        left.append(("non_zero_cpu", node.non_zero_cpu, request.non_zero_cpu))
        left.append(("non_zero_memory", node.non_zero_memory, request.non_zero_memory))
        for what, before, amount in left:
            if before < amount:
                raise ValueError(f"row {row}: {what} at {before}, {amount} cannot be taken off")
        self._count(node, request, -1)

    def _count(self, node: _Row, request: PodRequest, sign: int) -> None:
        for resource, amount in request.entries:
            node.requested[resource] += sign * amount
        node.non_zero_cpu += sign * request.non_zero_cpu
        node.non_zero_memory += sign * request.non_zero_memory
        node.pods += sign
        self._generation += 1

    # --- reading ---

    def allocatable(self, row: int, resource: int) -> int:
        return self._at(row).allocatable[_index("resource", resource, self._resource_count)]

    def requested(self, row: int, resource: int) -> int:
        return self._at(row).requested[_index("resource", resource, self._resource_count)]

    def non_zero_cpu(self, row: int) -> int:
        return self._at(row).non_zero_cpu

    def non_zero_memory(self, row: int) -> int:
        return self._at(row).non_zero_memory

    def pod_count(self, row: int) -> int:
        return self._at(row).pods

    def allowed_pods(self, row: int) -> int:
        return self._at(row).allowed_pods

    def profile(self, row: int) -> int:
        return self._at(row).profile

    def is_alive(self, row: int) -> bool:
        return self._at(row).alive

    def _at(self, row: int) -> _Row:
        return self._table[_index("row", row, len(self._table))]

    def _alive(self, row: int) -> _Row:
        node = self._at(row)
        if not node.alive:
            raise ValueError(f"row {row} holds no node")
        return node

    def _check_resources(self, request: PodRequest) -> None:
        if request.entries:
            _index("resource", request.entries[-1][0], self._resource_count)


@final
class Verdicts:
    """Why each row is out, or that it is not: a code and a detail a row, for one pod at a time."""

    def __init__(self) -> None:
        self._code: list[int] = []  # row -> FEASIBLE, 1..MAX_CODE, NOT_EXAMINED or NO_NODE
        self._detail: list[int] = []  # row -> what the code's owner says about it

    @property
    def rows(self) -> int:
        return len(self._code)

    def reset(self, columns: NodeColumns) -> None:
        """Begin with a new pod: every node is feasible."""
        self._code = [FEASIBLE if node.alive else NO_NODE for node in columns._table]
        self._detail = [0] * len(self._code)

    def code(self, row: int) -> int:
        return self._code[_index("row", row, len(self._code))]

    def detail(self, row: int) -> int:
        return self._detail[_index("row", row, len(self._code))]

    def feasible_count(self) -> int:
        return self._code.count(FEASIBLE)

    def feasible_rows(self) -> list[int]:
        """Ascending."""
        return [row for row, code in enumerate(self._code) if code == FEASIBLE]

    def rows_with(self, code: int, detail: int) -> list[int]:
        """Ascending."""
        pairs = zip(self._code, self._detail, strict=True)
        return [row for row, pair in enumerate(pairs) if pair == (code, detail)]

    def histogram(self) -> dict[tuple[int, int], int]:
        """(code, detail) -> nodes, the feasible ones included; in no particular order."""
        pairs = zip(self._code, self._detail, strict=True)
        return dict(Counter(pair for pair in pairs if pair[0] != NO_NODE))

    def reject(self, row: int, code: int, detail: int = 0) -> None:
        """Put a row out, if it is still in: the first reason stands."""
        _check_reason(code, detail)
        _index("row", row, len(self._code))
        if self._code[row] == FEASIBLE:
            self._code[row] = code
            self._detail[row] = detail

    def reject_rows(self, rows: Sequence[int], code: int, detail: int = 0) -> None:
        _check_reason(code, detail)
        for row in rows:
            _index("row", row, len(self._code))
        for row in rows:
            self.reject(row, code, detail)

    def keep_only(self, rows: Sequence[int], code: int, detail: int = 0) -> None:
        """Put out every feasible row that is not among `rows`."""
        _check_reason(code, detail)
        kept = {_index("row", row, len(self._code)) for row in rows}
        for row in self.feasible_rows():
            if row not in kept:
                self.reject(row, code, detail)

    def limit_feasible(self, start: int, limit: int) -> int:
        """Examine nodes in a circle from row `start` and stop at the `limit`-th feasible one.

        All other nodes become NOT_EXAMINED, whatever they were. Returns the nodes examined.
        """
        rows = len(self._code)
        _index("start", start, rows) if rows else _within("start", start, 0, 0)
        _within("limit", limit, 1, _INT64_MAX)
        examined = found = 0
        for row in [*range(start, rows), *range(start)]:
            if self._code[row] == NO_NODE:
                continue
            if found == limit:
                self._code[row] = NOT_EXAMINED
                self._detail[row] = 0
                continue
            examined += 1
            found += self._code[row] == FEASIBLE
        return examined


def _check_reason(code: int, detail: int) -> None:
    _within("code", code, 1, MAX_CODE)
    _within("detail", detail, 0, _INT64_MAX)


@final
class Scores:
    """The raw score of the plugin at work, and the weighted total of those done, for each row."""

    def __init__(self) -> None:
        self._raw: list[int] = []
        self._total: list[int] = []

    @property
    def rows(self) -> int:
        return len(self._raw)

    def reset(self, columns: NodeColumns) -> None:
        """Begin with a new pod: raw and total are 0 everywhere."""
        self._raw = [0] * columns.rows
        self._total = [0] * columns.rows

    def raw(self, row: int) -> int:
        return self._raw[_index("row", row, len(self._raw))]

    def total(self, row: int) -> int:
        return self._total[_index("row", row, len(self._raw))]

    def set_raw(self, row: int, value: int) -> None:
        _index("row", row, len(self._raw))
        self._raw[row] = _within("value", value, -MAX_RAW, MAX_RAW)


# Rows added to the columns after the reset take no part until the next one, so the tables may only be longer.


def _check_columns(columns: NodeColumns, verdicts: Verdicts) -> None:
    if columns.rows < verdicts.rows:
        raise ValueError(f"verdicts have {verdicts.rows} rows, these columns {columns.rows}: reset them together")


def _check_scores(verdicts: Verdicts, scores: Scores) -> None:
    if scores.rows < verdicts.rows:
        raise ValueError(f"verdicts have {verdicts.rows} rows, these scores {scores.rows}: reset them together")


# --- filtering ---


def filter_profiles(
    columns: NodeColumns, verdicts: Verdicts, verdict_by_profile: bytes | bytearray | array[int], code: int
) -> int:
    """Put out the nodes whose profile has a verdict other than 0, with that verdict as detail.

    `verdict_by_profile` holds one byte a profile, 0..127. Returns the feasible nodes left.
    """
    _check_columns(columns, verdicts)
    _within("code", code, 1, MAX_CODE)
    for profile, verdict in enumerate(verdict_by_profile):
        _within(f"verdict of profile {profile}", verdict, 0, 127)
    rows = verdicts.feasible_rows()
    for row in rows:
        _check_profile(columns, row, len(verdict_by_profile))
    for row in rows:
        verdict = verdict_by_profile[columns.profile(row)]
        if verdict:
            verdicts.reject(row, code, verdict)
    return verdicts.feasible_count()


def _check_profile(columns: NodeColumns, row: int, count: int) -> None:
    profile = columns.profile(row)
    if not 0 <= profile < count:
        raise IndexError(f"row {row} has profile {profile}, there are values for {count}")


def filter_fit(columns: NodeColumns, verdicts: Verdicts, request: PodRequest, code: int) -> int:
    """Put out the nodes that have no room for the pod. Returns the feasible nodes left.

    The detail says which room: TOO_MANY_PODS, bit 1 + i for the i-th entry of the request, and UNRESOLVABLE if an
    entry asks for more than the whole node has.
    """
    _check_columns(columns, verdicts)
    _within("code", code, 1, MAX_CODE)
    columns._check_resources(request)
    for row in verdicts.feasible_rows():
        short = _shortage(columns._table[row], request)
        if short:
            verdicts.reject(row, code, short)
    return verdicts.feasible_count()


def _shortage(node: _Row, request: PodRequest) -> int:
    short = TOO_MANY_PODS if node.pods + 1 > node.allowed_pods else 0
    for position, (resource, amount) in enumerate(request.entries):
        if amount > node.allocatable[resource] - node.requested[resource]:
            short |= 1 << (1 + position)
            if amount > node.allocatable[resource]:
                short |= UNRESOLVABLE
    return short


# --- scoring ---

_Weighted = Sequence[tuple[int, int]]


def score_least_allocated(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: _Weighted
) -> None:
    """NodeResourcesFit, LeastAllocated: the weighted mean of the free percentages with the pod there.

    `resources` are (resource column, weight). cpu and memory count the scoring defaults.
    """
    _score_each(columns, verdicts, scores, resources, lambda node: _least(node, request, resources))


def score_most_allocated(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: _Weighted
) -> None:
    """NodeResourcesFit, MostAllocated: the weighted mean of the used percentages with the pod there."""
    _score_each(columns, verdicts, scores, resources, lambda node: _most(node, request, resources))


def score_requested_to_capacity_ratio(
    columns: NodeColumns,
    verdicts: Verdicts,
    scores: Scores,
    request: PodRequest,
    resources: _Weighted,
    shape: Sequence[tuple[int, int]],
) -> None:
    """NodeResourcesFit, RequestedToCapacityRatio: used percentages through a broken line, then the weighted mean.

    `shape` are (utilization 0..100 ascending, score 0..10), as configured.
    """
    table = _shape_table(shape)
    _score_each(columns, verdicts, scores, resources, lambda node: _ratio(node, request, resources, table))


def _score_each(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, resources: _Weighted, score: Callable[[_Row], int]
) -> None:
    _check_columns(columns, verdicts)
    _check_scores(verdicts, scores)
    if len(resources) > MAX_SCORED_RESOURCES:
        raise ValueError(f"resources: expected at most {MAX_SCORED_RESOURCES}, got {len(resources)}")
    for resource, weight in resources:
        _index("resource", resource, columns.resource_count)
        _within("weight", weight, 1, MAX_WEIGHT)
    for row in verdicts.feasible_rows():
        scores._raw[row] = score(columns._table[row])


def _use(node: _Row, request: PodRequest, resources: _Weighted) -> Iterator[tuple[int, int, int]]:
    """(used with the pod, allocatable, weight) of each resource that counts on this node."""
    for resource, weight in resources:
        allocatable = node.allocatable[resource]
        amount = request._amounts.get(resource, 0)
        if allocatable <= 0 or (amount == 0 and resource > EPHEMERAL_STORAGE):
            continue
        if resource == CPU:
            yield node.non_zero_cpu + request.non_zero_cpu, allocatable, weight
        elif resource == MEMORY:
            yield node.non_zero_memory + request.non_zero_memory, allocatable, weight
        else:
            yield node.requested[resource] + amount, allocatable, weight


def _least(node: _Row, request: PodRequest, resources: _Weighted) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        total += weight * (max(allocatable - used, 0) * 100 // allocatable)
        weights += weight
    return total // weights if weights else 0


def _most(node: _Row, request: PodRequest, resources: _Weighted) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        total += weight * (min(used, allocatable) * 100 // allocatable)
        weights += weight
    return total // weights if weights else 0


def _ratio(node: _Row, request: PodRequest, resources: _Weighted, table: Sequence[int]) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        score = table[min(used, allocatable) * 100 // allocatable]
        if score > 0:
            total += weight * score
            weights += weight
    return (2 * total + weights) // (2 * weights) if weights else 0  # halves round up


def _shape_table(shape: Sequence[tuple[int, int]]) -> list[int]:
    """Utilization 0..100 -> score 0..100 on the broken line; flat outside its ends."""
    if not shape:
        raise ValueError("shape: expected at least one point, got none")
    previous = -1
    for utilization, score in shape:
        _within("utilization", utilization, previous + 1, 100)
        _within("score", score, 0, 10)
        previous = utilization
    return [_on_line(shape, utilization) for utilization in range(101)]


def _on_line(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    left, left_score = shape[0]
    for right, right_score in shape:
        if utilization <= right:
            if right == left:
                return right_score * 10
            rise = 10 * (right_score - left_score) * (utilization - left)
            # Go divides toward zero, and the line may fall.
            step = abs(rise) // (right - left)
            return left_score * 10 + (step if rise >= 0 else -step)
        left, left_score = right, right_score
    return left_score * 10


def score_balanced(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: Sequence[int]
) -> None:
    """NodeResourcesBalancedAllocation: does the pod make the node's used fractions more alike or less? 50..100.

    75 is neutral. Amounts are as requested, without scoring defaults. Doubles in kube-scheduler's order.
    """
    weighted = [(resource, 1) for resource in resources]
    _score_each(columns, verdicts, scores, weighted, lambda node: _balanced(node, request, resources))


def _balanced(node: _Row, request: PodRequest, resources: Sequence[int]) -> int:
    before: list[float] = []
    after: list[float] = []
    for resource in resources:
        allocatable = node.allocatable[resource]
        amount = request._amounts.get(resource, 0)
        if allocatable <= 0 or (amount == 0 and resource > EPHEMERAL_STORAGE):
            continue
        used = node.requested[resource]
        before.append(_fraction(used, allocatable))
        after.append(_fraction(used + amount, allocatable))
    # Between 50 and 100 each, as a deviation is at most a half, so the division is of a non-negative number.
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def _fraction(used: int, allocatable: int) -> float:
    # float() of each first: Python's own int / int rounds once, Go's quotient of doubles rounds three times.
    return 1.0 if used >= allocatable else float(used) / float(allocatable)


def _evenness(fractions: Sequence[float]) -> int:
    """100 less the standard deviation in percent, cut to an integer."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


def score_profiles(columns: NodeColumns, verdicts: Verdicts, scores: Scores, value_by_profile: array[int]) -> None:
    """Each node's raw score is its profile's value; `value_by_profile` is array('q')."""
    _check_columns(columns, verdicts)
    _check_scores(verdicts, scores)
    for profile, value in enumerate(value_by_profile):
        _within(f"value of profile {profile}", value, -MAX_RAW, MAX_RAW)
    rows = verdicts.feasible_rows()
    for row in rows:
        _check_profile(columns, row, len(value_by_profile))
    for row in rows:
        scores._raw[row] = value_by_profile[columns.profile(row)]


def clear_raw(verdicts: Verdicts, scores: Scores) -> None:
    """Raw is 0 on every row, before a plugin that adds to some."""
    _check_scores(verdicts, scores)
    scores._raw = [0] * scores.rows


def add_to_rows(scores: Scores, rows: array[int], amount: int) -> None:
    """Add to the raw scores of some rows, feasible or not; `rows` is array('i').

    After a ValueError, for a sum beyond MAX_RAW, the rows before that one have been added to.
    """
    _within("amount", amount, -MAX_RAW, MAX_RAW)
    for row in rows:
        _index("row", row, scores.rows)
    for row in rows:
        scores._raw[row] = _within("raw score", scores._raw[row] + amount, -MAX_RAW, MAX_RAW)


def score_images(verdicts: Verdicts, scores: Scores, min_threshold: int, max_threshold: int) -> None:
    """ImageLocality: raw holds the bytes a node need not pull; becomes 0..100 between the two thresholds."""
    _check_scores(verdicts, scores)
    _within("min_threshold", min_threshold, 0, MAX_RAW)
    _within("max_threshold", max_threshold, min_threshold + 1, MAX_RAW)
    for row in verdicts.feasible_rows():
        held = min(max(scores._raw[row], min_threshold), max_threshold)
        scores._raw[row] = 100 * (held - min_threshold) // (max_threshold - min_threshold)


def normalize(verdicts: Verdicts, scores: Scores, reverse: bool) -> None:
    """kube-scheduler's default: raw * 100 / the highest raw, cut toward zero; `reverse` takes that from 100.

    If no raw is above 0 they stay as they are, or all become 100 with `reverse`.
    """
    _check_scores(verdicts, scores)
    rows = verdicts.feasible_rows()
    highest = max((scores._raw[row] for row in rows), default=0)
    for row in rows:
        raw = scores._raw[row]
        if highest <= 0:
            scores._raw[row] = 100 if reverse else raw
            continue
        scaled = abs(raw) * 100 // highest
        scaled = scaled if raw >= 0 else -scaled
        scores._raw[row] = 100 - scaled if reverse else scaled


def accumulate(verdicts: Verdicts, scores: Scores, weight: int) -> int:
    """Add weight * raw to the totals. Returns -1, or the first row whose raw is outside 0..100; then adds nothing."""
    _check_scores(verdicts, scores)
    _within("weight", weight, 0, MAX_WEIGHT)
    rows = verdicts.feasible_rows()
    for row in rows:
        if not 0 <= scores._raw[row] <= 100:
            return row
    for row in rows:
        scores._total[row] += weight * scores._raw[row]
    return -1


# --- selection ---


def best_total(verdicts: Verdicts, scores: Scores) -> tuple[int, int]:
    """(highest total, feasible nodes that have it); (-1, 0) if none is feasible."""
    _check_scores(verdicts, scores)
    totals = [scores._total[row] for row in verdicts.feasible_rows()]
    best = max(totals, default=-1)
    return best, totals.count(best)


def select_host(verdicts: Verdicts, scores: Scores, random_bits: int | None) -> int:
    """The row to take: among those with the best total the lowest, or number `random_bits` modulo their count.

    -1 if none is feasible.
    """
    best, ties = best_total(verdicts, scores)
    if ties == 0:
        return -1
    rows = [row for row in verdicts.feasible_rows() if scores._total[row] == best]
    return rows[0 if random_bits is None else random_bits % ties]
