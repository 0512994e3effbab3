"""The gangs that the scheduler knows, and where each of their members is.

A gang is tracked as long as its object or one of its members exists, whichever comes first. Every method costs O(1).
No I/O, no clock.

Members go through stages:

    KNOWN ── for us to decide ──> QUEUED <──> IN_FLIGHT ──> ASSUMED ──> BOUND
                                    ^                          │
                                    └───────── forgotten ──────┘

The queue moves them between QUEUED and IN_FLIGHT, the cache to ASSUMED and BOUND and back. A member that leaves the
cluster leaves its gang; if it has succeeded, that is counted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

import msgspec

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import MAX_TREE_DEPTH
from kscheduler.gangs.doors import Doors
from kscheduler.gangs.gang import COMPOSITE_API, Gang, GangKey
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
    FAULT = "fault"  # its PodGroup makes no sense
    MEMBERS = "members"  # fewer than its minimum exist
    GATES = "gates"  # a member is gated, and these rules wait for it
    TOPOLOGY = "topology"  # it asks for nodes of one domain, which this scheduler does not heed
    PARENT = "parent"  # it belongs to a composite group, which this scheduler does not schedule
    ROOT = "root"  # a composite group above it does not exist, or makes no sense
    LOOP = "loop"  # the composite groups above it form a loop
    DEPTH = "depth"  # there are too many composite groups above it
    GROUPS = "groups"  # too few of its groups have their minimum


class Member(msgspec.Struct, eq=False):
    pod: Pod
    tracked: TrackedGang
    stage: Stage
    is_gated: bool = False  # by a PreEnqueue plugin; only while it is queued
    has_succeeded: bool = False  # it leaves the cluster for that reason

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class TrackedGang:
    """A gang with its members. Only the registry changes it."""

    __slots__ = ("_rules", "_stages", "fault", "gang", "gated", "key", "members", "parent", "run", "succeeded")

    def __init__(self, key: GangKey, rules: GangRules) -> None:
        self.key = key
        self.gang: Gang | None = None  # None: its object does not exist, or makes no sense
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


class Registry:
    """All gangs, by key, and their members, by the uid of their pod."""

    def __init__(self, doors: Doors, rules: GangRules) -> None:
        self.rules = rules
        self._doors = doors
        self._gangs: dict[GangKey, TrackedGang] = {}
        self.members: dict[str, Member] = {}  # pod uid -> member; changed here only
        self.on_members: Callable[[GangKey], None] = lambda key: None  # called when a gang gets or loses a member
        # Called when gangs, and all below them, may have another entry in the queue than before.
        self.on_entries: Callable[[TrackedGang], None] = lambda tracked: None
        self._looping: dict[GangKey, TrackedGang] = {}  # those whose parent is below them

    def __iter__(self) -> Iterator[TrackedGang]:
        return iter(self._gangs.values())

    def __len__(self) -> int:
        return len(self._gangs)

    def get(self, key: GangKey) -> TrackedGang | None:
        return self._gangs.get(key)

    def apis_of(self, pod: Pod) -> list[str]:
        """Return the APIs by which a pod names a gang; it may name one only."""
        return self._doors.apis_of(pod)

    # --- objects ---

    def set_gang(self, gang: Gang) -> TrackedGang:
        """Take a new or changed object. Members that another object of this name had count on."""
        tracked = self._track(gang.key)
        tracked.gang, tracked.fault = gang, ""
        if self.rules.heeds_parents:
            self._link(tracked)
        return tracked

    def refuse_gang(self, key: GangKey, fault: str) -> TrackedGang:
        """Record that the object of a gang makes no sense, and why."""
        tracked = self._track(key)
        tracked.gang, tracked.fault = None, fault
        if self.rules.heeds_parents:
            self._link(tracked)
        return tracked

    def remove_gang(self, key: GangKey) -> TrackedGang | None:
        """Record that the object of a gang is gone. Returns the gang if it is known; it may have no members left."""
        tracked = self._gangs.get(key)
        if tracked is not None:
            tracked.gang, tracked.fault = None, ""
            if self.rules.heeds_parents:
                self._link(tracked)
            self._drop_if_empty(tracked)
        return tracked

    def _link(self, tracked: TrackedGang) -> None:
        """Put a gang below the composite group that its object names now, unless that is below the gang itself."""
        parent = None
        if tracked.gang is not None and tracked.gang.parent:
            found = self._track(tracked.gang.parent_key)
            assert isinstance(found, TrackedTree), f"{found.key} is no composite group"
            parent = found
        before = tracked.parent
        if before is not parent:
            if before is not None:
                before.remove_child(tracked)
            if parent is not None and any(each is tracked for each in parent.lineage):
                self._looping[tracked.key] = tracked
            elif parent is not None:
                parent.add_child(tracked)
        if parent is None or tracked.parent is not None:
            self._looping.pop(tracked.key, None)
        self.on_entries(tracked)
        if before is not None and before is not tracked.parent:
            self._drop_if_empty(before)
            for each in list(self._looping.values()):  # a loop may be broken now
                self._link(each)

    # --- members ---

    def set_member(self, pod: Pod, stage: Stage) -> tuple[TrackedGang | None, TrackedGang | None]:
        """Take a new pod, or a newer version of one, that is at a stage. Returns the gang that it left, and its gang.

        The first is None unless the pod now names another gang than before; the second if it names none.
        """
        uid = pod.metadata.uid
        member = self.members.get(uid)
        key = self._doors.key_of(pod)
        before = None
        if member is not None:
            before = member.tracked
            if before.key == key:
                member.pod = pod
                self._move(member, stage)
                return None, before
            self.remove_member(uid)
        if key is None:
            return before, None
        tracked = self._track(key)
        member = self.members[uid] = Member(pod, tracked, stage)
        tracked.enter(member)
        self.on_members(key)
        return before, tracked

    def move(self, uid: str, stage: Stage) -> TrackedGang | None:
        """Record that a member is at another stage. Returns its gang; None for a pod that is no member."""
        member = self.members.get(uid)
        if member is None:
            return None
        self._move(member, stage)
        return member.tracked

    def set_gated(self, uid: str, is_gated: bool) -> TrackedGang | None:
        """Record whether a PreEnqueue plugin gates a queued member. Returns its gang; None for another pod."""
        member = self.members.get(uid)
        if member is None:
            return None
        member.tracked.gate(member, is_gated and member.stage is Stage.QUEUED)
        return member.tracked

    def note_success(self, uid: str) -> None:
        """Record that a pod, which is about to leave the cluster, has succeeded."""
        member = self.members.get(uid)
        if member is not None:
            member.has_succeeded = True

    def add_success(self, tracked: TrackedGang, run: int) -> bool:
        """Count a pod that left a gang in a run, and was found to have succeeded. Returns False if the run is over."""
        if self._gangs.get(tracked.key) is not tracked or tracked.run != run:
            return False
        tracked.succeeded += 1
        return True

    def remove_member(self, uid: str) -> TrackedGang | None:
        """Remove a pod that has left the cluster, or names no gang any more. Returns its gang, or None."""
        member = self.members.pop(uid, None)
        if member is None:
            return None
        tracked = member.tracked
        tracked.leave(member)
        self.on_members(tracked.key)
        tracked.succeeded += member.has_succeeded
        if not tracked.members:
            tracked.succeeded, tracked.run = 0, tracked.run + 1
        self._drop_if_empty(tracked)
        return tracked

    def _move(self, member: Member, stage: Stage) -> None:
        if stage is member.stage:
            return
        if member.is_gated:
            member.tracked.gate(member, False)
        member.tracked.move(member, stage)

    def _track(self, key: GangKey) -> TrackedGang:
        tracked = self._gangs.get(key)
        if tracked is None:
            kind = TrackedTree if key.api == COMPOSITE_API else TrackedGang
            tracked = self._gangs[key] = kind(key, self.rules)
        return tracked

    def _drop_if_empty(self, tracked: TrackedGang) -> None:
        if tracked.gang is None and not tracked.fault and not tracked.members:
            if isinstance(tracked, TrackedTree) and tracked.children:
                return
            self._gangs.pop(tracked.key, None)

    def check(self) -> None:
        """Assert that gangs and members agree. O(members)."""
        of_pods = [tracked for tracked in self if not isinstance(tracked, TrackedTree)]
        by_gang = {uid: member for tracked in of_pods for uid, member in tracked.members.items()}
        assert by_gang == self.members, f"gangs and members differ by {by_gang.keys() ^ self.members.keys()}"
        for key, tracked in self._gangs.items():
            members = tracked.members.values()
            assert tracked.key == key, f"{tracked.key} is tracked as {key}"
            assert all(tracked in list(member.tracked.lineage) for member in members), (
                f"a member of {key} is in another gang"
            )
            if isinstance(tracked, TrackedTree):
                below = [member for child in tracked.children.values() for member in child.members.values()]
                assert sorted(each.uid for each in members) == sorted(each.uid for each in below), f"{key}: members"
                assert all(child.parent is tracked for child in tracked.children.values()), f"{key}: children"
            for stage in Stage:
                counted = sum(member.stage is stage for member in members)
                assert tracked.count(stage) == counted, f"{key} counts {tracked.count(stage)} {stage}, has {counted}"
            gated = [member for member in members if member.is_gated]
            assert tracked.gated == len(gated), f"{key} counts {tracked.gated} gated members and has {len(gated)}"
            assert all(member.stage is Stage.QUEUED for member in gated), f"a gated member of {key} is not queued"
            assert tracked.gang is None or not tracked.fault, f"{key} has an object, and a fault"
            has_children = isinstance(tracked, TrackedTree) and tracked.children
            assert tracked.gang or tracked.fault or members or has_children, f"{key} is tracked for nothing"
