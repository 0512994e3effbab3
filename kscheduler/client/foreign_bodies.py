"""Says what a body is that no apiserver writes: in an error, "got HTML" leads to a proxy, "invalid JSON" nowhere."""

from __future__ import annotations

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
