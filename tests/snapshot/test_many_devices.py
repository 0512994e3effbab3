"""As many devices and attributes as slices can have, on many nodes: memory and work are bounded, and mostly shared.

Measured once, with 10,000 nodes of 128 devices with 32 attributes each, which are 1.2 GB of JSON: the slices take
1.6 GiB (168 KiB a node; 761 KiB if nothing is shared), and 2.3 GiB after the devices that match an expression were
counted on all nodes. That took 152 s of CPU on a busy machine, 15 ms a node, in portions. When one slice changes,
reading it takes 18 ms and counting again 19 ms.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from types import FrameType

import pytest

from kscheduler.api.device_sharing import share_in_slice
from kscheduler.cel.selectors import selectors_for
from kscheduler.client.kinds import RESOURCE_SLICES
from kscheduler.client.wire import LineDecoder
from kscheduler.config.releases import DEFAULT_RELEASE
from kscheduler.devices.matching import DeviceQuery
from kscheduler.framework.cycle_state import CycleState
from kscheduler.snapshot.free_devices import FreeDevices
from kscheduler.testing import make_node
from tests.devices.building import DRIVER, devices, make_slice
from tests.framework.plugins.dynamicresources.bench import Bench, claim, pod_with

NODES, DEVICES, ATTRIBUTES = 20, 128, 32
A_NODE = 320 * 1024  # bytes; measured are 240 KiB
OF_FIRST = DeviceQuery((f'device.attributes["{DRIVER}"].index < 4',), ())


def line(node: int) -> bytes:
    """The watch line of a node's slice; of the attributes of its devices two differ."""
    attributes = {f"attribute-{number}": {"string": f"value-{number}"} for number in range(ATTRIBUTES - 2)}
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {**attributes, "uuid": {"string": f"GPU-{node:05}-{number:03}"}, "index": {"int": number}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(DEVICES)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"n{node}", "pool": pool, "devices": devices}
    metadata = {"name": f"n{node}", "uid": f"uid-{node}", "resourceVersion": str(node + 1)}
    document = {"type": "ADDED", "object": {"metadata": metadata, "spec": spec}}
    return json.dumps(document, separators=(",", ":")).encode()


class Cluster(Bench):
    """Nodes whose slices came over a watch."""

    def __init__(self) -> None:
        super().__init__(nodes=0, gpus=0)
        self._decode = LineDecoder(RESOURCE_SLICES)
        self.free = FreeDevices(self.cache.table, self.devices, DEFAULT_RELEASE, selectors_for(DEFAULT_RELEASE))

    def add_node(self, node: int) -> None:
        self.cache.set_node(make_node(f"n{node}").capacity(cpu="64").obj())
        event = self._decode(line(node))
        assert event is not None
        assert event.object is not None
        self.devices.set_slice(share_in_slice(event.object))

    def count_all(self) -> int:
        """Refresh the numbers of free devices until all of them are known; return their sum."""
        while True:
            (counts,) = self.free.refresh([OF_FIRST])
            rows = range(self.cache.table.columns.rows)
            if all(counts.certain(row) == counts.most(row) for row in rows):
                return sum(counts.certain(row) for row in rows)


def test_the_memory_of_a_node_with_128_devices_of_32_attributes_is_bounded() -> None:
    cluster = Cluster()
    cluster.add_node(0)
    assert cluster.count_all() == 4
    tracemalloc.start()
    try:
        for node in range(1, NODES):
            cluster.add_node(node)
        assert cluster.count_all() == 4 * NODES
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / (NODES - 1) < A_NODE


@pytest.mark.parametrize("gpus", [0, 1], ids=["nothing else", "devices of their own"])
def test_allocating_a_device_that_all_nodes_see_takes_as_many_calls_on_many_nodes_as_on_few(gpus: int) -> None:
    assert calls_for_a_pod(nodes=300, gpus=gpus) < calls_for_a_pod(nodes=30, gpus=gpus) + 30


def calls_for_a_pod(nodes: int, gpus: int) -> int:
    """The calls for preparing and reserving a pod that takes a device of the pool that all nodes see."""
    bench = Bench(nodes=nodes, gpus=gpus)
    bench.devices.set_slice(make_slice("net", devices(*(f"net{i}" for i in range(9))), pool="a", all_nodes=True))
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for number in range(3):  # the first one is judged on all nodes
        bench.add(claim(f"c{number}"))
        pod = pod_with(f"c{number}", name=f"p{number}")
        calls, before = 0, sys.getprofile()
        sys.setprofile(note)
        try:
            assert bench.plugin.prepare_claims(pod) is not None
            assert bench.plugin.reserve(CycleState(), pod, "n0") is None
        finally:
            sys.setprofile(before)
        allocation = bench.devices.pending_allocation(f"uid-c{number}")
        assert allocation is not None
        assert [each.pool for each in allocation.devices.results or ()] == ["a"]
    return calls
