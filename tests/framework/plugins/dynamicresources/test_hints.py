"""Which events about claims and pods are worth another attempt."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    NodeAllocatableMapping,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
    ResourceClaim,
)
from kscheduler.config.releases import Release, release_of
from kscheduler.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, EventResource, Registration, matches
from kscheduler.framework.plugins.dynamicresources.hints import BY_CLAIMS
from kscheduler.snapshot.pod_info import PodInfo
from tests.devices.building import device, make_class, make_slice, request
from tests.framework.plugins.dynamicresources.bench import Bench, allocation, claim, pod_with, reserved_for

FREE, TAKEN = claim("c"), claim("c", allocation=allocation())
OTHER, OTHER_TAKEN = claim("other"), claim("other", allocation=allocation())
WAITING = pod_with("c")


def after(old: ResourceClaim | None, new: ResourceClaim | None, pod: PodInfo = WAITING) -> bool:
    """The hint's answer, with the claims as they are after the event."""
    bench = Bench()
    bench.add(FREE)
    for changed in (old, new):
        if changed is not None:
            bench.devices.set_claim(changed)
    if new is None and old is not None:
        bench.devices.remove_claim(old.metadata.namespace, old.metadata.name)
    hint = bench.plugin._hints.after_claim(pod.pod, old, new)
    index = BY_CLAIMS.index
    assert index is not None
    narrowed = index()
    narrowed.add(BY_CLAIMS.key(pod))
    if hint:
        assert BY_CLAIMS.key(pod) in list(narrowed.find(old, new))
    return hint


def version(made: ResourceClaim, number: int = 1_000) -> ResourceClaim:
    return replace(made, metadata=replace(made.metadata, resource_version=str(number)))


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, FREE, True),  # the pod's own claim was created
        (None, OTHER, False),
        (FREE, TAKEN, True),  # its status changed
        (FREE, FREE, False),  # it did not
        (OTHER, OTHER_TAKEN, False),
        (OTHER_TAKEN, OTHER, True),  # devices are free now
        (TAKEN, FREE, True),
        (OTHER_TAKEN, None, True),
        (OTHER, None, False),
    ],
)
def test_a_claim_helps_if_it_is_the_pods_own_or_frees_devices(
    old: ResourceClaim | None, new: ResourceClaim | None, helps: bool
) -> None:
    numbers = itertools.count(1_000)
    assert after(old and version(old, next(numbers)), new and version(new, next(numbers))) is helps


def test_devices_that_become_free_do_not_help_a_pod_whose_claims_are_not_there() -> None:
    assert not after(version(OTHER_TAKEN), version(OTHER, 1_001), pod_with("c", "missing"))


def test_reservations_of_its_claim_concern_a_pod() -> None:
    used = claim("c", allocation=allocation(), reserved_for=reserved_for("uid-other"))
    assert after(version(TAKEN), version(used, 1_001))


def test_a_pod_is_tried_again_once_all_its_claims_are_named() -> None:
    bench = Bench()
    hint = bench.plugin._hints.after_pod
    named = pod_with(templates=[("t", "c")]).pod
    unnamed = replace(named, status=replace(named.status, resource_claim_statuses=None))
    assert not hint(unnamed, unnamed, unnamed)
    assert not hint(unnamed, unnamed, named)  # the claim itself is not there yet
    bench.add(claim("c", owner="uid-p"))
    assert hint(unnamed, unnamed, named)
    assert not hint(pod_with(name="another").pod, unnamed, named)


def test_pods_with_equal_keys_wait_for_the_same_claims() -> None:
    assert BY_CLAIMS.key(pod_with("c")) == BY_CLAIMS.key(pod_with("c", name="q"))
    own = [pod_with(name=name, templates=[("t", "c")]) for name in "pq"]
    assert BY_CLAIMS.key(own[0]) != BY_CLAIMS.key(own[1])  # one of them may not own the claim


def test_deleted_claims_requeue_pods_in_the_newer_release_only(release: Release) -> None:
    registered = [
        each.event if isinstance(each, Registration) else each for each in Bench(release).plugin.events_to_register()
    ]

    def is_registered(resource: EventResource, action: Action) -> bool:
        return any(matches(event, ClusterEvent(resource, action)) for event in registered)

    assert is_registered(EventResource.RESOURCE_CLAIM, Action.DELETE) == (release.version != "1.36")
    assert is_registered(EventResource.RESOURCE_CLAIM, Action.ADD)
    assert is_registered(EventResource.RESOURCE_SLICE, Action.UPDATE)
    assert is_registered(EventResource.DEVICE_CLASS, Action.ADD)
    assert is_registered(EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
    assert not is_registered(EventResource.RESOURCE_SLICE, Action.DELETE)
    assert not is_registered(EventResource.NODE, Action.UPDATE_NODE_CONDITION)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_room_that_a_pod_leaves_helps_those_whose_devices_may_take_some(version: str) -> None:
    release = release_of(version).with_gates({"DRANodeAllocatableResources": True})
    bench = Bench(release, gpus=0)
    takes = (
        {"cpu": NodeAllocatableResourceMapping(None, "1")},
        {"cpu": NodeAllocatableResource(NodeAllocatableMapping(None, None, "1"))},
    )
    cores = device("c", {"kind": "c"}, node_allocatable_resource_mappings=takes[0], node_allocatable_resources=takes[1])
    for kind in "gc":
        bench.devices.set_class(make_class(kind, f"kind={kind}"))
        bench.add(claim(kind, request(device_class_name=kind)))
    hint = bench.plugin._after_room
    waiting, gone = pod_with("c").pod, pod_with(name="gone").pod
    assert not hint(waiting, gone, None)  # there is no such device yet
    bench.devices.set_slice(make_slice("n0", [device("g", {"kind": "g"}), cores], node_name="n0", pool="n0"))
    assert hint(waiting, gone, None)
    assert hint(pod_with("g", "c").pod, gone, None)
    assert hint(pod_with(example_com__gpu="1").pod, gone, None)  # devices may back it
    assert not hint(pod_with("g").pod, gone, None)
    assert not hint(pod_with("c", "missing").pod, gone, None)
    with_claim = pod_with("g", name="other").pod
    assert not hint(waiting, with_claim, None)  # its claim will say when its devices are free
    assert hint(waiting, with_claim, with_claim)  # it has shrunk
    registered = [each.event for each in bench.plugin.events_to_register() if isinstance(each, Registration)]
    assert ASSIGNED_POD_DELETE in registered
    assert ASSIGNED_POD_DELETE not in [
        each.event for each in Bench(release_of(version)).plugin.events_to_register() if isinstance(each, Registration)
    ]
