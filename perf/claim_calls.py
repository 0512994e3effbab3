"""Counts the calls of Python functions for a pod that gets a device, on the cluster in memory.

    python -m perf.claim_calls
    python -m perf.claim_calls --load extended --nodes 500 --pods 500 --most 60

Loads: each pod has a ResourceClaim made from a template; five pods share a claim, as in SchedulingWithResourceClaim; or
each pod requests an extended resource that a class backs. Or claims from templates have selectors, alternatives, two
devices of one model, a partition of a device with counters, shares of two devices as in ConsumableCapacity, or all
devices of a node. Or ten nodes have a pool in common, whose devices name their nodes one by one, and pods ask for one
device or for two of one model; or for one device, while each tenth pod finds the pool of other nodes changed.
Counted is all that the scheduler does for a pod from the watch to the confirmed binding, with its claim's events and
writes. The simulated apiserver and its controllers are left out. Time plays a small part in it: a burst may be decided
in more or fewer batches, which changes the sum by a few per cent.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import enum
import sys
from collections import Counter
from collections.abc import Sequence
from types import CodeType
from typing import Any

import uvloop
import yaml

from kscheduler.client.kinds import PODS
from perf.counted import name_of
from perf.workloads.devices import node_slice
from perf.workloads.embedded_cluster import EmbeddedCluster

DRIVER = "gpu.example.com"
DEVICES = 10  # of a node
SHARED_DEVICES = 4  # of a node, of which each has room for as many shares
NODES_OF_RACK = 10  # which have a pool in common
FIRST_PODS = 10  # before those that are counted, so that selectors and classes are known

# Parts of the apiserver in memory and of this program.
_OTHERS = ("simulator/", "workloads/", "perf/", "client/merge_patch.py", "api/decode.py", "input/", "api/defaults.py")
_HELPERS = ("api/objects.py", "api/sharing.py", "client/times.py", "python3", "<string>")
_NODE = {
    "metadata": {"name": ""},
    "status": {part: {"cpu": "64", "memory": "256Gi", "pods": "110"} for part in ("capacity", "allocatable")},
}
_CLASS: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
_CLASS_OF_RESOURCE = {
    "metadata": {"name": "gpu-resource"},
    "spec": {**_CLASS["spec"], "extendedResourceName": "example.com/gpu"},
}
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
_MODEL = f'device.attributes["{DRIVER}"].model == "A100"'
_NUMBER = "dra.example.com/numa"  # an attribute that no two devices of a node have in common
_MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi"))'


def _exactly(count: int, *expressions: str) -> dict[str, Any]:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return asked | {"selectors": [{"cel": {"expression": each}} for each in expressions]}


# What each pod's claim asks for, where that is no single device of the class.
_DEVICES: dict[str, dict[str, Any]] = {
    "selecting": {"requests": [{"name": "gpu", "exactly": _exactly(1, _MODEL, f"{_MEMORY} >= 0")}]},
    "alternatives": {
        "requests": [
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "larger", **_exactly(1, f"{_MEMORY} > 0")},
                    {"name": "any", **_exactly(1)},
                ],
            }
        ]
    },
    "matching": {
        "requests": [{"name": "one", "exactly": _exactly(1)}, {"name": "other", "exactly": _exactly(1)}],
        "constraints": [{"matchAttribute": f"{DRIVER}/model"}],
    },
    "shares": {
        "requests": [{"name": "gpu", "exactly": {**_exactly(2), "capacity": {"requests": {"bandwidth": "2500M"}}}}],
        "constraints": [{"distinctAttribute": _NUMBER, "requests": ["gpu"]}],
    },
    "all": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]},
    "partitions": {"requests": [{"name": "gpu", "exactly": _exactly(1, f"{_MEMORY} < 0")}]},
}
_AMOUNTS = {"cpu": "100m", "memory": "500Mi"}
_EXTENDED = {"example.com/gpu": "1"}
_SHARERS = 5  # pods of one claim
_CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Load(enum.StrEnum):
    TEMPLATE = "template"
    SHARED = "shared"
    EXTENDED = "extended"
    SELECTING = "selecting"
    ALTERNATIVES = "alternatives"
    MATCHING = "matching"
    PARTITIONS = "partitions"
    SHARES = "shares"
    ALL = "all"
    RACKS = "racks"
    MATCHING_IN_RACKS = "matching-in-racks"
    CHANGING_RACKS = "changing-racks"


# For how many pods a node has devices.
_PODS_OF_NODE = {
    Load.PARTITIONS: DEVICES // 2,
    Load.SHARES: SHARED_DEVICES * SHARED_DEVICES // 2,
    Load.ALL: 1,
    Load.MATCHING_IN_RACKS: DEVICES // 2,
}
_IN_RACKS = (Load.RACKS, Load.MATCHING_IN_RACKS, Load.CHANGING_RACKS)
_PODS_OF_CHANGE = 10  # which are placed between two changes of racks


def calls_a_pod(nodes: int, pods: int, load: Load = Load.TEMPLATE) -> dict[str, float]:
    """Return function -> calls a pod. Raises ValueError if there are no devices for all pods and the FIRST_PODS."""
    room = nodes * _PODS_OF_NODE.get(load, DEVICES)
    if room < FIRST_PODS + pods:
        raise ValueError(
            f"expected devices for {FIRST_PODS} + {pods} pods, got {room} on {nodes} nodes: ask for more nodes"
        )
    profile = cProfile.Profile(builtins=False)
    uvloop.run(_Run(load).count(nodes, pods, profile))
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if not isinstance(entry.code, CodeType):
            continue
        if not (name := name_of(entry.code)).startswith(_OTHERS):
            found[name] += entry.callcount
            continue
        for call in entry.calls or ():  # of what is left out to helpers that the scheduler has, too
            if isinstance(call.code, CodeType) and (helper := name_of(call.code)).startswith(_HELPERS):
                found[helper] -= call.callcount
    return {name: calls / pods for name, calls in found.most_common()}


class _Run:
    """A cluster in memory with its scheduler."""

    def __init__(self, load: Load) -> None:
        self._load = load

    async def count(self, nodes: int, pods: int, profile: cProfile.Profile) -> None:
        embedded = EmbeddedCluster()
        devices = "/apis/resource.k8s.io/v1"
        for number in range(nodes):
            node = {**_NODE, "metadata": {"name": f"node-{number}"}}
            await embedded.call("POST", "/api/v1/nodes", node)
            for each in self._slices(number):
                await embedded.call("POST", f"{devices}/resourceslices", each)
        is_extended = self._load is Load.EXTENDED
        await embedded.call("POST", f"{devices}/deviceclasses", _CLASS_OF_RESOURCE if is_extended else _CLASS)
        asked = Load.MATCHING if self._load is Load.MATCHING_IN_RACKS else self._load
        wanted = _DEVICES.get(asked, {"requests": [_REQUEST]})
        template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": {"devices": wanted}}}
        await embedded.call("POST", f"{devices}/namespaces/test/resourceclaimtemplates", template)
        await embedded.call("START", body=yaml.safe_dump(_CONFIGURATION))
        await self._burst(embedded, "first", FIRST_PODS)
        profile.enable()
        if self._load is Load.CHANGING_RACKS:
            for number in range(0, pods, _PODS_OF_CHANGE):
                await self._change_rack(embedded, number, nodes)
                await self._burst(embedded, f"counted-{number}", min(_PODS_OF_CHANGE, pods - number))
        else:
            await self._burst(embedded, "counted", pods)
        profile.disable()
        await embedded.call("STOP")

    def _slices(self, number: int) -> list[dict[str, Any]]:
        """Return what is published when a node is made."""
        if self._load in _IN_RACKS:
            return [] if number % NODES_OF_RACK else [_slice_of_rack(number)]
        node = f"node-{number}"
        numbers = {Load.MATCHING: 2 * DEVICES, Load.SHARES: SHARED_DEVICES}
        devices = node_slice(DRIVER, node, numbers.get(self._load, DEVICES))
        if self._load is Load.SHARES:
            policy = {"default": "1M", "validRange": {"min": "1M", "step": "8"}}
            for device in devices["spec"]["devices"]:
                device["allowMultipleAllocations"] = True
                device["capacity"] = {"bandwidth": {"value": "10G", "requestPolicy": policy}}
        if self._load is not Load.PARTITIONS:
            return [devices]
        # Half of the devices are partitions of the others, and smaller than these.
        devices["spec"]["pool"]["resourceSliceCount"] = 2
        counters = {**devices, "metadata": {"name": f"{node}-counters"}, "spec": {**devices["spec"], "devices": []}}
        counters["spec"]["sharedCounters"] = [
            {"name": f"set-{index}", "counters": {"memory": {"value": "1Gi"}}} for index in range(DEVICES // 2)
        ]
        for index, device in enumerate(devices["spec"]["devices"]):
            amount = "1Gi" if index < DEVICES // 2 else "512Mi"
            device["capacity"] = {"memory": {"value": amount}}
            consumed = {"counterSet": f"set-{index % (DEVICES // 2)}", "counters": {"memory": {"value": amount}}}
            device["consumesCounters"] = [consumed]
        return [devices, counters]

    async def _change_rack(self, embedded: EmbeddedCluster, number: int, nodes: int) -> None:
        """Publish the last rack's devices again, with one of them changed."""
        changed = _slice_of_rack((nodes - 1) // NODES_OF_RACK * NODES_OF_RACK)
        changed["spec"]["devices"][0]["attributes"]["revision"] = {"int": number}
        name = changed["metadata"]["name"]
        await embedded.call("PUT", f"/apis/resource.k8s.io/v1/resourceslices/{name}", changed)

    async def _burst(self, embedded: EmbeddedCluster, prefix: str, count: int) -> None:
        if self._load is Load.SHARED:
            for number in range(0, count, _SHARERS):
                claim = {"metadata": {"name": f"{prefix}-{number}"}, "spec": {"devices": {"requests": [_REQUEST]}}}
                await embedded.call("POST", "/apis/resource.k8s.io/v1/namespaces/test/resourceclaims", claim)
        sharers = _SHARERS if self._load is Load.SHARED else count
        for number in range(0, count, sharers):
            template = {"metadata": {"name": f"{prefix}-{number}-{{index}}"}, "spec": _spec(self._load, prefix, number)}
            some = min(sharers, count - number)
            await embedded.create("/api/v1/namespaces/test/pods", [template], some)
        cluster, bound = embedded.cluster, 0
        while bound < count:
            await asyncio.sleep(0.01)
            names = [pod.metadata.name for pod in cluster.store(PODS).objects.values() if pod.spec.node_name]
            bound = sum([name.startswith(prefix) for name in names])
        await asyncio.sleep(0.1)  # until the bindings are confirmed and their Events written


def _slice_of_rack(first: int) -> dict[str, Any]:
    """Return the slice of the rack that begins with this node."""
    found = node_slice(DRIVER, f"rack-{first // NODES_OF_RACK}", NODES_OF_RACK * DEVICES)
    del found["spec"]["nodeName"]
    found["spec"]["perDeviceNodeSelection"] = True
    for index, device in enumerate(found["spec"]["devices"]):
        device["nodeName"] = f"node-{first + index % NODES_OF_RACK}"
    return found


def _spec(load: Load, prefix: str, number: int) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": _AMOUNTS}
    spec: dict[str, Any] = {"containers": [{"name": "pause", "image": "pause:3.10", "resources": resources}]}
    if load is Load.EXTENDED:
        resources.update(requests=_AMOUNTS | _EXTENDED, limits=_EXTENDED)
    else:
        source = {"resourceClaimName": f"{prefix}-{number}"}
        if load is not Load.SHARED:
            source = {"resourceClaimTemplateName": "one-gpu"}
        spec["resourceClaims"] = [{"name": "gpu", **source}]
    return spec


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.claim_calls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", type=Load, choices=[*Load], default=Load.TEMPLATE)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--most", type=int, default=30, help="functions to print")
    options = parser.parse_args(argv)
    try:
        calls = calls_a_pod(options.nodes, options.pods, options.load)
    except ValueError as error:
        parser.error(str(error))
    print(f"{sum(calls.values()):.0f} calls a pod")
    for name, number in list(calls.items())[: options.most]:
        print(f"{number:8.2f} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
