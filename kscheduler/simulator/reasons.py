"""The reasons why pods have no node, grouped: messages that differ only in their counts are one kind.

"0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint(s)." is of the kind
"Insufficient cpu; node(s) had untolerated taint(s)". Any other message is a kind of its own.
"""

from __future__ import annotations

import re

_FIT_ERROR = re.compile(r"0/\d+ nodes are available: (?P<reasons>.+?)\.(?: preemption: .*)?", re.DOTALL)
_PART = re.compile(r"(?P<count>\d+) (?P<reason>.+)", re.DOTALL)


def kind_of(message: str) -> str:
    """Return the message without counts, its parts sorted."""
    found = _FIT_ERROR.fullmatch(message)
    if found is None:
        return message
    parts = [_PART.fullmatch(part) for part in found["reasons"].split(", ")]
    reasons = sorted({part["reason"] for part in parts if part is not None})
    return "; ".join(reasons) if all(parts) else message
