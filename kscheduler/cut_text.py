"""Texts of others, such as plugins' reasons, at a length that a pod's condition and a line of the log can have."""

from __future__ import annotations

# The longest message that the API allows in conditions of its newer kinds. A pod's may be longer, but the apiserver
# refuses a request of 3 MiB, etcd one of 1.5 MiB, and each pod would have its own copy there.
MOST_BYTES = 32_768
SURELY_SHORT = MOST_BYTES // 4  # characters, each of at most four bytes
_CUT = " ..."


def cut_text(text: str) -> str:
    """Shorten a text to MOST_BYTES bytes of UTF-8; a shortened one ends in ` ...`."""
    if len(text) <= SURELY_SHORT:
        return text
    raw = text[:MOST_BYTES].encode(errors="replace")
    if len(raw) <= MOST_BYTES and len(text) <= MOST_BYTES:
        return text
    return raw[: MOST_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
