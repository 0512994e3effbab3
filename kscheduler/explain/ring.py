"""Keeps the latest decisions, bounded in number and bytes: the pods decided longest ago are dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from kscheduler.explain.details import NodeNames
from kscheduler.explain.record import DecisionRecord, Outcome, Refusal

PER_POD = 5  # decisions kept for each pod


class DecisionRing:
    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        # Pod uid -> its latest decision, which links to the earlier ones; in the order of the latest decisions.
        self.latest: OrderedDict[str, DecisionRecord] = OrderedDict()
        self._sharing: dict[int, tuple[NodeNames, int]] = {}  # id of node names -> (names, records that refer to them)
        self._records = 0
        self._bytes = 0
        self.evicted = 0  # records dropped so far to keep within bounds

    def __len__(self) -> int:
        return self._records

    @property
    def bytes(self) -> int:
        """The approximate memory of all records in bytes; node names shared by several records count once."""
        return self._bytes

    # --- writing ---

    def add(self, record: DecisionRecord) -> None:
        """Add the newest decision. If it is too large by itself, its details are dropped."""
        pods = self.latest
        previous = pods.get(record.uid)
        pods[record.uid] = record
        self._records += 1
        self._bytes += record.bytes
        if record.details is not None:
            self._share(record.details.names)
        if previous is not None:
            record.previous = previous
            pods.move_to_end(record.uid)
            self._shorten(record)
        if self._records > self._max_records or self._bytes > self._max_bytes:
            self._evict(record)

    def add_many(self, records: Iterable[DecisionRecord]) -> None:
        """Add decisions as `add` does, from the oldest to the newest."""
        pods = self.latest
        for record in records:
            if record.details is not None or record.uid in pods:
                self.add(record)
                continue
            pods[record.uid] = record
            self._records += 1
            self._bytes += record.bytes
            if self._records > self._max_records or self._bytes > self._max_bytes:
                self._evict(record)

    def finish(self, uid: str, outcome: Outcome, at: float, refusal: Refusal | None = None) -> None:
        """Record how a pod's latest decision ended; ignored if that decision is no longer kept."""
        record = self.latest.get(uid)
        if record is None:
            return
        record.outcome = outcome
        record.finished = at
        if refusal is not None:
            record.refusal = refusal
            self._measure(record)
            self._evict(record)

    def _measure(self, record: DecisionRecord) -> None:
        before, record.bytes = record.bytes, record.measure()
        self._bytes += record.bytes - before

    def _shorten(self, newest: DecisionRecord) -> None:
        """Drop the oldest decision of a pod with more than PER_POD of them."""
        if sum(1 for _ in _chain(newest)) > PER_POD:
            self._drop(_cut_oldest(newest))

    def _evict(self, newest: DecisionRecord) -> None:
        """Drop the oldest records until the bounds hold; if only `newest` is left and too large, drop its details."""
        while self._records > self._max_records or self._bytes > self._max_bytes:
            if self._records == 1:
                self._strip(newest)
                return
            first = next(iter(self.latest.values()))
            if first.previous is None:
                del self.latest[first.uid]
                self._drop(first)
            else:
                self._drop(_cut_oldest(first))
            self.evicted += 1

    def _strip(self, record: DecisionRecord) -> None:
        if record.details is not None:
            self._unshare(record.details.names)
            record.details = None
            self._measure(record)

    def _drop(self, record: DecisionRecord) -> None:
        self._records -= 1
        self._bytes -= record.bytes
        if record.details is not None:
            self._unshare(record.details.names)

    def _share(self, names: NodeNames) -> None:
        _, users = self._sharing.get(id(names), (names, 0))
        self._sharing[id(names)] = (names, users + 1)
        if not users:
            self._bytes += names.size()

    def _unshare(self, names: NodeNames) -> None:
        _, users = self._sharing.pop(id(names))
        if users > 1:
            self._sharing[id(names)] = (names, users - 1)
        else:
            self._bytes -= names.size()

    # --- reading ---

    def of(self, uid: str) -> list[DecisionRecord]:
        """Return a pod's decisions, newest first."""
        return list(_chain(self.latest.get(uid)))

    def uid_of(self, key: str) -> str | None:
        """Return the uid of the pod of this namespace/name that was decided last, even if deleted; None if unknown.

        O(pods).
        """
        return next((uid for uid, record in reversed(self.latest.items()) if record.key == key), None)

    def __iter__(self) -> Iterator[DecisionRecord]:
        """Iterate over all records: pods in the order of their latest decisions, the newest of each pod first."""
        return (record for latest in self.latest.values() for record in _chain(latest))

    def check(self) -> None:
        """Assert that the counters of decisions, bytes and shared names are those of the decisions kept. For tests."""
        records = list(self)
        names = {id(record.details.names): record.details.names for record in records if record.details is not None}
        assert self._records == len(records), f"{self._records} counted, {len(records)} kept"
        assert all(record.bytes == record.measure() for record in records), "a record changed its size"
        assert set(self._sharing) == set(names), "node names and their users differ"
        total = sum(record.bytes for record in records) + sum(each.size() for each in names.values())
        assert self._bytes == total, f"{self._bytes} bytes counted, {total} kept"


def _chain(newest: DecisionRecord | None) -> Iterator[DecisionRecord]:
    while newest is not None:
        yield newest
        newest = newest.previous


def _cut_oldest(newest: DecisionRecord) -> DecisionRecord:
    """Unlink and return the oldest of a pod's decisions, of which there are at least two."""
    *_, before, oldest = _chain(newest)
    before.previous = None
    return oldest
