"""A guest's scores that are normalised over the feasible rows, for pod classes of the compiled lane.

Pods of a class with such terms are decided one per call, together with the terms of other plugins. After any error the
pod is left to the general lane, which asks the guest again and can report the error.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from kscheduler._fast import JoinTerms, RowAnswers


@final
class GuestTerms:
    """The score terms of one guest for one pod class. `key` identifies everything that they depend on."""

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
        """Do nothing: `current` refreshes the scores each time."""
