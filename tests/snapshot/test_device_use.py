"""The devices in use, followed step by step, are those that a count of all allocations gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.devices import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from kscheduler.api.objects import QuantityMap
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.devices.allocated import AllocatedState
from kscheduler.snapshot.device_use import DeviceUse

SIZES = ("1Gi", "500M", "3")


def result(device: str, share: str | None, size: str | None, *, admin: bool = False) -> DeviceRequestAllocationResult:
    capacity: QuantityMap | None = {"memory": size} if size is not None and share is not None else None
    return DeviceRequestAllocationResult(
        "r", "d", "p", device, admin_access=admin or None, share_id=share, consumed_capacity=capacity
    )


def made(*results: DeviceRequestAllocationResult) -> AllocationResult:
    return AllocationResult(DeviceAllocationResult(list(results)))


# Each allocation has devices of its own, or shares of its own of common ones, as the allocator gives them.
KINDS = st.sampled_from(["own", "share", "admin"])
ALLOCATIONS = st.lists(st.tuples(KINDS, st.sampled_from(SIZES)), min_size=1, max_size=6)
STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["begin", "end", "allocate", "deallocate"])), max_size=30)


def of_kind(index: int, kind: str, size: str) -> AllocationResult:
    if kind == "own":
        return made(result(f"own-{index}", None, None))
    if kind == "admin":
        return made(result("watched", None, None, admin=True))
    return made(result("common", f"share-{index}", size))


@given(ALLOCATIONS, STEPS)
def test_what_is_followed_equals_a_count_of_everything(
    kinds: list[tuple[str, str]], steps: list[tuple[int, str]]
) -> None:
    allocations = [of_kind(index, kind, size) for index, (kind, size) in enumerate(kinds)]
    use = DeviceUse(by_shares=True)
    flying, written = set[int](), set[int]()
    for index, step in steps:
        if index >= len(allocations):
            continue
        allocation = allocations[index]
        if step == "begin" and index not in flying:
            use.begin(allocation)
            flying.add(index)
        elif step == "end" and index in flying:
            use.end(allocation)
            flying.discard(index)
        elif step == "allocate" and index not in written:
            use.allocate(allocation)
            written.add(index)
        elif step == "deallocate" and index in written:
            use.deallocate(allocation)
            written.discard(index)
        # An allocation that is written and in flight consumes its capacity twice, as in kube-scheduler.
        counted = [each for place in (*flying, *written) for each in allocations[place].devices.results or ()]
        expected = AllocatedState.of(counted, RELEASE_1_37)
        assert use.total.devices == expected.devices
        assert use.total.shares == expected.shares
        assert use.total.capacity == expected.capacity


def test_without_consumable_capacity_shares_are_whole_devices() -> None:
    use = DeviceUse(by_shares=False)
    use.allocate(made(result("g", "s", "1Gi")))
    assert (use.total.devices, use.total.shares, use.total.capacity) == ({("d", "p", "g")}, set(), {})


def test_amounts_that_cannot_be_read_count_as_nothing() -> None:
    use = DeviceUse(by_shares=True)
    use.allocate(made(result("g", "s", "much")))
    assert use.total.shares == {(("d", "p", "g"), "s")}
    use.deallocate(made(result("g", "s", "much")))
    assert not use.total.capacity


@given(ALLOCATIONS, STEPS)
def test_the_log_has_each_device_whose_use_changes_and_no_dedicated_one_that_stays_as_it_was(
    kinds: list[tuple[str, str]], steps: list[tuple[int, str]]
) -> None:
    allocations = [of_kind(index, kind, size) for index, (kind, size) in enumerate(kinds)]
    use = DeviceUse(by_shares=True)
    held: dict[tuple[int, bool], bool] = {}  # (allocation, is it one in flight) -> is it counted now
    for index, step in steps:
        begins, flies = step in ("begin", "allocate"), step in ("begin", "end")
        if index >= len(allocations) or held.get((index, flies), False) is begins:
            continue
        held[index, flies] = begins
        before, seen = set(use.total.devices), use.changes.count
        getattr(use, step)(allocations[index])
        logged = use.changes.since(seen) or []
        if kinds[index][0] == "share":
            assert [device for _, _, device in logged] == ["common"]
        else:
            assert set(logged) == before ^ use.total.devices


def test_the_way_of_a_claim_from_the_decision_to_the_written_allocation_is_one_change() -> None:
    use, allocation = DeviceUse(by_shares=True), of_kind(0, "own", "3")
    use.begin(allocation)
    seen = use.changes.count
    use.allocate(allocation)  # by the answer to the write
    use.end(allocation)
    assert use.changes.count == seen
    use.deallocate(allocation)
    assert use.changes.since(seen) == [("d", "p", "own-0")]
