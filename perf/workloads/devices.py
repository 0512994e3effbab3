"""Devices for workloads with dynamic resources: what a driver publishes, and allocations of claims that no pod uses."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import msgspec

from kscheduler.api.devices import DeviceClass, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from kscheduler.api.objects import Node
from kscheduler.cel.selectors import selectors_for
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.slice_index import SliceIndex
from kscheduler.testing.controlplane import HarnessError
from perf.workloads.object_template import Object

SEED = 1


def node_slice(driver: str, node: str, devices: int) -> Object:
    """Return the only slice of a node's pool, with the attributes and capacity that scheduler_perf's driver has."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(devices)],
        },
    }


def _device(number: int) -> Object:
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


def allocations(
    *,
    nodes: Sequence[Object],
    slices: Sequence[Object],
    classes: Sequence[Object],
    claims: Sequence[Object],
    chosen: Sequence[Object],
    release: Release,
) -> Iterator[Object]:
    """Return each claim of `chosen` that has no allocation, with one. Raises HarnessError if a claim fits nowhere.

    `claims`: all claims, whose devices are in use. `release`: whose rules of allocation hold. The nodes are tried in a
    drawn order, the same in each run.
    """
    draw = random.Random(SEED)
    state = AllocatedState.of(_results(msgspec.convert(list(claims), list[ResourceClaim])), release)
    known = {each.metadata.name: each for each in msgspec.convert(list(classes), list[DeviceClass])}
    index = SliceIndex(release, msgspec.convert(list(slices), list[ResourceSlice]))
    candidates = msgspec.convert(list(nodes), list[Node])
    selectors, shares = selectors_for(release), itertools.count(1)
    for claim in chosen:
        if (claim.get("status") or {}).get("allocation"):
            continue
        wanted = msgspec.convert(claim, ResourceClaim)
        allocator = Allocator(
            release,
            state,
            known,
            index,
            selectors,
            draw_share_id=lambda: f"00000000-0000-4000-8000-{next(shares):012x}",
        )
        draw.shuffle(candidates)
        for node in candidates:
            if (results := allocator.allocate(node, [wanted])) is not None:
                break
        else:
            raise HarnessError(f"claim {wanted.key} cannot be allocated on any of {len(candidates)} nodes")
        for result in results[0].devices.results or ():
            state.add(result, release)
        yield {**claim, "status": {"allocation": msgspec.to_builtins(results[0])}}


def _results(claims: Sequence[ResourceClaim]) -> Iterator[DeviceRequestAllocationResult]:
    """Return all devices that are allocated to these claims."""
    for claim in claims:
        if claim.status.allocation is not None:
            yield from claim.status.allocation.devices.results or ()
