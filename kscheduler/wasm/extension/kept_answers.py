"""Answers of a guest that goes by pod and node object alone, by what it can see of a pod; brought up to date by row.

What a guest may go by of a pod is its spec, namespace, labels and annotations: pods of one template have these in
common. The names of the volumes with tokens, which are each pod's own, count as alike.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.framework.interface import PreFilterResult
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable

MAX_BYTES = 32 << 20  # of one plugin
MAX_REASONS = 255  # a byte a row says which
_NEVER = -1
_TOKEN_VOLUME = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')

_encode = msgspec.json.Encoder().encode

PreFiltered = tuple[PreFilterResult | None, Status | None]


def look_of(shown: Pod | PodDocument) -> bytes:
    """A digest: equal for pods that the guest may not tell apart."""
    metadata = shown.metadata
    spec = bytes(shown.spec) if isinstance(shown, PodDocument) else _encode(shown.spec)
    written = _encode((metadata.namespace, metadata.labels, metadata.annotations))
    return blake2b(written + _TOKEN_VOLUME.sub(b'"kube-api-access"', spec), digest_size=16).digest()


class KeptAnswer:
    """What is known of one look of pods, a row each; dead rows hold anything."""

    __slots__ = ("details", "is_unscored", "marks", "pre_filtered", "scores", "seen_marks", "seen_scores", "statuses")

    def __init__(self) -> None:
        self.pre_filtered: PreFiltered | None = None  # None: not asked yet
        self.is_unscored: bool | None = None  # PreScore said SKIP; None: not asked yet
        self.marks = bytearray()  # row -> 0, or out for statuses[mark - 1]
        self.statuses: list[Status] = []
        self.details: dict[Status, int] = {}  # status -> its mark
        self.scores: array[int] = array("q")
        self.seen_marks = self.seen_scores = _NEVER  # changes of nodes that they follow

    def put_marks(self, rows: Sequence[int], rejected: Sequence[tuple[int, Status]], row_count: int) -> bool:
        """False if there are more reasons than marks: then nothing is known any more."""
        self.marks.extend(bytes(row_count - len(self.marks)))
        for row in rows:
            self.marks[row] = 0
        for row, status in rejected:
            mark = self.details.setdefault(status, len(self.details) + 1)
            if mark > MAX_REASONS:
                self.marks, self.statuses, self.details = bytearray(), [], {}
                self.seen_marks = _NEVER
                return False
            if mark > len(self.statuses):
                self.statuses = [*self.statuses, status]  # anew, for cycles hold on to what they were told
            self.marks[row] = mark
        return True

    def put_scores(self, rows: Sequence[int], scored: Sequence[tuple[int, int]], row_count: int) -> None:
        self.scores.extend([0] * (row_count - len(self.scores)))
        for row in rows:
            self.scores[row] = 0
        for row, score in scored:
            self.scores[row] = score


class KeptAnswers:
    def __init__(self, table: NodeTable, max_bytes: int = MAX_BYTES) -> None:
        self._table = table
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, KeptAnswer] = OrderedDict()  # look of a pod -> answer

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, look: bytes) -> KeptAnswer:
        found = self._kept.get(look)
        if found is not None:
            self._kept.move_to_end(look)
            return found
        while self._kept and (len(self._kept) + 1) * 9 * max(self.row_count, 64) > self._max_bytes:
            self._kept.popitem(last=False)
        found = self._kept[look] = KeptAnswer()
        return found

    @property
    def row_count(self) -> int:
        return self._table.columns.rows

    @property
    def now(self) -> int:
        return self._table.node_changes.count

    def stale(self, seen: int) -> Sequence[int]:
        """The rows with a node that may be different by now."""
        rows = None if seen == _NEVER else self._table.node_changes.since(seen)
        if rows is None:
            return [info.row for info in self._table]
        return [row for row in rows if self._table.find(row) is not None]
