"""Keeps searches in vain from taking all the time where many gangs, or pods for which others may move, fit nowhere.

After a search in vain none begins for PAUSE times what it cost, so that single pods and gangs that fit are decided
meanwhile. Those that come earlier get a turn each, a time at which they are tried again, one after the other. Costs are
estimated from what a search did, not measured, so that a simulation has the same course each time.
"""

from __future__ import annotations

PAUSE = 4.0  # times the cost of a search in vain
LEAST_S = 0.01  # between two turns
MOST_KEPT = 20_000  # turns, before those that are over are dropped
MOST_S = 60.0  # a turn that is further ahead than this is due to a clock that was set back


class Pace:
    """All times are Unix seconds."""

    def __init__(self) -> None:
        self._free_at = 0.0  # when the next search may begin
        self._last_turn = 0.0  # the latest that was given
        self._turns: dict[str, float] = {}  # uid of a pod, or of a gang's face -> its turn
        self._pause_s = LEAST_S  # after the latest search in vain

    def wait_s(self, now: float) -> float:
        """Return the seconds until a search may begin; 0 if it may now."""
        left = self._free_at - now
        return left if 0.0 < left <= MOST_S else 0.0

    def next_turn_s(self, uid: str, now: float) -> float:
        """Give a pod or gang that has to wait a turn, unless it has one. Returns the seconds until then."""
        turn = self._turns.get(uid, 0.0)
        if turn <= now:
            if len(self._turns) > MOST_KEPT:
                self._turns = {other: at for other, at in self._turns.items() if at > now}
            turn = self._turns[uid] = self._last_turn = max(self._last_turn, self._free_at) + self._pause_s
        return max(turn - now, LEAST_S)

    def was_in_vain(self, now: float, cost_s: float) -> None:
        """Take note of a search in vain that cost so many seconds."""
        self._pause_s = max(PAUSE * cost_s, LEAST_S)
        self._free_at = now + self._pause_s
