"""Lets informers log once what hinders all of them, such as an apiserver that is down or credentials that have expired.

a kind fails --> is that known to hinder another kind? -- no --> it is logged
a kind works again, or fails for a reason of its own --> was it the last one? -- yes --> the end is logged
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.client.missing_rights import MissingRights
from kscheduler.clock import Clock

MOST_CAUSES = 20  # of one outage that are logged, should the texts of errors differ again and again


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage that is over: how many kinds it hindered, and how long it was from the first failure to the end."""

    kinds: int
    seconds: float


class Outages:
    """The informers that are hindered by something that is not about their kind. All share one object."""

    def __init__(self, clock: Clock) -> None:
        self.rights = MissingRights()  # kinds that are hindered by something that is about them
        self._clock = clock
        self._hindered: set[object] = set()  # informers
        self._kinds: set[str] = set()  # that were hindered since the first of them was
        self._causes: set[str] = set()  # that were logged since then
        self._since_s = 0.0

    def is_news(self, informer: object, kind: str, cause: str) -> bool:
        """Note that an informer is hindered; return whether this cause has not been logged in this outage."""
        if not self._hindered:
            self._since_s = self._clock.now()
            self._kinds.clear()
            self._causes.clear()
        self._hindered.add(informer)
        self._kinds.add(kind)
        if cause in self._causes or len(self._causes) >= MOST_CAUSES:
            return False
        self._causes.add(cause)
        return True

    @property
    def kinds(self) -> int:
        """How many kinds the outage hinders or has hindered; of the last one, if there is none now."""
        return len(self._kinds)

    def hinders(self, informer: object) -> bool:
        return informer in self._hindered

    def leave(self, informer: object) -> Outage | None:
        """Note that an informer is no longer hindered; return the outage if it was the last one."""
        if informer not in self._hindered:
            return None
        self._hindered.remove(informer)
        if self._hindered:
            return None
        return Outage(len(self._kinds), self._clock.now() - self._since_s)

    def forget(self, informer: object) -> None:
        """Note that an informer was stopped, whether it was hindered or not."""
        self._hindered.discard(informer)
        self.rights.forget(informer)
