"""Caches the answers of guests that depend on the pod and node objects alone, by the pod's look; updated node by node.

A pod's look is a digest of its spec, namespace, labels and annotations, which are equal for pods of one template. The
names of token volumes (kube-api-access-...), which are unique to each pod, do not count.
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

MAX_BYTES = 32 << 20  # size of all kept answers of one plugin
_OBJECTS_BYTES = 512  # about the memory of an answer's Python objects
_ROW_BYTES = 9  # a mark and a score
_TEXT_BYTES = 128  # about the memory of a status or a name beside its text
MAX_REASONS = 255  # different statuses of one answer, since a row's mark is one byte
_NEVER = -1
_TOKEN_VOLUME = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')

_encode = msgspec.json.Encoder().encode

PreFiltered = tuple[PreFilterResult | None, Status | None]


def look_of(shown: Pod | PodDocument) -> bytes:
    """Return a digest that is equal for pods for which a pure guest must give equal answers."""
    metadata = shown.metadata
    spec = bytes(shown.spec) if isinstance(shown, PodDocument) else _encode(shown.spec)
    written = _encode((metadata.namespace, metadata.labels, metadata.annotations))
    return blake2b(written + _TOKEN_VOLUME.sub(b'"kube-api-access"', spec), digest_size=16).digest()


class KeptAnswer:
    """A guest's cached answers for pods that are equal in all it may read (`look_of`): mark and score of each node.

    Both are by row of the node table. A mark is 0 if Filter accepts the node, else 1 + the index of the status that
    rejects it. Values of rows without a node have no meaning.
    """

    __slots__ = (
        "_names_bytes",
        "_reasons_bytes",
        "counted_bytes",
        "details",
        "is_unscored",
        "marks",
        "pre_filtered",
        "scores",
        "seen_marks",
        "seen_scores",
        "statuses",
    )

    def __init__(self) -> None:
        self._names_bytes = self._reasons_bytes = 0  # of `pre_filtered` and of `statuses`
        self.counted_bytes = 0  # what KeptAnswers has counted of `size_bytes`
        self.pre_filtered: PreFiltered | None = None  # None: not asked yet
        self.is_unscored: bool | None = None  # PreScore answered Skip; None: not asked yet
        self.marks = bytearray()  # by row: 0 if it is feasible, otherwise statuses[mark - 1] is why not
        self.statuses: list[Status] = []
        self.details: dict[Status, int] = {}  # status -> its mark
        self.scores: array[int] = array("q")
        self.seen_marks = self.seen_scores = _NEVER  # number of node changes that they contain

    @property
    def size_bytes(self) -> int:
        """About the memory that the answer takes, beside marks and scores."""
        return _OBJECTS_BYTES + self._names_bytes + self._reasons_bytes

    def put_pre_filtered(self, found: PreFiltered) -> None:
        """Store the answer of PreFilter: the nodes that it leaves, and its status."""
        self.pre_filtered = found
        names = () if found[0] is None else found[0].node_names or ()
        reasons = () if found[1] is None else found[1].reasons
        self._names_bytes = sum(_TEXT_BYTES + len(text) for text in (*names, *reasons))

    def put_marks(self, rows: Sequence[int], rejected: Sequence[tuple[int, Status]], row_count: int) -> bool:
        """Store Filter's results for these rows (nodes): those in `rejected` with their status, the others as feasible.

        If there are too many different statuses, drop all results and return False.
        """
        self.marks.extend(bytes(row_count - len(self.marks)))
        for row in rows:
            self.marks[row] = 0
        for row, status in rejected:
            mark = self.details.setdefault(status, len(self.details) + 1)
            if mark > MAX_REASONS:
                self.marks, self.statuses, self.details = bytearray(), [], {}
                self._reasons_bytes = 0
                self.seen_marks = _NEVER
                return False
            if mark > len(self.statuses):
                self.statuses = [*self.statuses, status]  # a new list, since cycles refer to the old one
                self._reasons_bytes += _TEXT_BYTES + sum(map(len, status.reasons))
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
        self._bytes = 0  # of all kept answers, beside marks and scores
        self._latest: KeptAnswer | None = None  # the one that was asked for last, and may have grown since
        self._kept: OrderedDict[bytes, KeptAnswer] = OrderedDict()  # look of a pod -> answer

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, look: bytes) -> KeptAnswer:
        found = self._kept.get(look)
        if found is not None:
            self._kept.move_to_end(look)
        else:
            found = self._kept[look] = KeptAnswer()
        if self._latest is not None and self._latest is not found:
            self._count(self._latest)
        self._count(found)
        self._latest = found
        while len(self._kept) > 1 and self._bytes + len(self._kept) * _ROW_BYTES * self.row_count > self._max_bytes:
            self._bytes -= self._kept.popitem(last=False)[1].counted_bytes
        return found

    def _count(self, answer: KeptAnswer) -> None:
        size = answer.size_bytes
        self._bytes += size - answer.counted_bytes
        answer.counted_bytes = size

    @property
    def row_count(self) -> int:
        return self._table.columns.rows

    @property
    def now(self) -> int:
        return self._table.node_changes.count

    def stale(self, seen: int) -> Sequence[int]:
        """Return the rows of nodes that may have changed since `seen`, the number of node changes at some time."""
        rows = None if seen == _NEVER else self._table.node_changes.since(seen)
        if rows is None:
            return [info.row for info in self._table]
        return [row for row in rows if self._table.find(row) is not None]
