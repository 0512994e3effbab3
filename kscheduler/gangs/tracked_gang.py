"""A gang with its members: which stage each is at, and what follows from that for the gang.

Members go through stages:

    KNOWN ── for us to decide ──> QUEUED <──> IN_FLIGHT ──> ASSUMED ──> BOUND
                                    ^                          │
                                    └───────── forgotten ──────┘

The queue moves them between QUEUED and IN_FLIGHT, the cache to ASSUMED and BOUND and back. No I/O, no clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

import msgspec

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import MAX_TREE_DEPTH
from kscheduler.gangs.gang import Gang, GangKey
from kscheduler.gangs.rules import GangRules


class Stage(enum.IntEnum):
    KNOWN = 0  # it exists, but there is nothing to decide: it belongs to another scheduler, or is terminating
    QUEUED = 1
    IN_FLIGHT = 2  # popped, and not assumed
    ASSUMED = 3
    BOUND = 4


class Lack(enum.Enum):
    """Why a gang cannot be tried."""

    OBJECT = "object"  # its PodGroup does not exist
    FAULT = "fault"  # its PodGroup is invalid
    MEMBERS = "members"  # fewer than its minimum exist
    GATES = "gates"  # a member is gated, and these rules wait for it
    TOPOLOGY = "topology"  # it asks for nodes of one domain, which this scheduler does not heed
    PARENT = "parent"  # it belongs to a composite group, which this scheduler does not schedule
    ROOT = "root"  # a composite group above it does not exist, or is invalid
    LOOP = "loop"  # the composite groups above it form a loop
    DEPTH = "depth"  # there are too many composite groups above it
    GROUPS = "groups"  # too few of its groups have their minimum


class Member(msgspec.Struct, eq=False):
    pod: Pod
    tracked: TrackedGang
    stage: Stage
    is_gated: bool = False  # by a PreEnqueue plugin; only while it is queued

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class TrackedGang:
    """A gang with its members. Only the registry changes it."""

    __slots__ = ("_rules", "_stages", "fault", "gang", "gated", "key", "members", "parent", "run", "succeeded")

    def __init__(self, key: GangKey, rules: GangRules) -> None:
        self.key = key
        self.gang: Gang | None = None  # None: its object does not exist, or is invalid
        self.fault = ""  # what is wrong with its object
        self.members: dict[str, Member] = {}  # pod uid -> member
        self.gated = 0
        self.succeeded = 0  # members of this run that succeeded and left the cluster
        self.run = 0  # a run ends when no member is left: what succeeded in it does not count for later pods
        self.parent: TrackedTree | None = None  # where composite groups are scheduled: the one that it belongs to
        self._stages = [0] * len(Stage)
        self._rules = rules

    @property
    def lineage(self) -> Iterator[TrackedGang]:
        """The gang and the composite groups above it, upwards."""
        tracked: TrackedGang | None = self
        while tracked is not None:
            yield tracked
            tracked = tracked.parent

    @property
    def entry(self) -> TrackedGang:
        """What stands in the queue for the gang: the topmost composite group above it, if that can be; else itself."""
        if self.parent is None or self._why_no_root() is not None:
            return self
        return list(self.lineage)[-1]

    @property
    def is_incomplete(self) -> bool:
        """True if its object does not exist, or one of a composite group above it."""
        return self.gang is None or (self._rules.heeds_parents and self._why_no_root() is not None)

    def _why_no_root(self) -> Lack | None:
        """Return why the gang is not scheduled together with the composite groups above it; None if it is."""
        for depth, tracked in enumerate(self.lineage, 1):
            if tracked.gang is None:
                return Lack.ROOT
            if depth > MAX_TREE_DEPTH:
                return Lack.DEPTH
            if tracked.gang.parent and tracked.parent is None:
                return Lack.LOOP
        return None

    @property
    def is_complete(self) -> bool:
        """True if the gang's object exists, and enough pods for its minimum, gated ones among them."""
        return self.gang is not None and len(self.members) >= self.gang.min_members

    def count(self, stage: Stage) -> int:
        return self._stages[stage]

    @property
    def min_members(self) -> int:
        """The minimum; 1 while that is not known."""
        return 1 if self.gang is None else self.gang.min_members

    @property
    def placed(self) -> int:
        """The number of members that have a node, or had one until they succeeded."""
        stages = self._stages
        placed = stages[Stage.ASSUMED] + stages[Stage.BOUND]
        return placed + self.succeeded if self._rules.counts_succeeded else placed

    @property
    def bound(self) -> int:
        """The number of `placed` members whose bindings are not under way any more."""
        return self.placed - self._stages[Stage.ASSUMED]

    @property
    def available(self) -> int:
        """The number of members that count towards the minimum: placed ones, and those that can be."""
        known = len(self.members) - (0 if self._rules.counts_gated else self.gated)
        return known + self.succeeded if self._rules.counts_succeeded else known

    @property
    def missing(self) -> int:
        """How many more members must be placed to reach the minimum."""
        return max(self.min_members - self.placed, 0)

    @property
    def is_broken(self) -> bool:
        """True if some members are placed, but fewer than the minimum. A basic group never is."""
        return self.gang is not None and not self.gang.is_basic and 0 < self.placed < self.gang.min_members

    @property
    def is_half_bound(self) -> bool:
        """True if the gang is broken, or would be if the bindings under way failed."""
        placed = self.placed
        if not placed or self.gang is None or self.gang.is_basic:
            return False
        bound = self.bound
        return bound < self.gang.min_members and (bound > 0 or placed < self.gang.min_members)

    @property
    def lack(self) -> Lack | None:
        """Why the gang cannot be tried; None if it can."""
        gang = self.gang
        if gang is None:
            return Lack.FAULT if self.fault else Lack.OBJECT
        if gang.parent:
            return self._why_no_root() if self._rules.heeds_parents else Lack.PARENT
        if gang.topology is not None and not self._rules.heeds_topology:
            return Lack.TOPOLOGY
        if not gang.is_basic and self.available < gang.min_members:
            return Lack.MEMBERS
        if self._rules.waits_for_gated and self.gated:
            return Lack.GATES
        return None

    def enter(self, member: Member) -> None:
        self.members[member.uid] = member
        self._stages[member.stage] += 1
        self.gated += member.is_gated
        if self.parent is not None:
            self.parent.enter(member)

    def leave(self, member: Member) -> None:
        del self.members[member.uid]
        self._stages[member.stage] -= 1
        self.gated -= member.is_gated
        if self.parent is not None:
            self.parent.leave(member)

    def move(self, member: Member, stage: Stage) -> None:
        if self.parent is not None:
            self.parent.recount(member.stage, stage)
        self._stages[member.stage] -= 1
        self._stages[stage] += 1
        member.stage = stage

    def gate(self, member: Member, is_gated: bool) -> None:
        change = is_gated - member.is_gated
        tracked: TrackedGang | None = self
        while tracked is not None:
            tracked.gated += change
            tracked = tracked.parent
        member.is_gated = is_gated


