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
from kscheduler.gangs.doors import Doors
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
    FAULT = "fault"  # its PodGroup makes no sense
    MEMBERS = "members"  # fewer than its minimum exist
    GATES = "gates"  # a member is gated, and these rules wait for it
    TOPOLOGY = "topology"  # it asks for nodes of one domain, which this scheduler does not heed
    PARENT = "parent"  # it belongs to a composite group, which this scheduler does not schedule


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

    __slots__ = ("_rules", "_stages", "fault", "gang", "gated", "key", "members", "run", "succeeded")

    def __init__(self, key: GangKey, rules: GangRules) -> None:
        self.key = key
        self.gang: Gang | None = None  # None: its object does not exist, or makes no sense
        self.fault = ""  # what is wrong with its object
        self.members: dict[str, Member] = {}  # pod uid -> member
        self.gated = 0
        self.succeeded = 0  # members of this run that succeeded and left the cluster
        self.run = 0  # a run ends when no member is left: what succeeded in it does not count for later pods
        self._stages = [0] * len(Stage)
        self._rules = rules

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
            return Lack.PARENT
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

    def leave(self, member: Member) -> None:
        del self.members[member.uid]
        self._stages[member.stage] -= 1
        self.gated -= member.is_gated

    def move(self, member: Member, stage: Stage) -> None:
        self._stages[member.stage] -= 1
        self._stages[stage] += 1
        member.stage = stage

    def gate(self, member: Member, is_gated: bool) -> None:
        self.gated += is_gated - member.is_gated
        member.is_gated = is_gated


class Registry:
    """All gangs, by key, and their members, by the uid of their pod."""

    def __init__(self, doors: Doors, rules: GangRules) -> None:
        self.rules = rules
        self._doors = doors
        self._gangs: dict[GangKey, TrackedGang] = {}
        self.members: dict[str, Member] = {}  # pod uid -> member; changed here only
        self.on_members: Callable[[GangKey], None] = lambda key: None  # called when a gang gets or loses a member

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
        return tracked

    def refuse_gang(self, key: GangKey, fault: str) -> TrackedGang:
        """Record that the object of a gang makes no sense, and why."""
        tracked = self._track(key)
        tracked.gang, tracked.fault = None, fault
        return tracked

    def remove_gang(self, key: GangKey) -> TrackedGang | None:
        """Record that the object of a gang is gone. Returns the gang if it is known; it may have no members left."""
        tracked = self._gangs.get(key)
        if tracked is not None:
            tracked.gang, tracked.fault = None, ""
            self._drop_if_empty(tracked)
        return tracked

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
            tracked = self._gangs[key] = TrackedGang(key, self.rules)
        return tracked

    def _drop_if_empty(self, tracked: TrackedGang) -> None:
        if tracked.gang is None and not tracked.fault and not tracked.members:
            del self._gangs[tracked.key]

    def check(self) -> None:
        """Assert that gangs and members agree. O(members)."""
        by_gang = {uid: member for tracked in self for uid, member in tracked.members.items()}
        assert by_gang == self.members, f"gangs and members differ by {by_gang.keys() ^ self.members.keys()}"
        for key, tracked in self._gangs.items():
            members = tracked.members.values()
            assert tracked.key == key, f"{tracked.key} is tracked as {key}"
            assert all(member.tracked is tracked for member in members), f"a member of {key} says it is in another gang"
            for stage in Stage:
                counted = sum(member.stage is stage for member in members)
                assert tracked.count(stage) == counted, f"{key} counts {tracked.count(stage)} {stage}, has {counted}"
            gated = [member for member in members if member.is_gated]
            assert tracked.gated == len(gated), f"{key} counts {tracked.gated} gated members and has {len(gated)}"
            assert all(member.stage is Stage.QUEUED for member in gated), f"a gated member of {key} is not queued"
            assert tracked.gang is None or not tracked.fault, f"{key} has an object, and a fault"
            assert tracked.gang or tracked.fault or members, f"{key} is tracked for nothing"
