"""Columns as bytes and bytes as columns, for wasm plugins of the batch ABI, which have a node table of their own.

A packed column is little-endian with an entry for each row: rows are int32, amounts and scores int64, marks a byte.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence

from kscheduler._fast.codes import FEASIBLE, MAX_CODE, MAX_RAW
from kscheduler._fast.reference.checks import INT32_MAX, INT64_MAX, check_scores, index, within
from kscheduler._fast.reference.columns import NodeColumns, _Row
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts

_NO_METRIC = -INT64_MAX - 1
_COLUMNS: dict[str, Callable[[_Row, int], int]] = {
    "allocatable": lambda node, resource: node.allocatable[resource],
    "requested": lambda node, resource: node.requested[resource],
    "non_zero_cpu": lambda node, resource: node.non_zero_cpu,
    "non_zero_memory": lambda node, resource: node.non_zero_memory,
    "pods": lambda node, resource: node.pods,
    "allowed_pods": lambda node, resource: node.allowed_pods,
}


# --- what has changed ---


def changes_so_far(columns: NodeColumns) -> int:
    """Return the current position in the log of changed rows (nodes), to be passed to `rows_changed_since` later."""
    return columns.generation


def rows_changed_since(columns: NodeColumns, cursor: int) -> bytes | None:
    """Return the rows (nodes) that may have changed since that position in the log, packed as int32, ascending.

    None if the log does not go back so far.
    """
    # This form keeps no history. The compiled one remembers the latest changes.
    within("cursor", cursor, 0, columns.generation)
    return b"" if cursor == columns.generation else None


# --- columns as bytes ---


def pack_amounts(columns: NodeColumns, what: str, resource: int = 0, rows: bytes | None = None) -> bytes:
    """Encode a column of amounts as bytes (int64), for all rows (nodes) or for the packed `rows`.

    `what` names the column; `resource` matters for allocatable and requested only.
    """
    index("resource", resource, columns.resource_count)
    if what not in _COLUMNS:
        raise ValueError(f"what: expected the name of a column, got {what!r}")
    read = _COLUMNS[what]
    return array("q", [read(columns._at(row), resource) for row in _rows(rows, columns.rows)]).tobytes()


def pack_usage(columns: NodeColumns, gen: int, rows: bytes, resources: Sequence[tuple[bytes, int]]) -> bytes:
    """Encode the usage of these packed rows (nodes) as a msgpack message, which tells a wasm plugin of changed pods.

    `resources`: (name in msgpack, resource column or -1 for one that no node has), at most 15.
    """
    if not rows:
        raise ValueError("rows: expected some, got none")
    _rows(rows, columns.rows)
    within("resources", len(resources), 0, 15)
    within("gen", gen, 0, INT64_MAX)
    nothing = bytes(2 * len(rows))
    message = b"\x87\xa3gen" + _integer(gen) + b"\xa4rows" + _integer(columns.rows) + b"\xa2at" + _bin(bytes(rows))
    message += b"\xa4used" + bytes([0x80 + len(resources)])
    for name, resource in resources:
        within("resource", resource, -1, columns.resource_count - 1)
        message += name + _bin(nothing if resource < 0 else pack_amounts(columns, "requested", resource, rows))
    for key, what in (
        (b"\xa8used_cpu", "non_zero_cpu"),
        (b"\xabused_memory", "non_zero_memory"),
        (b"\xa6pods_n", "pods"),
    ):
        message += key + _bin(pack_amounts(columns, what, 0, rows))
    return message


def _integer(value: int) -> bytes:
    """Return an integer in msgpack's shortest form."""
    if value < 0x80:
        return bytes([value])
    kind, width = next((k, w) for k, w in ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)) if value < 1 << (8 * w))
    return bytes([kind]) + value.to_bytes(width, "big")


def _bin(content: bytes) -> bytes:
    kind, width = next((k, w) for k, w in ((0xC4, 1), (0xC5, 2), (0xC6, 4)) if len(content) < 1 << (8 * w))
    return bytes([kind]) + len(content).to_bytes(width, "big") + content


def pack_alive(columns: NodeColumns, rows: bytes | None = None) -> bytes:
    """Encode a byte for each row: 1 for a node, 0 for a dead row, i.e. one whose node was deleted."""
    return bytes(columns._at(row).alive for row in _rows(rows, columns.rows))


