"""What claims ask for, kept by their specs, equals what is computed for each claim by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.devices import DeviceClass, DeviceConstraint, DeviceRequest, ResourceClaim
from kscheduler.config.releases import DEFAULT_RELEASE
from kscheduler.devices.allocator import Allocator
from kscheduler.framework.plugins.dynamicresources import asked
from kscheduler.framework.plugins.dynamicresources.asked import Asked, AskedClaims
from kscheduler.snapshot.devices import Devices
from tests.devices.building import (
    FakeSelectors,
    alternative,
    first_available,
    make_claim,
    make_class,
    request,
    request_all,
    toleration,
)

REQUESTS: Sequence[DeviceRequest] = (
    request(),
    request("other"),
    request(count=2),
    request("req", 1, "has:model"),
    request("req", 1, tolerations=[toleration("broken")]),
    request_all(),
    first_available("req", alternative("a", 2), alternative("b")),
    first_available("req", alternative("a", 1), alternative("b")),
    request(device_class_name="missing"),
)
CONSTRAINTS = (None, [DeviceConstraint(match_attribute="example.com/numa")], [DeviceConstraint()])


@st.composite
def claims(draw: st.DrawFn) -> list[ResourceClaim]:
    found = []
    for number in range(draw(st.integers(1, 2))):
        requests = draw(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=2))
        claim = make_claim(*requests, name=f"{draw(st.sampled_from('xyz'))}{number}")
        devices = replace(claim.spec.devices, constraints=draw(st.sampled_from(CONSTRAINTS)))
        found.append(replace(claim, spec=replace(claim.spec, devices=devices)))
    return found


class World:
    def __init__(self) -> None:
        self.devices = Devices(DEFAULT_RELEASE)
        self.devices.set_class(make_class())
        self.known = AskedClaims(self.devices)

    def of(self, wanted: Sequence[ResourceClaim]) -> Asked | None:
        return self.known.of(wanted, self.allocator())

    def allocator(self) -> Allocator:
        devices = self.devices
        return Allocator(
            DEFAULT_RELEASE, devices.allocated, devices.classes, devices.slices, FakeSelectors(), draw_share_id=str
        )

    def computed(self, wanted: Sequence[ResourceClaim]) -> Asked | None:
        return AskedClaims(self.devices).of(wanted, self.allocator())


def shown(found: Asked | None) -> object:
    return None if found is None else (found.key, found.needs, found.only_need)


@settings(max_examples=60)
@given(st.lists(claims(), min_size=1, max_size=12))
def test_what_is_kept_is_what_would_be_found(pods: list[list[ResourceClaim]]) -> None:
    world = World()
    for wanted in pods:
        assert shown(world.of(wanted)) == shown(world.computed(wanted))


def test_claims_with_equal_specs_share_what_is_found_whatever_their_names() -> None:
    world = World()
    first = world.of([make_claim(request(), name="a")])
    assert first is not None
    assert world.of([make_claim(request(), name="b")]) is first
    assert world.of([make_claim(request(count=2), name="a")]) is not first
    assert world.of([make_claim(request(), name="a"), make_claim(request(), name="b")]) is not first


def test_a_class_that_changes_or_goes_is_heeded() -> None:
    world, wanted = World(), [make_claim(request())]
    before = world.of(wanted)
    assert before is not None
    world.devices.set_class(make_class("gpu", "has:model"))
    changed = world.of(wanted)
    assert changed is not None
    assert changed.key != before.key
    world.devices.remove_class("gpu")
    assert world.of(wanted) is None
    world.devices.set_class(make_class())
    assert shown(world.of(wanted)) == shown(before)


def test_a_missing_class_is_looked_for_again() -> None:
    world, wanted = World(), [make_claim(request(device_class_name="late"))]
    assert world.of(wanted) is None
    late: DeviceClass = make_class("late")
    world.devices.set_class(late)
    assert world.of(wanted) is not None


@pytest.mark.parametrize("odd", [request(count=1 << 70), request("\ud800")])
def test_what_specs_ask_for_that_no_apiserver_stores_is_found(odd: DeviceRequest) -> None:
    world, wanted = World(), [make_claim(odd)]
    for _ in range(2):
        found = world.of(wanted)
        assert found is not None
        assert shown(found) == shown(world.computed(wanted))


def test_only_so_many_specs_are_kept() -> None:
    world = World()
    for count in range(1, asked.MAX_KEPT + 10):
        world.of([make_claim(request(count=count))])
    assert len(world.known._known) <= asked.MAX_KEPT
