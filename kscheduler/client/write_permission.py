"""Whether this replica may write to the cluster: always without leader election, else only while it holds the Lease."""

from __future__ import annotations

from typing import Protocol

from kscheduler.errors import NotLeading

NOT_BOUND = "not bound"


class Elected(Protocol):
    """A participant in leader election, which knows whether it leads."""

    @property
    def is_leader(self) -> bool: ...


class WritePermission:
    """Is asked right before each write. It turns false by time alone when the Lease runs out, so that a process that
    stood still does not write beside its successor when it wakes.
    """

    def __init__(self, elected: Elected | None = None) -> None:
        self._elected = elected

    def depend_on(self, elected: Elected) -> None:
        """Permit writes only while `elected` leads."""
        self._elected = elected

    def may_write(self) -> bool:
        """Return whether a write may be sent now."""
        return self._elected is None or self._elected.is_leader

    def check(self, what: str) -> None:
        """Raise NotLeading, beginning with `what` is not done, unless a write may be sent now."""
        if not self.may_write():
            raise not_leading(what)


def not_leading(what: str) -> NotLeading:
    """Return the error of a write that is not sent; `what` says what is not done."""
    return NotLeading(f"{what}: this replica does not hold the lease")
