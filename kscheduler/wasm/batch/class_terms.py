"""Scores of a guest that are normalised over the rows that are left, for classes of the compiled lane.

A class with such terms is decided one pod a call, joined with what other plugins ask. Whatever goes wrong, the pod is
left to the general lane, which asks again and can tell what it was.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from kscheduler._fast import JoinTerms, RowAnswers


@final
class GuestTerms:
    """`key` is all that they go by."""

    __slots__ = ("_scores", "_terms", "key")

    def __init__(self, scores: RowAnswers, weight: int, *, reverse: bool) -> None:
        self.key: Hashable = scores, weight, reverse
        self._scores = scores
        self._terms = JoinTerms(weight)
        self._terms.score_answers(scores, reverse)

    def current(self) -> JoinTerms:
        self._scores.refresh()
        return self._terms

    def renew(self) -> None:
        """They always are."""
