"""The registry knows of each gang whether it can be tried, whatever comes first: its object or its pods."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import UPSTREAM_1_36, UPSTREAM_1_37, WHOLE, GangRules
from kscheduler.gangs.texts import lack
from kscheduler.gangs.tracked_gang import Lack, Stage, TrackedGang
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.builders import DOORS, gang, key_of, pod

RULES = [UPSTREAM_1_36, UPSTREAM_1_37, WHOLE]


def registry(rules: GangRules = WHOLE) -> Registry:
    return Registry(DOORS, rules)


def lack_of(tracked: TrackedGang) -> Lack | None:
    """What the gang lacks now; a call, so that type checkers do not remember the last answer."""
    return tracked.lack


def is_broken(tracked: TrackedGang) -> bool:
    """Whether the gang is broken now; a call for the same reason."""
    return tracked.is_broken


def add(known: Registry, name: str, of: str, stage: Stage = Stage.QUEUED) -> TrackedGang:
    _, tracked = known.set_member(pod(name, of).pod, stage)
    assert tracked is not None
    return tracked


def test_a_pod_without_a_gang_is_not_tracked() -> None:
    known = registry()
    assert known.set_member(pod("a").pod, Stage.QUEUED) == (None, None)
    assert len(known) == 0
    assert known.move("uid-default-a", Stage.BOUND) is None
    assert known.set_gated("uid-default-a", True) is None
    assert known.remove_member("uid-default-a") is None


def test_pods_wait_for_their_object_and_an_object_for_its_pods() -> None:
    known = registry()
    tracked = add(known, "a", "train")
    assert lack_of(tracked) is Lack.OBJECT
    known.set_gang(gang("train", 2))
    assert lack_of(tracked) is Lack.MEMBERS
    add(known, "b", "train")
    assert lack_of(tracked) is None
    assert tracked.missing == 2

    other = registry()
    first = other.set_gang(gang("train", 2))
    assert lack_of(first) is Lack.MEMBERS
    add(other, "a", "train")
    assert add(other, "b", "train") is first
    assert lack_of(first) is None


def test_an_object_that_makes_no_sense_holds_its_pods_until_it_is_mended() -> None:
    known = registry()
    tracked = add(known, "a", "train")
    known.refuse_gang(key_of("train"), "spec.minMember: expected a number, got -1")
    assert lack_of(tracked) is Lack.FAULT
    assert "spec.minMember: expected a number, got -1" in lack(tracked)
    known.set_gang(gang("train", 1))
    assert lack_of(tracked) is None


def test_a_gang_without_object_and_pods_is_forgotten() -> None:
    known = registry()
    known.set_gang(gang("train", 1))
    add(known, "a", "train")
    known.remove_gang(key_of("train"))
    assert known.get(key_of("train")) is not None
    known.remove_member("uid-default-a")
    assert known.get(key_of("train")) is None
    assert known.remove_gang(key_of("train")) is None
    known.refuse_gang(key_of("bad"), "no")
    known.remove_gang(key_of("bad"))
    assert len(known) == 0


def test_what_is_wrong_with_an_object_is_known_to_pods_that_come_after_all_others_have_left() -> None:
    known = registry()
    known.refuse_gang(key_of("train"), "spec.minMember: expected a number, got -1")
    add(known, "a", "train")
    known.remove_member("uid-default-a")
    assert lack_of(add(known, "b", "train")) is Lack.FAULT


def test_a_gang_with_fewer_placed_pods_than_its_minimum_is_broken() -> None:
    known = registry()
    tracked = known.set_gang(gang("train", 2))
    add(known, "a", "train")
    add(known, "b", "train")
    assert not is_broken(tracked)
    known.move("uid-default-a", Stage.BOUND)
    assert is_broken(tracked)
    assert tracked.missing == 1
    known.move("uid-default-b", Stage.ASSUMED)
    assert not is_broken(tracked)
    known.set_gang(gang("train", 3))  # the minimum may be raised
    assert is_broken(tracked)


def test_a_basic_group_is_never_broken_and_never_lacks_pods() -> None:
    known = registry()
    tracked = known.set_gang(gang("train", 1, is_basic=True))
    assert lack_of(tracked) is None
    add(known, "a", "train", Stage.BOUND)
    assert not is_broken(tracked)


@pytest.mark.parametrize(("rules", "expected"), [(WHOLE, False), (UPSTREAM_1_37, True)])
def test_members_that_have_succeeded_count_as_placed_by_our_rules(rules: GangRules, expected: bool) -> None:
    known = registry(rules)
    tracked = known.set_gang(gang("train", 2))
    add(known, "a", "train", Stage.BOUND)
    add(known, "b", "train", Stage.BOUND)
    run = tracked.run
    known.remove_member("uid-default-b")
    assert known.add_success(tracked, run)
    assert tracked.is_broken is expected
    assert tracked.succeeded == 1


def test_what_has_succeeded_counts_until_no_member_is_left() -> None:
    known = registry()
    tracked = known.set_gang(gang("train", 3))
    for name in "abc":
        add(known, name, "train", Stage.BOUND)
    first_run = tracked.run
    known.remove_member("uid-default-a")
    assert known.add_success(tracked, first_run)
    assert (tracked.placed, tracked.missing) == (3, 0)
    known.remove_member("uid-default-b")
    known.remove_member("uid-default-c")
    assert not known.add_success(tracked, first_run), "the run is over"
    add(known, "d", "train", Stage.QUEUED)
    assert (tracked.placed, tracked.missing, tracked.lack) == (0, 3, Lack.MEMBERS)


@pytest.mark.parametrize(("rules", "expected"), [(WHOLE, Lack.MEMBERS), (UPSTREAM_1_37, Lack.GATES)])
def test_gated_members_hold_a_gang_back_by_the_rules(rules: GangRules, expected: Lack | None) -> None:
    known = registry(rules)
    tracked = known.set_gang(gang("train", 2))
    add(known, "a", "train")
    add(known, "b", "train")
    known.set_gated("uid-default-b", True)
    assert lack_of(tracked) is expected
    add(known, "c", "train")
    assert lack_of(tracked) is (Lack.GATES if rules.waits_for_gated else None)
    known.set_gated("uid-default-b", False)
    assert lack_of(tracked) is None


def test_a_pod_that_names_another_gang_leaves_its_first_one() -> None:
    known = registry()
    first = add(known, "a", "train")
    second = known.set_gang(gang("serve", 1))
    assert known.set_member(pod("a", "serve").pod, Stage.QUEUED) == (first, second)
    assert known.get(key_of("train")) is None, "nobody is left in it"
    assert lack_of(second) is None
    assert known.set_member(pod("a").pod, Stage.QUEUED) == (second, None)
    assert not known.members
    assert lack_of(second) is Lack.MEMBERS


def test_a_member_of_a_composite_group_is_held_back_with_a_reason() -> None:
    known = registry()
    tracked = known.set_gang(gang("train", 1, parent="job"))
    add(known, "a", "train")
    assert lack_of(tracked) is Lack.PARENT
    assert 'composite group "job"' in lack(tracked)


def test_what_a_gang_lacks_is_reported_with_numbers() -> None:
    known = registry()
    tracked = add(known, "a", "train")
    assert lack(tracked) == ("gang default/train waits for its PodGroup of scheduling.x-k8s.io, which does not exist")
    known.set_gang(gang("train", 4))
    assert lack(tracked) == "gang default/train waits for pods: 1 of at least 4"
    add(known, "b", "train")
    known.set_gated("uid-default-b", True)
    assert lack(tracked) == "gang default/train waits for pods: 1 of at least 4, 1 more gated"
    known.set_gang(gang("train", 1))
    assert lack(tracked) == ""


# --- any interleaving -------------------------------------------------------------------------------------------

GANGS = st.sampled_from(["", "red", "blue", "green"])
NAMES = st.sampled_from([f"p{i}" for i in range(8)])
STAGES = st.sampled_from(Stage)


class RegistryMachine(RuleBasedStateMachine):
    """Objects and pods come, change and go in any order; a plain list of facts must say the same of every gang."""

    @initialize(rules=st.sampled_from(RULES))
    def start(self, rules: GangRules) -> None:
        self.how = rules
        self.known = registry(rules)
        self.objects: dict[str, int | str] = {}  # gang -> its minimum, 0 for a basic one; or its fault
        self.pods: dict[str, tuple[PodInfo, str, Stage, bool]] = {}  # uid -> pod, gang, stage, is it gated
        self.succeeded: dict[str, int] = {}

    def names_gang(self, name: str) -> bool:
        return name in self.objects or any(of == name for _, of, _, _ in self.pods.values())

    def forget_succeeded(self) -> None:
        """Forget what has succeeded in gangs of which no member is left."""
        named = {of for _, of, _, _ in self.pods.values()}
        self.succeeded = {name: number for name, number in self.succeeded.items() if name in named}

    @rule(name=GANGS.filter(bool), least=st.integers(0, 4))
    def set_object(self, name: str, least: int) -> None:
        self.objects[name] = least
        self.known.set_gang(gang(name, max(least, 1), is_basic=least == 0))

    @rule(name=GANGS.filter(bool))
    def refuse_object(self, name: str) -> None:
        self.objects[name] = "nonsense"
        self.known.refuse_gang(key_of(name), "nonsense")

    @rule(name=GANGS.filter(bool))
    def remove_object(self, name: str) -> None:
        is_known = self.names_gang(name)
        self.objects.pop(name, None)
        assert (self.known.remove_gang(key_of(name)) is not None) is is_known
        self.forget_succeeded()

    @rule(name=NAMES, of=GANGS, stage=STAGES)
    def set_pod(self, name: str, of: str, stage: Stage) -> None:
        new = pod(name, of)
        old = self.pods.pop(new.uid, None)
        if of:
            is_gated = old is not None and old[1] == of and old[3] and stage is Stage.QUEUED
            self.pods[new.uid] = new, of, stage, is_gated
        left, joined = self.known.set_member(new.pod, stage)
        assert (joined is None) is (not of)
        assert (left is not None) is (old is not None and old[1] != of)
        self.forget_succeeded()

    @rule(name=NAMES, stage=STAGES)
    def move(self, name: str, stage: Stage) -> None:
        uid = f"uid-default-{name}"
        moved = self.known.move(uid, stage)
        assert (moved is not None) is (uid in self.pods)
        if uid in self.pods:
            same, of, _, is_gated = self.pods[uid]
            self.pods[uid] = same, of, stage, is_gated and stage is Stage.QUEUED

    @rule(name=NAMES, is_gated=st.booleans())
    def gate(self, name: str, is_gated: bool) -> None:
        uid = f"uid-default-{name}"
        self.known.set_gated(uid, is_gated)
        if uid in self.pods:
            same, of, stage, _ = self.pods[uid]
            self.pods[uid] = same, of, stage, is_gated and stage is Stage.QUEUED

    @rule(name=NAMES, has_succeeded=st.booleans())
    def remove_pod(self, name: str, has_succeeded: bool) -> None:
        uid = f"uid-default-{name}"
        gone = self.pods.pop(uid, None)
        member = self.known.members.get(uid)
        run = 0 if member is None else member.tracked.run
        left = self.known.remove_member(uid)
        assert (left is not None) is (gone is not None)
        if left is not None and gone is not None and has_succeeded and self.known.add_success(left, run):
            self.succeeded[gone[1]] = self.succeeded.get(gone[1], 0) + 1
        self.forget_succeeded()

    @invariant()
    def the_registry_says_what_the_facts_say(self) -> None:
        if not hasattr(self, "known"):
            return
        self.known.check()
        assert {tracked.key.name for tracked in self.known} == {
            name for name in ("red", "blue", "green") if self.names_gang(name)
        }
        for tracked in self.known:
            self.check_gang(tracked)

    def check_gang(self, tracked: TrackedGang) -> None:
        name, rules = tracked.key.name, self.how
        mine = [(stage, gated) for _, of, stage, gated in self.pods.values() if of == name]
        succeeded = self.succeeded.get(name, 0) if rules.counts_succeeded else 0
        placed = succeeded + sum(stage in (Stage.ASSUMED, Stage.BOUND) for stage, _ in mine)
        there = succeeded + sum(rules.counts_gated or not gated for _, gated in mine)
        facts = self.objects.get(name)
        if facts is None:
            expected: Lack | None = Lack.OBJECT
        elif isinstance(facts, str):
            expected = Lack.FAULT
        elif there < facts:
            expected = Lack.MEMBERS
        else:
            expected = Lack.GATES if rules.waits_for_gated and any(gated for _, gated in mine) else None
        assert tracked.lack is expected
        assert bool(lack(tracked)) is (expected is not None)
        assert tracked.placed == placed
        assert tracked.is_broken is (isinstance(facts, int) and 0 < placed < facts)
        if isinstance(facts, int):
            assert tracked.missing == max(max(facts, 1) - placed, 0)


RegistryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegistryMachine = pytest.mark.slow(RegistryMachine.TestCase)
