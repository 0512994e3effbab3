"""The API's rules for label keys and values, and for names of resources."""

from __future__ import annotations

import functools
import re

MAX_DOMAIN = 253
MAX_LOCAL = 63

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LOCAL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@functools.lru_cache(maxsize=4_096)
def is_qualified_name(text: str) -> bool:
    """Return True for `name` or `domain/name`, the form of label keys and resource names."""
    domain, slash, local = text.rpartition("/")
    if slash and not (len(domain) <= MAX_DOMAIN and _DOMAIN.fullmatch(domain)):
        return False
    return len(local) <= MAX_LOCAL and bool(_LOCAL.fullmatch(local))


@functools.lru_cache(maxsize=4_096)
def is_label_value(text: str) -> bool:
    """Return True for up to 63 letters, digits, "-", "_" and ".", a letter or digit at both ends; or ""."""
    return not text or (len(text) <= MAX_LOCAL and bool(_LOCAL.fullmatch(text)))
