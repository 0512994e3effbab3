"""The numbers of the extension points in the batch ABI, and the words that are allowed in a guest's description."""

from __future__ import annotations

import enum

ABI_VERSION = 1


class Point(enum.IntEnum):
    PRE_ENQUEUE = 1
    PRE_FILTER = 2
    FILTER = 3
    PRE_SCORE = 5
    SCORE = 6
    NORMALIZE_SCORE = 7
    RESERVE = 8
    UNRESERVE = 9
    PERMIT = 10
    PRE_BIND = 11
    POST_BIND = 12

    @property
    def word(self) -> str:
        """The extension point's name as guests and configurations spell it, such as "preFilter"."""
        return _WORDS[self]


_WORDS = {
    Point.PRE_ENQUEUE: "preEnqueue",
    Point.PRE_FILTER: "preFilter",
    Point.FILTER: "filter",
    Point.PRE_SCORE: "preScore",
    Point.SCORE: "score",
    Point.NORMALIZE_SCORE: "normalizeScore",
    Point.RESERVE: "reserve",
    Point.UNRESERVE: "unreserve",
    Point.PERMIT: "permit",
    Point.PRE_BIND: "preBind",
    Point.POST_BIND: "postBind",
}
POINTS = {word: point for point, word in _WORDS.items()}

POD, NODE, USAGE, PODS, METRICS, OTHER = "pod", "node", "usage", "pods", "metrics", "other"
DEPENDENCIES = (POD, NODE, USAGE, PODS, METRICS, OTHER)

# Part of the table -> the dependency that a guest which reads it must declare.
TABLE_PARTS = {
    "names": NODE,
    "unschedulable": NODE,
    "allocatable": NODE,
    "taints": NODE,
    "images": NODE,
    "usage": USAGE,
    "pods": PODS,
}
POD_PARTS = (
    "name", "namespace", "labels", "annotations", "priority", "requests", "containers", "node_selector", "tolerations",
    "owners", "spec",
)  # fmt: skip

NO_NORMALIZING, DEFAULT, REVERSE, GUEST = "none", "default", "reverse", "guest"
NORMALIZATIONS = (NO_NORMALIZING, DEFAULT, REVERSE, GUEST)
