"""From a case that differs to a small one that still does: pods, nodes and fields go, one after the other.

Something is left out if the oracle still answers and a difference of the same kind remains. Names and uids stay,
since without them objects are taken for one another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tests.parity.oracle_process import OracleError, OracleProcess, Question, Reply

KEPT = frozenset(
    ("metadata", "name", "uid", "namespace", "nodeName", "key", "operator", "topologyKey", "weight", "allocationMode")
)
BUDGET_S = 30.0

Path = tuple[str | int, ...]

Q = TypeVar("Q", bound=Question)
A = TypeVar("A", bound=Reply)


def shrink(oracle: OracleProcess[Q, A], case: Q, kind: str, compare: Callable[[Q, A], list[tuple[int, str]]]) -> Q:
    """The smallest case found in `BUDGET_S` that has a difference of the kind, by this comparison."""
    deadline = time.monotonic() + BUDGET_S

    def still_differs(candidate: Q) -> bool:
        if time.monotonic() > deadline:
            return False
        return any(kind == kind_of(text) for _, text in differences_of(oracle, candidate, compare))

    case = _fewer_objects(case, still_differs)
    case = _fewer_fields(case, still_differs)
    return _fewer_objects(case, still_differs)


def differences_of(
    oracle: OracleProcess[Q, A], case: Q, compare: Callable[[Q, A], list[tuple[int, str]]]
) -> list[tuple[int, str]]:
    """None if the oracle will not have the case."""
    try:
        return compare(case, oracle.ask(case))
    except OracleError:
        return []


def kind_of(difference: str) -> str:
    """`by table: node n#` and the like: what differs, without values."""
    return re.sub(r"\d+", "#", ":".join(difference.split(":")[:2]))


def _fewer_objects(case: Q, still_differs: Callable[[Q], bool]) -> Q:
    for pick in (_pending, *(_listed(name) for name in case.cluster)):
        size = max(len(pick(case)) // 2, 1)
        while True:
            start = 0
            while start < len(pick(case)):
                candidate = case.copy()
                del pick(candidate)[start : start + size]
                if still_differs(candidate):
                    case = candidate
                else:
                    start += size
            if size == 1:
                break
            size //= 2
    return case


def _pending(case: Question) -> list[Any]:
    return case.pending


def _listed(name: str) -> Callable[[Question], list[Any]]:
    return lambda case: case.cluster[name]


def _fewer_fields(case: Q, still_differs: Callable[[Q], bool]) -> Q:
    """Leave out fields and list entries, the outermost first."""
    tried: set[Path] = set()
    while True:
        path = next((path for path in _paths(_document(case)) if path not in tried), None)
        if path is None:
            return case
        tried.add(path)
        candidate = case.copy()
        holder: Any = _document(candidate)
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        if still_differs(candidate):
            case = candidate
            if isinstance(path[-1], int):  # the entries after it have moved up
                tried = {other for other in tried if other[: len(path) - 1] != path[:-1]}


def _document(case: Question) -> Any:
    return {"pending": case.pending, "config": case.config, "cluster": case.cluster}


def _paths(document: Any) -> Iterator[Path]:
    """All that may go, breadth first."""
    level: list[tuple[Path, Any]] = [((), document)]
    while level:
        below: list[tuple[Path, Any]] = []
        for path, value in level:
            entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, inner in entries:
                if len(path) >= 2 and key not in KEPT:
                    yield (*path, key)
                below.append(((*path, key), inner))
        level = below
