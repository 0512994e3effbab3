"""The latest decisions, bounded in number and in bytes: the pods that were decided longest ago are forgotten first."""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.explain.details import NodeNames
from kscheduler.explain.record import DecisionRecord, Outcome

PER_POD = 5  # decisions kept of one pod


class DecisionRing:
    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        # Pod uid -> its decisions, oldest first; pods in the order of their latest decision.
        self._pods: dict[str, list[DecisionRecord]] = {}
        self._sharing: dict[int, tuple[NodeNames, int]] = {}  # id of node names -> themselves, and records that refer
        self._records = 0
        self._bytes = 0
        self.evicted = 0  # records forgotten to keep within bounds, ever

    def __len__(self) -> int:
        return self._records

    @property
    def bytes(self) -> int:
        """What all records take, roughly; node names that several of them share count once."""
        return self._bytes

    @property
    def max_records(self) -> int:
        return self._max_records

    # --- writing ---

    def add(self, record: DecisionRecord) -> None:
        """The newest decision. One that is too large by itself is kept without its details."""
        records = self._pods.pop(record.uid, None)
        if records is None:
            records = []
        elif len(records) >= PER_POD:
            self._drop(records.pop(0))
        self._pods[record.uid] = records
        records.append(record)
        self._records += 1
        self._bytes += record.size()
        if record.details is not None:
            self._share(record.details.names)
        if self._records > self._max_records or self._bytes > self._max_bytes:
            self._evict(record)

    def finish(self, uid: str, outcome: Outcome, at: float, message: str = "") -> DecisionRecord | None:
        """How the pod's latest decision ended, if it is on record."""
        record = self.latest(uid)
        if record is None:
            return None
        record.outcome = outcome
        record.finished = at
        if message:
            self._bytes += len(message) - len(record.message)
            record.message = message
            self._evict(record)
        return record

    def _evict(self, newest: DecisionRecord) -> None:
        """Forget the oldest; of this one, if it is alone and still too large, the details."""
        while self._records > self._max_records or self._bytes > self._max_bytes:
            uid, records = next(iter(self._pods.items()))
            oldest = records[0]
            if oldest is newest and self._records == 1:
                self._strip(newest)
                return
            del records[0]
            if not records:
                del self._pods[uid]
            self._drop(oldest)
            self.evicted += 1

    def _strip(self, record: DecisionRecord) -> None:
        if record.details is not None:
            self._bytes -= record.details.size()
            self._unshare(record.details.names)
            record.details = None

    def _drop(self, record: DecisionRecord) -> None:
        self._records -= 1
        self._bytes -= record.size()
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

    def latest(self, uid: str) -> DecisionRecord | None:
        records = self._pods.get(uid)
        return records[-1] if records else None

    def of(self, uid: str) -> list[DecisionRecord]:
        """A pod's decisions, newest first."""
        return self._pods.get(uid, [])[::-1]

    def uid_of(self, key: str) -> str | None:
        """The uid of the pod of this name that was decided last: a look at all pods, for those the watch forgot."""
        return next((uid for uid, records in reversed(self._pods.items()) if records[-1].key == key), None)

    def __iter__(self) -> Iterator[DecisionRecord]:
        """Oldest pod first, and of each pod oldest first."""
        return (record for records in self._pods.values() for record in records)

    def check(self) -> None:
        """Assert that counts and bytes are those of what is kept."""
        records = list(self)
        names = {id(record.details.names): record.details.names for record in records if record.details is not None}
        assert self._records == len(records), f"{self._records} counted, {len(records)} kept"
        assert all(self._pods.values()), "a pod without decisions is kept"
        assert set(self._sharing) == set(names), "node names and their users differ"
        total = sum(record.size() for record in records) + sum(each.size() for each in names.values())
        assert self._bytes == total, f"{self._bytes} bytes counted, {total} kept"
