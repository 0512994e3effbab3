"""Scenarios of slices and pools: devices that come, change, get taints, vanish, or are parts of others or shared."""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane.api import Object
from tests.controlplane.parity.device_parts import (
    NO_ROOM,
    ONE,
    RULES,
    SLICES,
    TWO,
    change_slice,
    claim,
    device,
    devices,
    makes,
    request,
    scenario,
    taint_rule,
    template,
    uses,
    write_claim,
)
from tests.controlplane.parity.outcome import anywhere
from tests.controlplane.parity.steps import (
    Step,
    allocated,
    bound,
    change_node,
    change_thing,
    node,
    pod,
    refused,
    released,
    remove_pod,
    remove_thing,
    settle,
)

TWO_SLICES = {"resourceSliceCount": 2}
TOLERATION = {"key": "broken", "operator": "Exists"}
IN_ZONE = {"zone": "x"}
MISPLACED = "node(s) didn't match Pod's node affinity/selector"


def _broken(name: str, effect: str = "NoSchedule") -> Object:
    return device(name, taints=[{"key": "broken", "effect": effect}])


def _part(name: str, amount: str, **fields: Any) -> Object:
    """A device that is a part of another, with so many Gi of its memory."""
    consumed = [{"counterSet": "memory", "counters": {"gi": {"value": amount}}}]
    return device(name, consumesCounters=consumed, **fields)


def _counters(amount: str) -> list[Object]:
    return [{"name": "memory", "counters": {"gi": {"value": amount}}}]


def _republished(generation: int) -> list[Step]:
    """The two slices of a pool are published again, one after the other, while a pod comes."""

    def change(name: str) -> Step:
        listed = [{"name": f"{name}-{generation}-{index}"} for index in range(2)]
        return change_slice(name, {"pool": {"generation": generation}, "devices": listed})

    name = f"pod-{generation}"
    return [change("one"), pod(name, makes("gpu")), refused(name, NO_ROOM), change("other"), bound(name, "a")]


CHANGING = (
    scenario(
        "A pool whose slices are not all there",
        *ONE,
        devices("a", "g0", pool={"resourceSliceCount": 2}, name="first-part"),
        claim("one"),
        pod("first", uses("one")),
        refused("first", NO_ROOM),
        devices("a", "g1", pool={"resourceSliceCount": 2}, name="second-part"),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A slice that vanishes",
        *ONE,
        devices("a", "g0", "g1"),
        claim("one"),
        claim("two"),
        pod("first", uses("one")),
        bound("first", "a"),
        remove_thing(f"{SLICES}/a-gpus"),
        pod("second", uses("two")),
        refused("second", NO_ROOM),
        pod("third", uses("one")),
        bound("third", "a"),
    ),
    scenario(
        "A slice vanishes while a pod waits",
        *ONE,
        devices("a", "g0"),
        template("gpu"),
        pod("holder", makes("gpu")),
        bound("holder", "a"),
        pod("waiting", makes("gpu")),
        refused("waiting", NO_ROOM),
        remove_thing(f"{SLICES}/a-gpus"),
        remove_pod("holder"),
        settle,
        devices("a", "g0", name="again"),
        bound("waiting", "a"),
        retries_vary=True,
    ),
    scenario(
        "A pool is published again and again while pods come",
        *ONE,
        devices("a", "old", pool={"resourceSliceCount": 2}, name="one"),
        devices("a", "other", pool={"resourceSliceCount": 2}, name="other"),
        template("gpu"),
        pod("pod-1", makes("gpu")),
        bound("pod-1", "a"),
        *(_republished(generation) for generation in range(2, 6)),
        # The pool has one slice from now on; nobody has taken the other one away yet.
        change_slice("one", {"pool": {"generation": 6, "resourceSliceCount": 1}}),
        pod("pod-6", makes("gpu")),
        bound("pod-6", "a"),
        pod("pod-7", makes("gpu")),
        refused("pod-7", NO_ROOM),
        retries_vary=True,
    ),
    scenario(
        "The device of an allocated claim is gone",
        *TWO,
        claim("one"),
        write_claim("one", "lost", on="b"),
        pod("first", uses("one")),
        bound("first", "b"),
        # When it is back, it is not free.
        devices("b", "lost"),
        claim("two"),
        pod("second", uses("two")),
        refused("second", NO_ROOM),
        change_slice("b-gpus", {"devices": [{"name": "lost"}, {"name": "new"}]}),
        bound("second", "b"),
        retries_vary=True,
    ),
)

