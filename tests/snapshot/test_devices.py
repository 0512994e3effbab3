"""Claims as an assume cache, allocations in flight, slices with taints, and classes that back extended resources."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
)
from kscheduler.api.objects import ObjectMeta
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.errors import InternalError
from kscheduler.snapshot.devices import Devices
from tests.devices.building import DRIVER, devices, make_slice
from tests.framework.plugins.dynamicresources.bench import allocation, claim
from tests.support.devices import backing

GPU = "example.com/gpu"
BOTH = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())


class Seen:
    """A listener's arguments: whether the claim was and is allocated; None: there is no claim."""

    def __init__(self, known: Devices) -> None:
        self.changes: list[tuple[bool | None, bool | None]] = []
        known.watch_claims(lambda before, after: self.changes.append((is_allocated(before), is_allocated(after))))


def is_allocated(made: ResourceClaim | None) -> bool | None:
    return None if made is None else made.status.allocation is not None


def at(version: int, made: ResourceClaim) -> ResourceClaim:
    return replace(made, metadata=replace(made.metadata, resource_version=str(version)))


FREE, TAKEN = claim("c"), claim("c", allocation=allocation())


# --- claims -----------------------------------------------------------------------------------------------------


def test_an_assumed_claim_counts_until_the_watch_brings_a_newer_one() -> None:
    known = Devices()
    seen = Seen(known)
    known.set_claim(at(1, FREE))
    known.assume_claim(at(3, TAKEN))
    assert known.claim("default", "c") == at(3, TAKEN)
    assert known.reported_claim("default", "c") == at(1, FREE)
    known.set_claim(at(2, FREE))  # older than the write
    known.set_claim(at(3, TAKEN))  # the write itself
    assert is_allocated(known.claim("default", "c"))
    known.set_claim(at(4, FREE))
    assert not is_allocated(known.claim("default", "c"))
    assert seen.changes == [(None, False), (False, True), (True, False)]


def test_a_restored_claim_is_the_reported_one() -> None:
    known = Devices()
    known.set_claim(at(1, FREE))
    known.assume_claim(at(2, TAKEN))
    known.restore_claim("default", "c")
    assert known.claim("default", "c") == at(1, FREE)
    assert not known.allocated.devices
    known.assume_claim(at(2, TAKEN))
    known.set_claim(at(2, TAKEN))
    known.restore_claim("default", "c")
    assert is_allocated(known.claim("default", "c"))


def test_a_claim_that_is_unknown_or_older_cannot_be_assumed() -> None:
    known = Devices()
    with pytest.raises(InternalError, match="expected one that is known"):
        known.assume_claim(TAKEN)
    known.set_claim(at(5, FREE))
    with pytest.raises(InternalError, match="known in version 5, to be assumed in version 4"):
        known.assume_claim(at(4, TAKEN))


def test_a_list_that_brings_a_claim_again_is_no_change_and_a_state_restored_from_a_backup_is_one() -> None:
    known = Devices()
    known.set_claim(at(5, TAKEN))
    seen = Seen(known)
    known.set_claim(at(5, TAKEN))
    assert seen.changes == []
    known.set_claim(at(2, FREE))
    assert seen.changes == [(True, False)]
    assert not known.allocated.devices


def test_a_deleted_claim_frees_its_devices() -> None:
    known = Devices()
    known.set_claim(TAKEN)
    assert known.allocated.devices == {(DRIVER, "n0", "g0")}
    seen = Seen(known)
    known.remove_claim("default", "c")
    known.remove_claim("default", "c")
    assert seen.changes == [(True, None)]
    assert not known.allocated.devices


# --- in flight --------------------------------------------------------------------------------------------------


@BOTH
def test_devices_are_in_use_while_their_allocation_is_in_flight_and_after_it_is_written(release: Release) -> None:
    known = Devices(release)
    known.set_claim(at(1, FREE))
    known.begin_allocation("uid-c", TAKEN)
    assert known.pending_allocation("uid-c") == TAKEN.status.allocation
    assert known.allocated.devices == {(DRIVER, "n0", "g0")}
    known.assume_claim(at(2, TAKEN))
    assert known.end_allocation("uid-c", for_all=False)
    assert not known.end_allocation("uid-c", for_all=False)
    assert known.allocated.devices == {(DRIVER, "n0", "g0")}
    known.set_claim(at(3, FREE))
    assert not known.allocated.devices


