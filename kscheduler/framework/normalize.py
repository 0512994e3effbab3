"""kube-scheduler's default normalisation of scores, for the per-node form; `_fast.normalize` is its table form."""

from __future__ import annotations

from kscheduler.framework.interface import MAX_NODE_SCORE


def default_normalize(scores: dict[str, int], *, reverse: bool) -> None:
    """Scale scores (node name -> raw, none negative) in place so that the highest is 100; `reverse` flips them.

    Flipped means 100 - score. With no score above zero all become 100 when reversed, and stay 0 otherwise. Integer
    division truncates.
    """
    highest = max(scores.values(), default=0)
    for node, score in scores.items():
        scaled = MAX_NODE_SCORE * score // highest if highest > 0 else 0
        scores[node] = MAX_NODE_SCORE - scaled if reverse else scaled