TAINTS = (
    scenario(
        "A device's taint goes away",
        *ONE,
        devices("a", _broken("g0")),
        claim("one"),
        claim("tolerating", request(tolerations=[TOLERATION])),
        pod("first", uses("one")),
        refused("first", NO_ROOM),
        pod("brave", uses("tolerating")),
        bound("brave", "a"),
        remove_pod("brave"),
        released("tolerating"),
        change_slice("a-gpus", {"devices": [{"name": "g0"}]}),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A device gets a taint while its pod waits",
        *ONE,
        devices("a", "g0", "g1"),
        claim("in-use"),
        pod("before", uses("in-use")),
        bound("before", "a"),
        claim("one"),
        pod("first", uses("one", nodeSelector=IN_ZONE)),
        refused("first", MISPLACED),
        change_slice("a-gpus", {"devices": [_broken("g0", "NoExecute"), _broken("g1", "NoExecute")]}),
        settle,
        change_node("a", {"metadata": {"labels": IN_ZONE}}),
        refused("first", NO_ROOM),
        # A claim that is allocated stays, whatever becomes of its device.
        pod("after", uses("in-use")),
        bound("after", "a"),
        change_slice("a-gpus", {"devices": [_broken("g0", "NoExecute"), _broken("g1", "None")]}),
        bound("first", "a"),
        retries_vary=True,
    ),
    scenario(
        "A rule taints a device until it is removed",
        *ONE,
        devices("a", "g0", "g1"),
        taint_rule("broken-g0", deviceSelector={"pool": "a", "device": "g0"}),
        template("gpu"),
        template("any", request(tolerations=[TOLERATION])),
        pod("first", makes("gpu")),
        bound("first", "a"),
        pod("second", makes("gpu")),
        refused("second", NO_ROOM),
        pod("brave", makes("any")),
        bound("brave", "a"),
        remove_pod("brave"),
        remove_thing(f"{RULES}/broken-g0"),
        bound("second", "a"),
        retries_vary=True,
        gates=("DRADeviceTaintRules",),
    ),
    scenario(
        "A rule comes and changes while a pod waits",
        *ONE,
        devices("a", "g0"),
        claim("one"),
        pod("first", uses("one", nodeSelector=IN_ZONE)),
        refused("first", MISPLACED),
        taint_rule("broken", deviceSelector={"driver": "gpu.example.com"}),
        settle,
        change_node("a", {"metadata": {"labels": IN_ZONE}}),
        refused("first", NO_ROOM),
        change_thing(f"{RULES}/broken", {"spec": {"taint": {"effect": "None"}}}),
        bound("first", "a"),
        retries_vary=True,
        gates=("DRADeviceTaintRules",),
    ),
    scenario(
        "A rule without a selector, and one that selects everything",
        *ONE,
        devices("a", "g0", "g1"),
        taint_rule("no-selector"),
        claim("one"),
        pod("first", uses("one")),  # the releases do not agree whether such a rule is about all devices or none
        taint_rule("everything", deviceSelector={}),
        claim("two"),
        pod("second", uses("two")),
        refused("second", NO_ROOM),
        claim("tolerating", request(tolerations=[TOLERATION])),
        pod("brave", uses("tolerating")),
        bound("brave", "a"),
        gates=("DRADeviceTaintRules",),
    ),
)