def test_an_allocation_that_several_decisions_rely_on_ends_with_the_last() -> None:
    known = Devices()
    known.set_claim(FREE)
    for _ in range(3):
        known.begin_allocation("uid-c", TAKEN)
    assert not known.end_allocation("uid-c", for_all=False)
    assert not known.end_allocation("uid-c", for_all=False)
    assert known.in_flight == {"uid-c"}
    assert known.end_allocation("uid-c", for_all=False)
    known.begin_allocation("uid-c", TAKEN)
    known.begin_allocation("uid-c", TAKEN)
    assert known.end_allocation("uid-c", for_all=True)
    assert not known.allocated.devices


def test_a_claim_that_is_allocated_by_now_is_not_kept_in_flight_where_the_release_looks_again() -> None:
    for release, kept in ((RELEASE_1_36, True), (RELEASE_1_37, False)):
        known = Devices(release)
        known.set_claim(TAKEN)
        known.begin_allocation("uid-c", TAKEN)
        assert ("uid-c" in known.in_flight) is kept


def test_without_an_allocation_nothing_is_in_flight() -> None:
    with pytest.raises(InternalError, match="expected an allocation"):
        Devices().begin_allocation("uid-c", FREE)


# --- slices and taint rules -------------------------------------------------------------------------------------


def rule(name: str, **selector: str | None) -> DeviceTaintRule:
    chosen = DeviceTaintSelector(**selector) if selector else None
    return DeviceTaintRule(ObjectMeta(name=name), DeviceTaintRuleSpec(chosen, DeviceTaint(name, "", "NoSchedule")))


def test_rules_taint_the_devices_of_slices_that_come_before_and_after_them() -> None:
    known = Devices(RELEASE_1_37)
    first, second = make_slice("a", devices("g0", "g1")), make_slice("b", devices("g0"), pool="other")
    assert known.set_slice(first) == (None, first)
    [(before, after)] = known.set_taint_rule(rule("bad", pool="pool", device="g1"))
    assert before == first
    assert after is not None
    assert [bool(each.taints) for each in after.spec.devices or ()] == [False, True]
    assert known.set_slice(second) == (None, second)
    assert known.set_taint_rule(rule("bad", pool="pool", device="g1")) == []
    changed = known.set_taint_rule(rule("bad", pool="other"))
    assert [old and old.metadata.name for old, _ in changed] == ["a", "b"]
    assert [new for _, new in known.remove_taint_rule("bad")] == [second]
    assert known.remove_taint_rule("bad") == []
    assert known.remove_slice("a") == (first, None)
    assert len(known.slices) == 1


# --- extended resources -----------------------------------------------------------------------------------------


def test_a_class_backs_the_resource_it_names_and_one_of_its_own_name() -> None:
    known = Devices()
    known.set_class(backing("a", GPU))
    known.set_class(backing("b"))
    own = {f"deviceclass.resource.kubernetes.io/{name}" for name in "ab"}
    assert known.resources == {GPU, *own}
    generation = known.resources_generation
    known.remove_class("a")
    assert known.resources == {"deviceclass.resource.kubernetes.io/b"}
    assert known.resources_generation > generation


def test_of_two_classes_for_one_resource_the_newer_counts_or_the_first_by_name() -> None:
    def chosen(*classes: tuple[str, str]) -> tuple[str, list[str]]:
        known = Devices()
        for name, created in classes:
            known.set_class(backing(name, GPU, created))
        found = known.class_of_resource(GPU)
        assert found is not None
        return found.metadata.name, sorted(each.rpartition("/")[2] for each in known.resources if each != GPU)

    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    assert chosen(("a", old), ("b", new)) == ("b", ["a", "b"])
    # The class that loses against one that came before has no resource at all.
    assert chosen(("b", new), ("a", old)) == ("b", ["b"])
    assert chosen(("a", old), ("b", old)) == ("a", ["a"])
    assert chosen(("b", old), ("a", old)) == ("a", ["a", "b"])


def test_a_class_that_changes_its_resource_leaves_the_old_one() -> None:
    known = Devices()
    known.set_class(backing("a", GPU))
    known.set_class(backing("a", "example.com/other"))
    assert GPU not in known.resources
    known.set_class(backing("a"))
    assert known.resources == {"deviceclass.resource.kubernetes.io/a"}
