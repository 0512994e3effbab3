"""How long a pod stays where it is before it may be moved: longer each time that one was moved whose place it took.

Moves are planned so that they come to rest. But pods that come for a short time, and have others moved for them, could
have the same ones moved all day. So a pod that its controller created after a move stays twice as long as the one
before it had to, up to an hour. No I/O, no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

STAY_S = 300.0  # of a pod that took nobody's place
MOST_STAY_S = 3600.0
FORGET_S = 86_400.0  # after which a move makes no difference any more
MOST_KEPT = 20_000  # controllers, before moves are dropped that make no difference
WHOLE_S = 1.0  # creation times are whole seconds


class _Move(NamedTuple):
    at: float
    stay_s: float  # of pods that were created since


class Stays:
    """All times are Unix seconds. A pod is known by the uid of its controller, and by when it was created."""

    def __init__(self) -> None:
        self._moves: dict[str, list[_Move]] = {}  # uid of a controller -> moves of its pods, the latest last

    def stay_s(self, controller: str, created: float) -> float:
        """Return for how many seconds from its creation a pod stays at least."""
        moves = self._moves.get(controller)
        if moves is None:
            return STAY_S
        before = bisect_right(moves, created + WHOLE_S, key=lambda move: move.at)
        return moves[before - 1].stay_s if before else STAY_S

    def moved(self, controller: str, created: float, now: float) -> None:
        """Take note that a pod is moved."""
        stay_s = min(2 * self.stay_s(controller, created), MOST_STAY_S)
        if len(self._moves) > MOST_KEPT:
            self._moves = {uid: moves for uid, moves in self._moves.items() if 0 <= now - moves[-1].at < FORGET_S}
        known = self._moves.get(controller, ())
        # A clock that was set back leaves no move in the future.
        self._moves[controller] = [*(move for move in known if 0 <= now - move.at < FORGET_S), _Move(now, stay_s)]
