"""Scores of a guest that are normalised over the rows that are left, for classes of the compiled lane.

A class with such terms is decided one pod a call. Whatever goes wrong, the pod is left to the general lane, which asks
again and can tell what it was.
"""

from __future__ import annotations

import logging
from typing import final

from kscheduler._fast import Joiner, Placer, PodClass, RowAnswers, join_answers
from kscheduler.errors import InternalError, PluginError
from kscheduler.framework.class_draft import JoinedTerms
from kscheduler.wasm.batch.points import DEFAULT, NO_NORMALIZING, REVERSE
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.pool import Unavailable

log = logging.getLogger(__name__)

NOWHERE = -1, 0
_WAYS = {NO_NORMALIZING: 0, DEFAULT: 1, REVERSE: 2}  # as `join_answers` numbers them


@final
class GuestTerms:
    """Equal if their keys are."""

    def __init__(
        self,
        scores: RowAnswers,
        weight: int,
        normalizing: str,
    ) -> None:
        self._key = scores, weight, normalizing
        self._scores = scores
        self._weight = weight
        self._way = _WAYS[normalizing]
        self._joiner: Joiner | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuestTerms) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def beside(self, other: JoinedTerms) -> JoinedTerms:
        raise InternalError(f"expected no terms beside those of a guest, got {other!r}")

    def place(self, placer: Placer, pod_class: PodClass, random_bits: int | None) -> tuple[int, int]:
        """(row, feasible rows); row -1 if there is none, or if the general lane has to find it."""
        if self._joiner is None or self._joiner.placer is not placer:
            self._joiner = Joiner(placer)
        try:
            self._scores.refresh()
            feasible = join_answers(self._joiner, pod_class, None, self._scores.entries, self._weight, self._way)
        except (GuestFault, Unavailable, PluginError, ValueError) as error:
            log.debug("guest failed in the compiled lane", extra={"err": str(error)})
            return NOWHERE
        return (self._joiner.row(random_bits), feasible) if feasible else NOWHERE
