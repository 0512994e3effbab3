"""The values of TokenReview and SubjectAccessReview: a user, and whether the user may do something."""

from __future__ import annotations

from typing import NamedTuple


class User(NamedTuple):
    """A user as Kubernetes knows one: the `user` of a TokenReview, the subject of a SubjectAccessReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()  # key and values, in the order in which they came


class AccessReview(NamedTuple):
    """The answer of a SubjectAccessReview."""

    allowed: bool
    reason: str = ""
