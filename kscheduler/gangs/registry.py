"""The gangs that the scheduler knows, by key, and their members, by the uid of their pod.

A gang is tracked as long as its object or one of its members exists, whichever comes first. A member that leaves the
cluster leaves its gang; that it had succeeded is counted as soon as it is known (`add_success`). Every method costs
O(1), unless a composite group gets another parent. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kscheduler.api.objects import Pod
from kscheduler.gangs.doors import Doors
from kscheduler.gangs.gang import COMPOSITE_API, Gang, GangKey
from kscheduler.gangs.rules import GangRules
from kscheduler.gangs.tracked_gang import Member, Stage, TrackedGang, TrackedTree


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
        """Record that the object of a gang is invalid, and why."""
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
