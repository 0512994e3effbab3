"""Reads the user that a front proxy names in the headers of a request, such as X-Remote-User.

The caller has to verify that the sender is a proxy that may name users, by its certificate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from kscheduler.client.reviews import User

Headers = Sequence[tuple[str, str]]  # (name, value) as received; a name may occur more than once

_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """The names of the headers with user name, uid, groups and extra fields; case does not matter."""

    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def user(self, headers: Headers) -> User | None:
        """Return the user named by the headers; None if they name none."""
        name = _first(headers, self.username)
        if not name:
            return None
        return User(name, _first(headers, self.uid), tuple(_all(headers, self.group)), tuple(self._extra(headers)))

    def _extra(self, headers: Headers) -> Iterable[tuple[str, tuple[str, ...]]]:
        extra: dict[str, list[str]] = {}  # key -> values, in the order of the prefixes
        for prefix in self.extra_prefixes:
            for name, value in headers:
                if name.lower().startswith(prefix.lower()):
                    extra.setdefault(_unescaped(name[len(prefix) :].lower()), []).append(_text(value))
        return ((key, tuple(values)) for key, values in extra.items())


def _first(headers: Headers, names: Sequence[str]) -> str:
    """Return the first non-empty value of the headers in `names`, in their order; "" if there is none."""
    for name in names:
        value = next((value for key, value in headers if key.lower() == name.lower()), "")
        if value:
            return _text(value)
    return ""


def _all(headers: Headers, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        yield from (_text(value) for key, value in headers if key.lower() == name.lower() and value)


def _text(value: str) -> str:
    """Return a header value with bytes that are not UTF-8 replaced, since a SubjectAccessReview must be valid text."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unescaped(key: str) -> str:
    """Decode the %-escapes in `key`; return it unchanged if one is malformed."""
    if _BROKEN_ESCAPE.search(key):
        return _text(key)
    return unquote_to_bytes(key.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
