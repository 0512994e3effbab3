"""What plugins remember from one extension point to the next, within one pod's cycle."""

from __future__ import annotations

from typing import TypeVar

from kscheduler.framework.confinement import Confinement
from kscheduler.snapshot.pod_info import PodInfo

T = TypeVar("T")

# Under this key of what the members of a gang share: True if others of them had a node before they were planned.
HAS_PLACED = "gang/has placed"
# Under this key of the same: why pods of the gang do not preempt by themselves.
WHY_NOT_PREEMPT = "gang/why not preempt"


class CycleState:
    """One pod's scratch space; a plugin writes under its own name and reads no other plugin's values.

    `skip_filter`, `skip_score` and `skip_pre_bind` hold the plugins that answered Skip in this cycle at PreFilter, at
    PreScore and at PreBindPreFlight. `pods_to_activate` (pod uid -> pod) takes waiting pods that a plugin wants tried
    as soon as this pod is assumed or, if they are added later, bound. `decider` is the scheduler name of the profile
    whose plugins decide, which may differ from the pod's own profile; "" before PreFilter. `may_wait`: a plugin may end
    the search with `AnswersToCome`. `skips_post_filter`: no PostFilter plugin is called, so that nobody is preempted.
    `confinement`: the only nodes that the search knows; None for all.
    `group` is what the members of a gang share while they are placed together; None for a pod by itself.
    """

    __slots__ = (
        "_data",
        "confinement",
        "decider",
        "group",
        "may_wait",
        "pods_to_activate",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
        "skips_post_filter",
    )

    def __init__(self) -> None:
        self._data: dict[str, object] = {}  # plugin name -> what it wrote
        self.pods_to_activate: dict[str, PodInfo] = {}
        self.decider = ""
        self.group: CycleState | None = None
        self.may_wait = False
        self.skips_post_filter = False
        self.confinement: Confinement | None = None
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: frozenset[str] = frozenset()

    def write(self, key: str, value: object) -> None:
        self._data[key] = value

    def read(self, key: str, kind: type[T]) -> T:
        """Return the value under `key`. Raises KeyError if none was written, TypeError if it is not of type `kind`."""
        value = self._data[key]
        if not isinstance(value, kind):
            raise TypeError(f"cycle state {key!r}: expected {kind.__name__}, got {type(value).__name__}")
        return value

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return the value under `key`, or None if it was never written."""
        value = self._data.get(key)
        return value if isinstance(value, kind) else self.read(key, kind) if key in self._data else None

    def clone(self) -> CycleState:
        """Return a copy for a trial on a copy of a node: values with a method `clone` are cloned, others shared."""
        other = CycleState()
        other._data = {key: _clone(value) for key, value in self._data.items()}
        other.decider = self.decider
        other.confinement = self.confinement
        other.group = self.group
        other.pods_to_activate = self.pods_to_activate
        other.skip_filter = set(self.skip_filter)
        other.skip_score = set(self.skip_score)
        other.skip_pre_bind = self.skip_pre_bind
        return other


def _clone(value: object) -> object:
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()
