"""What holds for every allocation, looked for on generated clusters."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.devices import AllocationResult, Device, DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.objects import Node
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.allocator import AllocationError, Allocator, PoolError, SearchStopped
from kscheduler.devices.amounts import parse_amount
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    CLASS,
    RELEASES,
    Cluster,
    counter_set,
    device,
    make_claim,
    make_class,
    make_slice,
    request,
)
from tests.parity.devices.generate import generate

MOST_STEPS = 1000
SELECTORS = Selectors()
seeds = st.integers(0, 1 << 32)
releases = st.sampled_from(RELEASES)


class World:
    """A generated cluster and the claims of its pods."""

    def __init__(self, seed: int, release: Release) -> None:
        case = generate(seed, release.version)
        self.release = release
        self.nodes = msgspec.convert(case.cluster["nodes"], list[Node])
        self.slices = _decoded(case.cluster["resourceSlices"], list[ResourceSlice])
        self.pods = [_decoded(pod["claims"], list[ResourceClaim]) for pod in case.pending]
        classes = _decoded(case.cluster["deviceClasses"], list[DeviceClass])
        self._classes = {each.metadata.name: each for each in classes}

    def decide(
        self,
        pod: list[ResourceClaim],
        node: Node,
        slices: list[ResourceSlice] | SliceIndex,
        state: AllocatedState | None = None,
    ) -> list[AllocationResult] | str | None:
        """Return allocations, None, or the text of an error."""
        allocator = Allocator(
            self.release, state or AllocatedState(), self._classes, slices, SELECTORS, draw_share_id=lambda: "share"
        )
        steps = iter(range(MOST_STEPS))
        try:
            return allocator.allocate(node, pod, should_stop=lambda: next(steps, None) is None)
        except (AllocationError, PoolError, SearchStopped) as error:
            return str(error)


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


@given(seeds, releases)
@settings(max_examples=40, deadline=None)
def test_no_device_is_given_to_two_claims_unless_it_is_shared(seed: int, release: Release) -> None:
    world = World(seed, release)
    state = AllocatedState()
    taken: Counter[DeviceID] = Counter()
    for pod in world.pods:
        for node in world.nodes:
            found = world.decide(pod, node, world.slices, state)
            if not isinstance(found, list):
                continue
            for allocation in found:
                results = allocation.devices.results or []
                assert len(results) <= 32
                for result in results:
                    state.add(result, release)
                    if not result.admin_access and result.share_id is None:
                        taken[result.driver, result.pool, result.device] += 1
            break
    assert all(count == 1 for count in taken.values())


@given(seeds, releases)
@settings(max_examples=40, deadline=None)
def test_an_index_that_followed_changes_answers_as_one_made_at_once(seed: int, release: Release) -> None:
    world = World(seed, release)
    rng = random.Random(seed)
    index = SliceIndex(release)
    present: dict[str, ResourceSlice] = {}
    for _ in range(3):
        for published in rng.sample(world.slices, len(world.slices)):
            if rng.random() < 0.6:
                index.put(published)
                if published.metadata.name not in present:
                    present[published.metadata.name] = published
            elif rng.random() < 0.5:
                index.remove(published.metadata.name)
                present.pop(published.metadata.name, None)
        for node in world.nodes:
            for pod in world.pods:
                assert world.decide(pod, node, index) == world.decide(pod, node, list(present.values()))


# --- amounts ------------------------------------------------------------------------------------------------------

amounts = st.sampled_from(["0", "1", "250m", "2", "1500m", "3", "1Ki"])


@given(st.lists(amounts, min_size=1, max_size=4), st.lists(amounts, max_size=8), releases)
def test_shares_of_a_device_never_exceed_its_capacity(values: list[str], asked: list[str], release: Release) -> None:
    published = [
        device(f"d{i}", allow_multiple_allocations=True, capacity={"memory": value}) for i, value in enumerate(values)
    ]
    requests = [request(f"r{i}", capacity={"memory": amount}) for i, amount in enumerate(asked)]
    found = Cluster(release, [make_slice("s", published)]).allocate(make_claim(*requests))
    consumed: Counter[str] = Counter()
    for result in (found[0].devices.results or []) if found else []:
        consumed[result.device] += parse_amount((result.consumed_capacity or {})["memory"])
    for i, value in enumerate(values):
        assert consumed[f"d{i}"] <= parse_amount(value)
    if not found:
        assert sum(map(parse_amount, asked)) > 0


partitions = st.lists(st.tuples(amounts, amounts), min_size=1, max_size=6)


@given(amounts, amounts, partitions, st.integers(1, 4), st.sets(st.integers(0, 5)), releases)
def test_a_solution_is_found_exactly_if_some_devices_fit_the_counters(
    cores: str, memory: str, consumed: list[tuple[str, str]], count: int, used: set[int], release: Release
) -> None:
    """All combinations are tried by hand; devices in use have consumed their part."""
    published: list[Device] = [
        device(f"d{i}", consumes={"gpu": {"cores": each[0], "memory": each[1]}}) for i, each in enumerate(consumed)
    ]
    slices = [
        make_slice("c", slices=2, shared_counters=[counter_set("gpu", cores=cores, memory=memory)]),
        make_slice("d", published, slices=2),
    ]
    state = AllocatedState(devices={("gpu.example.com", "pool", f"d{i}") for i in used})
    found = Cluster(release, slices, state=state).chosen(make_claim(request("req", count)))
    free = [i for i in range(len(consumed)) if i not in used]
    gone = [i for i in used if i < len(consumed)]
    fitting = [
        each
        for each in _combinations(free, count)
        if all(
            sum(parse_amount(consumed[i][k]) for i in (*each, *gone)) <= parse_amount(total)
            for k, total in enumerate((cores, memory))
        )
    ]
    assert found == ([[f"d{i}" for i in fitting[0]]] if fitting else None)


def _combinations(members: list[int], count: int) -> list[tuple[int, ...]]:
    if count == 0:
        return [()]
    return [(first, *rest) for i, first in enumerate(members) for rest in _combinations(members[i + 1 :], count - 1)]


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=8), st.integers(1, 4), st.booleans(), releases)
def test_constraints_hold_among_the_chosen_devices(
    racks: list[str], count: int, is_match: bool, release: Release
) -> None:
    published = [device(f"d{i}", {"rack": rack}) for i, rack in enumerate(racks)]
    requests = [request(f"r{i}") for i in range(count)]
    attribute = ["gpu.example.com/rack"]
    claim = make_claim(*requests, match=attribute) if is_match else make_claim(*requests, distinct=attribute)
    found = Cluster(release, [make_slice("s", published)], [make_class(CLASS)]).chosen(claim)
    kinds = Counter(racks)
    assert (found is not None) == (max(kinds.values()) >= count if is_match else len(kinds) >= count)
    if found is not None:
        chosen = {racks[int(name[1:])] for name in found[0]}
        assert len(chosen) == (1 if is_match else count)
