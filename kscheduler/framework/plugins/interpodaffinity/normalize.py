"""Normalises raw scores, which may be negative, to 0..100 between the lowest and the highest."""

from __future__ import annotations

from kscheduler.framework.interface import MAX_NODE_SCORE


def normalize_between(scores: dict[str, int]) -> None:
    """Scale scores (node name -> raw) in place: 100 · ((s - min) / (max - min)) in doubles, cut; equal ones become 0.

    The division comes first, as in kube-scheduler: the other order would round differently.
    """
    lowest, highest = min(scores.values(), default=0), max(scores.values(), default=0)
    for node, score in scores.items():
        share = (score - lowest) / (highest - lowest) if highest > lowest else 0.0
        scores[node] = int(MAX_NODE_SCORE * share)
