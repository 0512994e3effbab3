"""Builders of node tables for either form of the kernels, from plain descriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

GI = 1 << 30
MI = 1 << 20


@dataclass(frozen=True)
class NodeSpec:
    """One row: what the node has, and the pods on it as (entries, non-zero cpu, non-zero memory)."""

    allocatable: tuple[int, ...] = (4000, 8 * GI, 0)
    allowed_pods: int = 110
    node_class: int = 0
    pods: tuple[tuple[tuple[tuple[int, int], ...], int, int], ...] = field(default=())
    alive: bool = True


def make_columns(fast: ModuleType, nodes: Sequence[NodeSpec], resources: int = 3, capacity: int = 2) -> Any:
    columns = fast.NodeColumns(capacity)
    while columns.resource_count < resources:
        columns.add_resource()
    for node in nodes:
        row = columns.add_row()
        for resource, amount in enumerate(node.allocatable):
            columns.set_allocatable(row, resource, amount)
        columns.set_allowed_pods(row, node.allowed_pods)
        columns.set_node_class(row, node.node_class)
        for entries, cpu, memory in node.pods:
            columns.add_pod(row, fast.PodRequest(entries, cpu, memory))
    for row, node in enumerate(nodes):
        if not node.alive:
            columns.free_row(row)
    return columns


def start(fast: ModuleType, columns: Any) -> tuple[Any, Any]:
    """Verdicts and scores at the beginning of a pod."""
    verdicts, scores = fast.Verdicts(), fast.Scores()
    verdicts.reset(columns)
    scores.reset(columns)
    return verdicts, scores


def plain(cpu: int, memory: int) -> tuple[tuple[tuple[int, int], ...], int, int]:
    """A pod that requests cpu and memory, so that its non-zero requests are the same."""
    entries = tuple((resource, amount) for resource, amount in ((0, cpu), (1, memory)) if amount)
    return entries, cpu, memory


def raws(scores: Any) -> list[int]:
    return [scores.raw(row) for row in range(scores.rows)]


def codes(verdicts: Any) -> list[tuple[int, int]]:
    return [(verdicts.code(row), verdicts.detail(row)) for row in range(verdicts.rows)]


def each_raises(error: type[Exception], pattern: str, *calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(error, match=pattern):
            call()
