"""Decides when a guest that keeps failing is not called, and for how long. Calls no guest; time is an argument.

    admitted -- N faults in a row --> quarantined -- its time is over --> on trial
        ^                                  ^                                 |  |
        |                                  +------- no instance starts ------+  |
        +------------------------- an instance starts --------------------------+

Each quarantine is twice as long as the one before, unless the guest was admitted for `well_s` in between.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Admission(enum.Enum):
    ADMITTED = "admitted"
    TRIAL = "trial"  # take an instance first, and record whether one starts
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class QuarantineRules:
    faults_in_a_row: int = 3
    first_s: float = 1.0
    longest_s: float = 300.0
    well_s: float = 60.0  # after so many seconds without a quarantine, the next one lasts `first_s` again


NO_QUARANTINE = QuarantineRules(faults_in_a_row=1 << 60)  # for commands that show each fault to the user


class Quarantine:
    def __init__(self, rules: QuarantineRules) -> None:
        self._rules = rules
        self._faults = 0  # faults in a row
        self._length_s = 0.0  # length of the last quarantine
        self._ends_at: float | None = None  # None while admitted
        self._admitted_at = float("-inf")

    @property
    def is_quarantined(self) -> bool:
        return self._ends_at is not None

    def admission(self, now: float) -> Admission:
        if self._ends_at is None:
            return Admission.ADMITTED
        return Admission.TRIAL if now >= self._ends_at else Admission.REFUSED

    def left_s(self, now: float) -> float:
        """Return the seconds until the guest may be tried again; 0 if it may be now."""
        return 0.0 if self._ends_at is None else max(0.0, self._ends_at - now)

    def succeeded(self, now: float) -> bool:
        """Record the success of a call or of a trial; return True if it ended a quarantine."""
        self._faults = 0
        if self._ends_at is None:
            return False
        self._ends_at = None
        self._admitted_at = now
        return True

    def failed(self, now: float) -> bool:
        """Record a fault of a call or of a trial; return True if a quarantine begins, or begins again."""
        self._faults += 1
        if self._ends_at is not None:
            return self._begin(now) if now >= self._ends_at else False
        return self._begin(now) if self._faults >= self._rules.faults_in_a_row else False

    def _begin(self, now: float) -> bool:
        rules = self._rules
        was_well = self._ends_at is None and now - self._admitted_at >= rules.well_s
        self._length_s = rules.first_s if was_well else min(rules.longest_s, max(rules.first_s, 2 * self._length_s))
        self._ends_at = now + self._length_s
        self._faults = 0
        return True