def pack_feasible(verdicts: Verdicts) -> bytes:
    """Encode the feasible rows (nodes) as int32, in ascending order."""
    return array("i", verdicts.feasible_rows()).tobytes()


# --- values from elsewhere as a column ---


def take_metric(values: array[float] | memoryview | None, packed: bytearray) -> bytes:
    """Write doubles into a packed int64 column, in thousandths. Returns the changed rows (nodes), packed and ascending.

    `values` None means that there are none. NaN and rows past the end of the values become NO_METRIC, the lowest int64;
    values out of range become the nearest int64.
    """
    given = [] if values is None else list(memoryview(values).cast("B").cast("d"))[: len(packed) // 8]
    found = array("q", [_thousandths(value) for value in given])
    found.extend([_NO_METRIC] * (len(packed) // 8 - len(found)))
    before = _integers("q", packed)
    packed[:] = found.tobytes()
    return array("i", [row for row, value in enumerate(found) if value != before[row]]).tobytes()


def _thousandths(value: float) -> int:
    scaled = value * 1000.0
    if math.isnan(value):
        return _NO_METRIC
    if math.isinf(scaled):
        return INT64_MAX if scaled > 0 else -INT64_MAX
    return min(max(round(scaled), -INT64_MAX), INT64_MAX)


# --- bytes as columns ---


def reject_marked(verdicts: Verdicts, marks: bytes | bytearray | memoryview, code: int, reasons: int) -> int:
    """Reject the feasible rows (nodes) with a mark other than 0, with the reason number (detail) mark - 1. Returns -1.

    If a feasible row's mark has no reason (there are `reasons`), the first such row is returned and nothing is changed.
    Marks of other rows are ignored.
    """
    within("code", code, 1, MAX_CODE)
    within("reasons", reasons, 0, 255)
    _check_length("marks", len(marks), verdicts.rows)
    feasible = verdicts.feasible_rows()
    for row in feasible:
        if marks[row] > reasons:
            return row
    for row in feasible:
        if marks[row]:
            verdicts.reject(row, code, marks[row] - 1)
    return -1


def set_raws(verdicts: Verdicts, scores: Scores, values: bytes | bytearray | memoryview, low: int, high: int) -> int:
    """Set the raw score of every feasible row (node) from `values`, and 0 elsewhere. Returns -1.

    If a feasible row's value is outside of low..high, the first such row is returned and nothing is changed. Values of
    other rows are ignored.
    """
    within("low", low, -MAX_RAW, MAX_RAW)
    within("high", high, -MAX_RAW, MAX_RAW)
    check_scores(verdicts, scores)
    _check_length("values", len(values), 8 * verdicts.rows)
    given = _integers("q", values)
    for row in verdicts.feasible_rows():
        if not low <= given[row] <= high:
            return row
    for row in range(verdicts.rows):
        scores.set_raw(row, given[row] if verdicts.code(row) == FEASIBLE else 0)
    return -1


def values_by_node_class(
    columns: NodeColumns, values: bytes | bytearray | memoryview, node_class_count: int
) -> bytes | None:
    """Return the value of each node class (nodes with equal labels and taints), packed, from the values by row.

    None if rows of one class differ. A class without rows gets 0.
    """
    within("node_class_count", node_class_count, 0, INT32_MAX)
    _check_length("values", len(values), 8 * columns.rows)
    given = _integers("q", values)
    found: dict[int, int] = {}  # node class -> value
    for row in range(columns.rows):
        node_class = columns.node_class(row)
        if 0 <= node_class < node_class_count and found.setdefault(node_class, given[row]) != given[row]:
            return None
    return array("q", [found.get(node_class, 0) for node_class in range(node_class_count)]).tobytes()


# --- inside ---


def _rows(rows: bytes | None, count: int) -> Sequence[int]:
    if rows is None:
        return range(count)
    found = _integers("i", rows)
    for row in found:
        index("row", row, count)
    return found


def _integers(code: str, packed: bytes | bytearray | memoryview) -> array[int]:
    found: array[int] = array(code)
    found.frombytes(packed)
    return found


def _check_length(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{what}: expected {expected} bytes, got {found}")
