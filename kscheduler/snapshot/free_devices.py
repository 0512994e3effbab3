"""How many free devices each node has for requests of one kind: columns that follow slices, nodes and allocations.

A request can be satisfied on a node only if at least as many matching devices are free there as it wants; mostly that
is also enough. So a filter over all nodes reads bytes that are kept for (query, number), and only nodes in doubt are
searched. Outcomes of the search are kept, too, for pods whose claims ask for the same. Changes are read from logs when
the columns are asked for, and each costs little: an allocation, the counts of one pool, and one search for each key of
claims that is asked for again. Rows that see the same pools are counted together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from kscheduler.config.releases import Release
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.features import Features
from kscheduler.devices.matching import PECULIAR, DeviceMatcher, DeviceQuery, free_devices
from kscheduler.devices.pools import Pool
from kscheduler.devices.selection import Selectors
from kscheduler.devices.slices import PoolID
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.row_outcomes import ClaimsKey, RowOutcomes

MAX_QUERIES = 32  # of which columns are kept; with the answers of selectors, 10,000 nodes take some 3 MB a query
# Evaluations of selectors for the columns of one query at a time, in all or for each node; the search is asked about
# the other nodes until then. So many take about as long as to search all nodes for one pod.
MAX_EVALUATIONS, EVALUATIONS_PER_NODE = 10_000, 8
MAX_KEYS = 32  # of claims, for which outcomes are kept; for 10,000 nodes they take up to 1 MB a key
_MAX_NUMBERS = 64  # of devices, for which a query keeps bytes
_SPARE_NODES = 100  # beyond twice those that there are, of which the slice index may know

NONE_CERTAIN, ANY_NUMBER = -1, (1 << 31) - 1  # the counts of a row (node) that the search has to be asked about


class _SeenPool:
    """A pool with the nodes that see it. `number`: its place in the lists of the queries."""

    __slots__ = ("certain", "free", "groups", "number", "pool", "rows")

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.number = number
        self.rows: set[int] = set()
        self.groups: dict[_Pools, None] = {}  # the combinations of pools with this one that some node sees
        self.free = self.certain = 0  # as `free_devices`


# Pools with devices that a node sees; None if the search has to be asked about the node.
_Pools = tuple[_SeenPool, ...] | None


class FreeCounts:
    """For one query and each row (node): how many free devices match, at least and at most.

    They differ where devices share counters. Rows that the search has to be asked about are certain of nothing, and may
    have any number.
    """

    def __init__(self, query: DeviceQuery) -> None:
        self.query = query
        self.pending: dict[_SeenPool, None] = {}  # pools whose devices are not matched yet
        self.doubtful: set[int] = set()  # rows where the counts differ
        self.unknown: set[int] = set()  # those of them that the search has to be asked about
        self._certain = array("i")
        self._most = array("i")
        # Row -> the number that is certain, and the most that may be free; no calls of ours.
        self.certain: Callable[[int], int] = self._certain.__getitem__
        self.most: Callable[[int], int] = self._most.__getitem__
        self._matching: list[int | None] = []  # by number of the pool: the devices, or PECULIAR; None: pending
        self._too_few: dict[int, bytearray] = {}  # number of devices -> for each row, 1 if there are less at most
        self._in_doubt: dict[int, bytearray] = {}  # number of devices -> for each row, 1 if less are certain

    def too_few(self, number: int) -> bytearray:
        """Return a byte for each row: 1 if so many devices cannot be free. For reading, until the next `refresh`."""
        return self._marks(self._too_few, self._most, number)

    def in_doubt(self, number: int) -> bytearray:
        """Return a byte for each row: 1 if it is not certain that so many devices are free."""
        return self._marks(self._in_doubt, self._certain, number)

    def _marks(self, kept: dict[int, bytearray], counts: Sequence[int], number: int) -> bytearray:
        marks = kept.get(number)
        if marks is None:
            if len(kept) >= _MAX_NUMBERS:
                del kept[next(iter(kept))]
            marks = kept[number] = bytearray(count < number for count in counts)
        return marks

    # --- for FreeDevices only -------------------------------------------------------------------------------------

    def grow(self, rows: int) -> None:
        missing = rows - len(self._most)
        if missing > 0:
            self._certain.extend([0] * missing)
            self._most.extend([0] * missing)
            for marks in (self._too_few, self._in_doubt):
                for number, each in marks.items():
                    each.extend([number > 0] * missing)

    def add(self, seen: _SeenPool) -> None:
        if seen.number >= len(self._matching):
            self._matching.extend([None] * (seen.number + 1 - len(self._matching)))
        self._matching[seen.number] = None
        self.pending[seen] = None

    def remove(self, seen: _SeenPool) -> None:
        self.pending.pop(seen, None)

    def match(self, seen: _SeenPool, matching: int) -> None:
        self._matching[seen.number] = matching
        self.pending.pop(seen, None)

    def count_use(self, seen: _SeenPool, before: tuple[int, int]) -> bool:
        """Add what a pool has free now to the counts of all rows that see it, without a call for each.

        `before`: what `free` and `certain` of the pool were. Returns False if rows have to be counted one by one.
        """
        matching = self._matching[seen.number]
        if matching is None or matching == PECULIAR:
            return True  # its rows are unknown, and stay so
        added = (matching & seen.free).bit_count() - (matching & before[0]).bit_count()
        if added != (matching & seen.certain).bit_count() - (matching & before[1]).bit_count():
            return False
        if not added:
            return True
        rows = seen.rows - self.unknown
        for counts, kept in ((self._certain, self._in_doubt), (self._most, self._too_few)):
            for row in rows:
                counts[row] += added
            for number, marks in kept.items():
                for row in rows:
                    marks[row] = counts[row] < number
        return True

    def count(self, rows: Collection[int], pools: _Pools) -> None:
        """Count the devices of rows again, which see the same pools and have the same counts, or are new there."""
        certain = most = 0
        for seen in pools or ():
            matching = self._matching[seen.number]
            if matching is None or matching == PECULIAR:
                pools = None
                break
            certain += (matching & seen.certain).bit_count()
            most += (matching & seen.free).bit_count()
        if pools is None:
            certain, most = NONE_CERTAIN, ANY_NUMBER
        _set(self._certain, self._in_doubt, rows, certain)
        _set(self._most, self._too_few, rows, most)
        _keep(self.doubtful, rows, certain != most)
        _keep(self.unknown, rows, certain == NONE_CERTAIN)


def _set(counts: array[int], kept: Mapping[int, bytearray], rows: Collection[int], count: int) -> None:
    """Set the count of rows, which have had the same count, with the marks that say where it is below a number."""
    before = counts[next(iter(rows))]
    if count == before:
        return
    for row in rows:
        counts[row] = count
    for number, marks in kept.items():
        is_below = count < number
        if is_below != (before < number):
            for row in rows:
                marks[row] = is_below


def _keep(kept: set[int], rows: Collection[int], is_in: bool) -> None:
    if is_in:
        kept.update(rows)
    else:
        kept.difference_update(rows)


class FreeDevices:
    """The columns of all queries of one profile. Rows are those of the table."""

    def __init__(
        self,
        table: NodeTable,
        devices: Devices,
        release: Release,
        selectors: Selectors,
        *,
        max_evaluations: int = MAX_EVALUATIONS,
        evaluations_per_node: int = EVALUATIONS_PER_NODE,
    ) -> None:
        self._table = table
        self._devices = devices
        self._slices, self._use_changes = devices.slices, devices.use_changes
        self._matcher = DeviceMatcher(Features.of(release), selectors)
        self._max_evaluations = max_evaluations
        self._evaluations_per_node = evaluations_per_node
        self._queries: dict[DeviceQuery, FreeCounts] = {}  # the one used last comes last
        self._latest_query: DeviceQuery | None = None  # the last of these
        self._latest: FreeCounts
        self._pools: dict[Pool, _SeenPool] = {}
        self._by_id: dict[PoolID, dict[_SeenPool, None]] = {}  # nodes may see different parts of a pool
        self._with_device: dict[PoolID, dict[str, list[_SeenPool]]] = {}  # for pools of which there are several
        self._numbers: list[int] = []  # free ones
        self._of_rows: list[_Pools] = []
        self._groups: dict[_Pools, set[int]] = {}  # pools -> the rows that see them, and so have the same counts
        self._seen_nodes = self._seen_slices = self._seen_use = -1  # changes that are in the columns
        self._outcomes: dict[ClaimsKey, RowOutcomes] = {}  # the one used last comes last
        self._never_known: set[int] = set()  # rows that the search has to be asked about in each cycle
        # What counters are kept under (see AvailableCounters) -> the pools with devices that consume some. Where nodes
        # see different counters under one key, the outcome for a node depends on which was searched first.
        self._consuming: dict[Hashable, dict[_SeenPool, None]] = {}
        self._ambiguous: set[Hashable] = set()
        self._by_pool_name = release.devices.counters_by_pool_name

    def refresh(self, queries: Iterable[DeviceQuery]) -> list[FreeCounts]:
        """Bring the columns of some queries up to date, and return them."""
        self._follow()
        found = [self._counts(query) for query in queries]
        while len(self._queries) > max(MAX_QUERIES, len(found)):
            del self._queries[next(iter(self._queries))]
        for counts in found:
            self._match_pending(counts)
        return found

    def counts(self, query: DeviceQuery) -> FreeCounts:
        """Return the columns of a query, as everything was when `refresh` or `outcomes` was called last."""
        counts = self._latest if query is self._latest_query else self._counts(query)
        if len(self._queries) > MAX_QUERIES:
            del self._queries[next(iter(self._queries))]
        if counts.pending:
            self._match_pending(counts)
        return counts

    def outcomes(self, key: ClaimsKey) -> RowOutcomes | None:
        """Return what is known, as everything is now, of allocating claims with this key; None if it cannot be kept."""
        self._follow()
        if self._ambiguous:
            return None
        found = self._outcomes.pop(key, None)
        if found is None:
            found = RowOutcomes(len(self._of_rows), self._never_known)
            if len(self._outcomes) >= MAX_KEYS:
                del self._outcomes[next(iter(self._outcomes))]
        self._outcomes[key] = found
        return found

    def _counts(self, query: DeviceQuery) -> FreeCounts:
        counts = self._queries.pop(query, None)
        if counts is None:
            counts = FreeCounts(query)
            counts.grow(len(self._of_rows))
            for seen in self._pools.values():
                counts.add(seen)
            for pools, rows in self._groups.items():
                counts.count(rows, pools)
        self._queries[query] = self._latest = counts
        self._latest_query = query
        return counts

    def _match_pending(self, counts: FreeCounts) -> None:
        """Match devices of pools that are not matched yet, as many as the limit of evaluations allows."""
        end = self._matcher.evaluated + max(self._max_evaluations, self._evaluations_per_node * len(self._of_rows))
        for seen in list(counts.pending):
            if self._matcher.evaluated >= end:
                return
            counts.match(seen, self._matcher.matching(counts.query, seen.pool))
            for pools in seen.groups:
                counts.count(self._groups[pools], pools)

    # --- following changes ----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        # 1. Which pools do nodes see?
        rows = self._changed_rows()
        for row in rows:
            self._look_at(row)
        if rows:
            self._forget(rows)
        # 2. Which devices are free?
        use = self._use_changes
        if use.count == self._seen_use:
            return
        changed = use.since(self._seen_use)
        self._seen_use = use.count
        if changed is None:
            self._count_use(self._pools.values())
            self._forget(range(len(self._of_rows)))
            return
        touched: dict[_SeenPool, None] = {}
        for driver, pool, device in changed:
            touched.update(dict.fromkeys(self._pools_with((driver, pool), device)))
        self._count_use(touched)
        for driver, pool, _ in changed:  # other nodes' devices may have the same counters
            touched.update(self._consuming.get(self._counters_key((driver, pool)), ()))
        for seen in touched:
            self._forget(seen.rows)

    def _forget(self, rows: Collection[int]) -> None:
        if not rows:
            return
        for outcomes in self._outcomes.values():
            if len(rows) < len(self._of_rows):
                outcomes.forget(rows)
            else:
                outcomes.forget_all()

    def _counters_key(self, pool: PoolID) -> Hashable:
        return pool[1] if self._by_pool_name else pool

    def _changed_rows(self) -> Collection[int]:
        of_nodes, of_slices = self._table.node_changes, self._slices.node_changes
        if of_nodes.count == self._seen_nodes and of_slices.count == self._seen_slices:
            return ()
        rows, names = of_nodes.since(self._seen_nodes), of_slices.since(self._seen_slices)
        self._seen_nodes, self._seen_slices = of_nodes.count, of_slices.count
        missing = self._table.columns.rows - len(self._of_rows)
        if missing > 0:
            self._groups.setdefault((), set()).update(range(len(self._of_rows), self._table.columns.rows))
            self._of_rows.extend([()] * missing)
            for counts in self._queries.values():
                counts.grow(len(self._of_rows))
            for outcomes in self._outcomes.values():
                outcomes.grow(len(self._of_rows))
        if self._slices.known_nodes > 2 * len(self._table) + _SPARE_NODES:
            self._slices.forget_other_nodes(set(self._table.names()))
        if rows is None or names is None:
            return range(len(self._of_rows))
        found = (self._table.row_of(name) for name in names)
        return {*rows, *(row for row in found if row is not None)}

    def _look_at(self, row: int) -> None:
        """Find the pools that the node in a row sees by now."""
        before = self._of_rows[row]
        pools = self._pools_of(row)
        if before is not None and pools is not None and [seen.pool for seen in before] == pools:  # the same objects
            return
        after = None if pools is None else tuple(self._see(pool) for pool in pools)
        self._leave_group(row, before)
        self._enter_group(row, after)
        for seen in after or ():
            seen.rows.add(row)
        for seen in before or ():
            if after is None or seen not in after:
                seen.rows.discard(row)
                if not seen.rows:
                    self._drop(seen)
        self._of_rows[row] = after
        _keep(self._never_known, (row,), after is None)
        for counts in self._queries.values():
            counts.count((row,), after)

    def _enter_group(self, row: int, pools: _Pools) -> None:
        rows = self._groups.get(pools)
        if rows is None:
            rows = self._groups[pools] = set()
            for seen in pools or ():
                seen.groups[pools] = None
        rows.add(row)

    def _leave_group(self, row: int, pools: _Pools) -> None:
        rows = self._groups[pools]
        rows.remove(row)
        if not rows:
            del self._groups[pools]
            for seen in pools or ():
                del seen.groups[pools]

    def _pools_of(self, row: int) -> list[Pool] | None:
        info = self._table.find(row)
        if info is None:
            return []
        try:
            found = self._devices.slices.pools_of(info.node)
        except AllocationError:
            return None
        return None if found.has_invalid else [pool for pool in found.pools if pool.devices]

    def _see(self, pool: Pool) -> _SeenPool:
        seen = self._pools.get(pool)
        if seen is None:
            number = self._numbers.pop() if self._numbers else len(self._pools)
            seen = self._pools[pool] = _SeenPool(pool, number)
            seen.free, seen.certain = free_devices(pool, self._devices.allocated)
            self._by_id.setdefault(pool.id, {})[seen] = None
            self._with_device.pop(pool.id, None)
            if pool.uses_counters:
                key = self._counters_key(pool.id)
                consuming = self._consuming.setdefault(key, {})
                if consuming and next(iter(consuming)).pool.counters is not pool.counters:
                    self._ambiguous.add(key)
                consuming[seen] = None
            for counts in self._queries.values():
                counts.add(seen)
        return seen

    def _drop(self, seen: _SeenPool) -> None:
        del self._pools[seen.pool]
        self._numbers.append(seen.number)
        namesakes = self._by_id[seen.pool.id]
        del namesakes[seen]
        if not namesakes:
            del self._by_id[seen.pool.id]
        self._with_device.pop(seen.pool.id, None)
        if seen.pool.uses_counters:
            self._drop_consuming(seen)
        for counts in self._queries.values():
            counts.remove(seen)

    def _drop_consuming(self, seen: _SeenPool) -> None:
        key = self._counters_key(seen.pool.id)
        consuming = self._consuming[key]
        del consuming[seen]
        if not consuming:
            del self._consuming[key]
        if key in self._ambiguous and len({id(each.pool.counters) for each in consuming}) <= 1:
            self._ambiguous.remove(key)

    def _pools_with(self, pool_id: PoolID, device: str) -> Iterable[_SeenPool]:
        """Return the pools with this id that have, or in the case of a single one may have, a device of this name."""
        namesakes = self._by_id.get(pool_id, {})
        if len(namesakes) <= 1:
            return namesakes
        by_name = self._with_device.get(pool_id)
        if by_name is None:
            by_name = self._with_device[pool_id] = {}
            for seen in namesakes:
                for each in seen.pool.devices:
                    by_name.setdefault(each.name, []).append(seen)
        return by_name.get(device, ())

    def _count_use(self, pools: Iterable[_SeenPool]) -> None:
        for seen in pools:
            before = seen.free, seen.certain
            seen.free, seen.certain = free_devices(seen.pool, self._devices.allocated)
            if (seen.free, seen.certain) != before:
                for counts in self._queries.values():
                    if len(seen.groups) > 1 and counts.count_use(seen, before):
                        continue
                    for group in seen.groups:
                        counts.count(self._groups[group], group)
