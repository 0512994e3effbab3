"""The three scoring strategies of NodeResourcesFit, by the usage of a node's resources with the pod there.

Each has the formula for one node, on (used, allocatable, weight) of the resources that count there, and the kernel that
computes all nodes. Divisions are of non-negative numbers, so Python's floor equals Go's truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kscheduler._fast import (
    NodeColumns,
    PodRequest,
    Scores,
    Verdicts,
    score_least_allocated,
    score_most_allocated,
    score_requested_to_capacity_ratio,
)
from kscheduler.framework.broken_line import Shape, score_on_line
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.interface import MAX_NODE_SCORE

Weights = Sequence[tuple[int, int]]  # (resource column, weight)


class Use(NamedTuple):
    """The usage of one resource on a node: the amount used with the pod there, the allocatable amount, the weight."""

    used: int
    allocatable: int
    weight: int


class Strategy(Protocol):
    def score(self, uses: Sequence[Use]) -> int:
        """Return the score 0..100 of one node; 0 if no resource counts."""
        ...

    def score_table(
        self, columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, weights: Weights
    ) -> None:
        """Score every feasible row (node) in one call."""
        ...

    def compile(self, draft: ClassDraft, request: PodRequest, weights: Weights) -> None:
        """Add the score to a draft, i.e. to what plugins state for kernels about a class of equal pods."""
        ...


class LeastAllocated:
    """Prefers the node with the most free resources: ⌊Σ w·⌊free·100/allocatable⌋ / Σ w⌋."""

    def score(self, uses: Sequence[Use]) -> int:
        return _mean([(max(cap - used, 0) * MAX_NODE_SCORE // cap, weight) for used, cap, weight in uses])

    def score_table(
        self, columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, weights: Weights
    ) -> None:
        score_least_allocated(columns, verdicts, scores, request, weights)

    def compile(self, draft: ClassDraft, request: PodRequest, weights: Weights) -> None:
        draft.score_least_allocated(request, weights)


class MostAllocated:
    """Prefers the node with the most used resources: ⌊Σ w·⌊used·100/allocatable⌋ / Σ w⌋."""

    def score(self, uses: Sequence[Use]) -> int:
        return _mean([(min(used, cap) * MAX_NODE_SCORE // cap, weight) for used, cap, weight in uses])

    def score_table(
        self, columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, weights: Weights
    ) -> None:
        score_most_allocated(columns, verdicts, scores, request, weights)

    def compile(self, draft: ClassDraft, request: PodRequest, weights: Weights) -> None:
        draft.score_most_allocated(request, weights)


class RequestedToCapacityRatio:
    """Maps each resource's utilization to a score by the piecewise linear `shape`; the result is their weighted mean.

    The mean is rounded half up. A resource that scores 0 takes no part in it, as in kube-scheduler.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = tuple(shape)

    def score(self, uses: Sequence[Use]) -> int:
        scored = [(score_on_line(self._shape, min(used, cap) * 100 // cap), weight) for used, cap, weight in uses]
        counted = [(score, weight) for score, weight in scored if score > 0]
        weights = sum(weight for _, weight in counted)
        total = sum(score * weight for score, weight in counted)
        return (2 * total + weights) // (2 * weights) if weights else 0

    def score_table(
        self, columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, weights: Weights
    ) -> None:
        score_requested_to_capacity_ratio(columns, verdicts, scores, request, weights, self._shape)

    def compile(self, draft: ClassDraft, request: PodRequest, weights: Weights) -> None:
        draft.score_requested_to_capacity_ratio(request, weights, self._shape)


def _mean(scores: Sequence[tuple[int, int]]) -> int:
    """Return the weighted mean of (score, weight) pairs, truncated; 0 without weights."""
    weights = sum(weight for _, weight in scores)
    return sum(score * weight for score, weight in scores) // weights if weights else 0
