"""Says what a body is that no apiserver writes: in an error, "got HTML" leads to a proxy, "invalid JSON" nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kscheduler.errors import APIError, DecodeError

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_LOOK = 256  # bytes at the beginning: pages may begin with empty lines


def kind_of_foreign(body: bytes) -> str:
    """Return what a body is, if it is no apiserver's for sure; "" if it may be one."""
    if body.startswith(_GZIP):
        return "gzip, which was not asked for"
    start = body[:_LOOK].strip()
    if start.startswith(b"<"):
        return "HTML or XML, as proxies and load balancers write it"
    return "" if start else "nothing"


def decoded(decode: Callable[[bytes], T], body: bytes, what: str, host: str) -> T:
    """Return what `decode` makes of an apiserver's answer. Raises APIError that says what the body is instead.

    `what` was asked for at `host`.
    """
    try:
        return decode(body)
    except DecodeError as error:
        kind = kind_of_foreign(body)
        reason = f"expected JSON, got {kind}" if kind else str(error)
        raise APIError(f"apiserver {host}: {what}: {reason}") from error