PARTS = (
    scenario(
        "Parts of a device",
        *ONE,
        devices(
            "a",
            pool={"resourceSliceCount": 2},
            name="a-counters",
            sharedCounters=_counters("40"),
        ),
        devices(
            "a",
            *(_part(f"part-{index}", amount) for index, amount in enumerate(("40", "20", "20", "10"))),
            pool={"resourceSliceCount": 2},
        ),
        template("gpu"),
        claim("pair", request(count=2)),
        pod("first", uses("pair")),
        bound("first", "a"),
        pod("second", makes("gpu")),
        refused("second", NO_ROOM),
        remove_pod("first"),
        bound("second", "a"),
        pod("third", makes("gpu")),
        refused("third", NO_ROOM),
        retries_vary=True,
    ),
    scenario(
        "A device that claims share",
        *ONE,
        devices(
            "a",
            device(
                "g0",
                allowMultipleAllocations=True,
                capacity={
                    "memory": {
                        "value": "40Gi",
                        "requestPolicy": {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}},
                    }
                },
            ),
        ),
        template("some", request(capacity={"requests": {"memory": "15Gi"}})),
        pod("first", makes("some")),
        bound("first", "a"),
        pod("second", makes("some")),
        bound("second", "a"),
        pod("third", makes("some")),
        refused("third", NO_ROOM),
    ),
    scenario(
        "Devices that two nodes can use",
        *TWO,
        node("c"),
        devices(
            "net",
            "g0",
            nodeName=None,
            nodeSelector={
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}]}
                ]
            },
        ),
        claim("one"),
        pod("first", uses("one")),
        allocated("one"),
        pod("elsewhere", uses("one", nodeSelector={"kubernetes.io/hostname": "c"})),
        refused("elsewhere", "resourceclaim not available on the node"),
        placements=anywhere,
    ),
    scenario(
        "Parts of a device that two nodes use",
        *TWO,
        devices(
            "net", nodeName=None, allNodes=True, pool=TWO_SLICES, name="net-counters", sharedCounters=_counters("40")
        ),
        devices(
            "net",
            _part("half-of-a", "20", nodeName="a"),
            _part("whole-of-b", "40", nodeName="b"),
            _part("half-of-b", "20", nodeName="b"),
            _part("quarter-of-a", "10", nodeName="a"),
            nodeName=None,
            perDeviceNodeSelection=True,
            pool=TWO_SLICES,
        ),
        template("gpu"),
        # So large that b is better even if the second pod's claim is seen to be free before the pod is seen to be gone.
        pod("first", makes("gpu", nodeSelector={"kubernetes.io/hostname": "a"}), cpu="2"),
        bound("first", "a"),
        pod("second", makes("gpu", nodeSelector={"kubernetes.io/hostname": "b"})),
        bound("second", "b"),
        pod("third", makes("gpu")),
        refused("third", NO_ROOM),
        remove_pod("second"),
        bound("third", "b"),
        retries_vary=True,
    ),
    scenario(
        "A share of a device is given back",
        *ONE,
        devices(
            "a",
            device("little", allowMultipleAllocations=True, capacity={"memory": {"value": "9Gi"}}),
            device(
                "g0",
                allowMultipleAllocations=True,
                capacity={
                    "memory": {
                        "value": "40Gi",
                        "requestPolicy": {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
                    }
                },
            ),
        ),
        template("some", request(capacity={"requests": {"memory": "15Gi"}})),
        template("least", request(capacity={"requests": {"memory": "9.5Gi"}})),
        pod("first", makes("some")),
        bound("first", "a"),
        pod("second", makes("least")),
        bound("second", "a"),
        pod("third", makes("some")),
        refused("third", NO_ROOM),
        remove_pod("second"),
        bound("third", "a"),
        retries_vary=True,
    ),
)

POOLS = (*CHANGING, *TAINTS, *PARTS)
