"""Decides whether this replica may write to the cluster: always without leader election, else only as leader."""

from __future__ import annotations

from typing import Protocol

from kscheduler.errors import NotLeading

NOT_BOUND = "not bound"


class Elected(Protocol):
    """A participant in leader election that can tell whether it is the leader."""

    @property
    def is_leader(self) -> bool: ...


class WritePermission:
    """Tells right before each write whether it is allowed.

    It ends by time alone when the Lease expires, so that a process that was suspended does not write beside the next
    leader when it resumes.
    """

    def __init__(self, elected: Elected | None = None) -> None:
        self.elected = elected

    def depend_on(self, elected: Elected) -> None:
        """Allow writes only while `elected` is the leader."""
        self.elected = elected

    def may_write(self) -> bool:
        """Return True if a write may be sent now."""
        return self.elected is None or self.elected.is_leader

    def check(self, what: str, *parts: object) -> None:
        """Raise NotLeading unless a write may be sent now.

        `what` begins its message and names what is not done; `parts` take the place of its `%s` when it is needed.
        """
        elected = self.elected  # as `may_write`, without its call for each write
        if elected is not None and not elected.is_leader:
            raise not_leading(what % parts if parts else what)


def not_leading(what: str) -> NotLeading:
    """Return the error for a write that is not sent; `what` is what is not done."""
    return NotLeading(f"{what}: this replica does not hold the lease")
