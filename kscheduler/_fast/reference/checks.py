"""Checks of arguments, equal to those of checks.pxd for the compiled modules."""

from __future__ import annotations

from typing import Protocol

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class Table(Protocol):
    """What has rows: columns, verdicts, scores."""

    @property
    def rows(self) -> int: ...


class NodeClasses(Protocol):
    """What knows the node class of each row."""

    def node_class(self, row: int, /) -> int: ...


def within(what: str, value: int, low: int, high: int) -> int:
    """Return the value; ValueError unless it is in low..high."""
    if not low <= value <= high:
        raise ValueError(f"{what}: expected {low}..{high}, got {value}")
    return value


def index(what: str, value: int, count: int) -> int:
    """Return the value; IndexError unless 0 <= value < count."""
    if not 0 <= value < count:
        raise IndexError(f"{what} {value} outside 0..{count - 1}" if count else f"{what} {value}: the table is empty")
    return value


# Rows added to the columns after the reset take no part until the next one, so the tables may only be longer.


def check_columns(columns: Table, verdicts: Table) -> None:
    if columns.rows < verdicts.rows:
        raise ValueError(f"verdicts have {verdicts.rows} rows, these columns {columns.rows}: reset them together")


def check_scores(verdicts: Table, scores: Table) -> None:
    if scores.rows < verdicts.rows:
        raise ValueError(f"verdicts have {verdicts.rows} rows, these scores {scores.rows}: reset them together")


def check_node_class(columns: NodeClasses, row: int, count: int) -> None:
    node_class = columns.node_class(row)
    if not 0 <= node_class < count:
        raise IndexError(f"row {row} has node class {node_class}, there are values for {count}")


def check_length(what: str, length: int, rows: int) -> None:
    if length < rows:
        raise ValueError(f"{what}: expected at least {rows} rows, got {length}")