class TrackedTree(TrackedGang):
    """A composite group, with the members of all groups below it. Its minimum is a number of the groups next to it."""

    __slots__ = ("children",)

    def __init__(self, key: GangKey, rules: GangRules) -> None:
        super().__init__(key, rules)
        self.children: dict[GangKey, TrackedGang] = {}

    @property
    def missing(self) -> int:
        return 0 if self.is_placed else 1

    @property
    def is_broken(self) -> bool:
        return False

    @property
    def is_half_bound(self) -> bool:
        return False

    @property
    def is_placed(self) -> bool:
        """True if enough of its groups are placed. O(groups below it)."""
        return self.holds(lambda leaf: leaf.placed >= leaf.min_members)

    @property
    def is_complete(self) -> bool:
        return self.gang is not None and self.holds(lambda leaf: leaf.is_complete)

    def holds(self, is_enough: Callable[[TrackedGang], bool]) -> bool:
        """Return whether so many of its groups hold, of PodGroups those of which `is_enough` is true."""
        held = sum(
            child.holds(is_enough) if isinstance(child, TrackedTree) else is_enough(child)
            for child in self.children.values()
        )
        return held >= self.min_members

    @property
    def lack(self) -> Lack | None:
        if self.gang is None:
            return Lack.FAULT if self.fault else Lack.OBJECT
        if self.gang.parent:
            return self._why_no_root()
        if not self.is_complete:
            return Lack.GROUPS
        return Lack.GATES if self.gated else None

    @property
    def leaves(self) -> Iterator[TrackedGang]:
        """The PodGroups below it."""
        for child in self.children.values():
            if isinstance(child, TrackedTree):
                yield from child.leaves
            else:
                yield child

    def in_order(self) -> list[TrackedGang]:
        """Return its groups in the order in which they are tried: by their objects' age, then by name."""
        return sorted(self.children.values(), key=lambda child: (_created(child), child.key.name))

    def recount(self, before: Stage, after: Stage) -> None:
        """Count a member below it that goes to another stage."""
        tracked: TrackedGang | None = self
        while tracked is not None:
            tracked._stages[before] -= 1
            tracked._stages[after] += 1
            tracked = tracked.parent

    def add_child(self, child: TrackedGang) -> None:
        self.children[child.key], child.parent = child, self
        for member in child.members.values():
            self.enter(member)

    def remove_child(self, child: TrackedGang) -> None:
        for member in child.members.values():
            self.leave(member)
        del self.children[child.key]
        child.parent = None


def _created(tracked: TrackedGang) -> str:
    return "" if tracked.gang is None else tracked.gang.created
