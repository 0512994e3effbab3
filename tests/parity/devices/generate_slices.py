"""Pools of devices in slices: of one node, of several or of all, whole, incomplete, superseded or invalid."""

from __future__ import annotations

import random
from typing import Any

from tests.parity.devices.case import Object
from tests.parity.devices.words import (
    ATTRIBUTES,
    CAPACITY_VALUES,
    COUNTERS,
    COUNTERS_CONSUMED,
    DRIVERS,
    EFFECTS,
    FAILED,
    NODES,
    POOLS,
    READY,
    TAINT_KEYS,
    TOPOLOGY,
    ZONES,
)


def slices(rng: random.Random) -> list[Object]:
    """In no order: neither names nor pools come sorted."""
    made: list[Object] = []
    names = [f"s{number:02}" for number in range(60)]
    rng.shuffle(names)
    size = rng.choice((1, 2, 3, 4, 4, 5))
    pools = rng.sample([(driver, pool) for driver in DRIVERS for pool in POOLS], size)
    for driver, pool in pools:
        made += publish_pool(rng, driver, pool, names)
    rng.shuffle(made)
    return made


def tight_slices(rng: random.Random) -> list[Object]:
    """Whole pools of one driver with few devices, all equal: claims compete for them."""
    names = [f"s{number:02}" for number in range(20)]
    rng.shuffle(names)
    driver, traits = rng.choice(DRIVERS), _Traits(rng)
    traits.complete = 1.0
    traits.is_partitioned = rng.random() < 0.4
    selection = rng.choice(({"allNodes": True}, {"nodeName": NODES[0]}, {"perDeviceNodeSelection": True}))
    made: list[Object] = []
    for pool in rng.sample(POOLS, rng.choice((1, 1, 2))):
        sets = _counter_sets(rng) if traits.is_partitioned else []
        place = {"allNodes": True} if selection.keys() == {"perDeviceNodeSelection"} else {}
        specs: list[Object] = [
            selection
            | {
                "devices": [
                    _device(rng, f"d{first + each}", traits, sets, False) | place for each in range(rng.choice((2, 3)))
                ]
            }
            for first in range(0, rng.choice((3, 6)), 3)
        ]
        if sets:
            specs.append({"allNodes": True, "sharedCounters": sets})
        made += [_slice(names.pop(), driver, pool, 1, len(specs), spec) for spec in specs]
    rng.shuffle(made)
    return made


def wide_slices(rng: random.Random) -> list[Object]:
    """A pool with more devices than one claim can have."""
    traits = _Traits(rng)
    traits.is_partitioned = False
    devices = [_device(rng, f"d{number}", traits, [], False) for number in range(rng.choice((20, 31, 33, 64, 128)))]
    return [_slice("wide", rng.choice(DRIVERS), POOLS[0], 1, 1, {"allNodes": True, "devices": devices})]


def publish_pool(
    rng: random.Random, driver: str, pool: str, names: list[str], selection: Object | None = None
) -> list[Object]:
    """Return the slices of a pool, with what is left of an older one and comes of a newer one.

    `names`: those that slices may still be given. `selection`: whose devices they are, in fields of a slice's spec;
    drawn without it.
    """
    generation = rng.choice((0, 1, 1, 2, 5))
    traits = _Traits(rng)
    if selection is None:
        selection = _selection(rng)
    made: list[Object] = []
    sets = _counter_sets(rng) if traits.is_partitioned else []
    numbers = iter(range(100))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        own = _selection(rng) if rng.random() < 0.12 else selection
        per_device = "perDeviceNodeSelection" in own
        devices = [
            _device(rng, f"d{next(numbers)}", traits, sets, per_device) for _ in range(rng.choice((0, 1, 3, 3, 4, 5)))
        ]
        made.append({**own, "devices": devices})
    if sets:
        made.append(
            {**(_for_counters(rng) if "perDeviceNodeSelection" in selection else selection), "sharedCounters": sets}
        )
        if rng.random() < 0.1 and len(sets) > 1:  # a second slice with sets
            made.append({**made[-1], "sharedCounters": [sets.pop()]})
    if rng.random() < 0.03:
        _spoil(rng, made)
    count = len(made)
    if rng.random() < 0.03:
        count = max(1, count + rng.choice((-1, 1)))
    found = [_slice(names.pop(), driver, pool, generation, count, spec) for spec in made]
    if rng.random() < 0.1:  # left over from before
        found.append(_other_generation(rng, names.pop(), driver, pool, generation - 1, traits, selection))
    if rng.random() < 0.05:  # the pool is about to be replaced, perhaps on another node
        other = _selection(rng) if rng.random() < 0.6 else selection
        found.append(_other_generation(rng, names.pop(), driver, pool, generation + 1, traits, other))
    return found


def _other_generation(
    rng: random.Random, name: str, driver: str, pool: str, generation: int, traits: _Traits, selection: Object
) -> Object:
    per_device = "perDeviceNodeSelection" in selection
    devices = [_device(rng, f"d{number}", traits, [], per_device) for number in range(2)]
    return _slice(name, driver, pool, generation, rng.choice((1, 1, 2)), {**selection, "devices": devices})


def _slice(name: str, driver: str, pool: str, generation: int, count: int, spec: Object) -> Object:
    pool_of_it = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": pool_of_it, **spec}}


def _spoil(rng: random.Random, made: list[Object]) -> None:
    """Make the pool invalid, if the fault that is drawn can be had."""
    devices = [device for spec in made for device in spec.get("devices", ())]
    fault = rng.randrange(4)
    if fault == 0 and len(devices) > 1:
        devices[-1]["name"] = devices[0]["name"]
    elif fault == 1 and devices:
        devices[-1]["consumesCounters"] = [{"counterSet": "absent", "counters": {"memory": {"value": "1Gi"}}}]
    elif fault == 2:
        for device in devices[:1]:
            for consumed in device.get("consumesCounters", ()):
                consumed["counters"]["absent"] = {"value": "1"}
    else:
        sets = [spec["sharedCounters"] for spec in made if "sharedCounters" in spec]
        for each in sets:
            each.append(dict(each[0]))


def node_selector(rng: random.Random) -> Object:
    """One term, as slices must have."""
    zones: Object = {"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}
    kind: Object = {"key": "kind", "operator": rng.choice(("Exists", "DoesNotExist"))}
    name: Object = {"key": "metadata.name", "operator": "In", "values": [_node(rng)]}
    shape = rng.randrange(6)
    if shape == 0:
        return {"nodeSelectorTerms": [{"matchFields": [name]}]}
    if shape == 1:
        return {"nodeSelectorTerms": [{"matchExpressions": [zones, kind]}]}
    if shape in (2, 5):
        return {"nodeSelectorTerms": [{"matchExpressions": [{**zones, "values": list(ZONES)}]}]}
    if shape == 3:
        return {"nodeSelectorTerms": [{"matchExpressions": [{**zones, "operator": "NotIn"}]}]}
    return {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}


def _node(rng: random.Random) -> str:
    return rng.choices(NODES, (5, 3, 2))[0]


def _selection(rng: random.Random) -> Object:
    kind = rng.random()
    if kind < 0.35:
        return {"nodeName": _node(rng)}
    if kind < 0.52:
        return {"nodeSelector": node_selector(rng)}
    if kind < 0.82:
        return {"allNodes": True}
    if kind < 0.98:
        return {"perDeviceNodeSelection": True}
    return {}


def _for_counters(rng: random.Random) -> Object:
    return rng.choice(({"allNodes": True}, {"nodeSelector": node_selector(rng)}, {"perDeviceNodeSelection": True}))


def _counter_sets(rng: random.Random) -> list[Object]:
    return [
        {
            "name": f"set-{number}",
            "counters": {name: {"value": rng.choice(values)} for name, values in COUNTERS.items() if rng.random() < 0.8}
            or {"memory": {"value": "1Gi"}},
        }
        for number in range(rng.choice((1, 1, 2)))
    ]


class _Traits:
    """What the devices of a pool have in common."""

    def __init__(self, rng: random.Random) -> None:
        self.is_partitioned = rng.random() < 0.2
        self.shared = rng.choice((0.0, 0.0, 0.0, 0.5, 1.0))  # of its devices
        self.tainted = rng.choice((0.0, 0.0, 0.0, 0.3))
        self.binding = rng.choice((0.0,) * 9 + (0.5,))
        self.complete = rng.choice((1.0, 1.0, 0.85))  # of the attributes that a device may have


def _device(rng: random.Random, name: str, traits: _Traits, sets: list[Object], per_device: bool) -> Object:
    made: Object = {"name": name, "attributes": _attributes(rng, traits)}
    is_shared = rng.random() < traits.shared
    if capacity := _capacity(rng, is_shared):
        made["capacity"] = capacity
    if is_shared:
        made["allowMultipleAllocations"] = True
    elif rng.random() < 0.05:
        made["allowMultipleAllocations"] = False
    if sets and rng.random() < 0.9:
        made["consumesCounters"] = _consumption(rng, sets)
    if per_device:
        made |= _selection_of_device(rng)
    if rng.random() < traits.tainted:
        made["taints"] = [taint(rng) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < traits.binding:
        made["bindingConditions"] = [READY]
        made["bindingFailureConditions"] = [FAILED]
        made["bindsToNode"] = rng.random() < 0.5
    return made


def _selection_of_device(rng: random.Random) -> Object:
    kind = rng.random()
    if kind < 0.5:
        return {"nodeName": _node(rng)}
    if kind < 0.75:
        return {"allNodes": True}
    return {"nodeSelector": node_selector(rng)} if kind < 0.98 else {}


def _attributes(rng: random.Random, traits: _Traits) -> Object:
    made: Object = {}
    for attribute in ATTRIBUTES:
        if rng.random() > traits.complete:
            continue
        made[attribute.name] = {attribute.type: rng.choice(attribute.values)}
    if rng.random() < 0.02:
        made["index"] = {"string": "one"}
    if rng.random() < 0.03 and "model" in made:  # the same attribute by its qualified name
        made[f"{rng.choice(DRIVERS)}/model"] = made["model"] if rng.random() < 0.5 else made.pop("model")
    return made


def _capacity(rng: random.Random, is_shared: bool) -> Object:
    made: Object = {}
    for name, values in CAPACITY_VALUES.items():
        if rng.random() < 0.5:
            continue
        made[name] = {"value": rng.choice(values)}
        if is_shared and rng.random() < 0.7:
            made[name]["requestPolicy"] = _policy(rng, name)
    return made


_RANGES: dict[str, tuple[Object, ...]] = {
    "memory": (
        {"min": "1Gi"},
        {"min": "1Gi", "max": "8Gi"},
        {"min": "1Gi", "step": "512Mi"},
        {"min": "512Mi", "max": "16Gi", "step": "512Mi"},
        {"max": "8Gi"},
        {"min": "1G", "step": "1G"},
    ),
    "cores": (
        {"min": "1", "step": "1"},
        {"min": "2", "step": "2", "max": "8"},
        {"min": "500m", "step": "250m"},
        {"min": "1", "max": "4"},
    ),
    "bandwidth": ({"min": "1k", "step": "1k"}, {"min": "1k"}, {"min": "1", "step": "7", "max": "100M"}),
    f"{TOPOLOGY}/slots": ({"min": "1", "step": "1"}, {"min": "1", "max": "1"}),
}
_VALUES = {
    "memory": ("1Gi", "2Gi", "8Gi"),
    "cores": ("1", "2", "4"),
    "bandwidth": ("1k", "10k", "1M"),
    f"{TOPOLOGY}/slots": ("1", "2"),
}


def _policy(rng: random.Random, name: str) -> Object:
    kind = rng.random()
    if kind < 0.5:
        chosen: dict[str, Any] = rng.choice(_RANGES[name])
        made: Object = {"validRange": dict(chosen)}
        if "min" in chosen and rng.random() < 0.8:
            made["default"] = chosen["min"]
        return made
    if kind < 0.85:
        values = list(_VALUES[name])
        return {"validValues": values, "default": rng.choice(values)}
    return {"default": rng.choice(_VALUES[name])}


def _consumption(rng: random.Random, sets: list[Object]) -> list[Object]:
    made = []
    for each in rng.sample(sets, rng.randint(1, len(sets))):
        counters = {
            name: {"value": rng.choice(COUNTERS_CONSUMED[name])} for name in each["counters"] if rng.random() < 0.9
        }
        if counters:
            made.append({"counterSet": each["name"], "counters": counters})
    return made


def taint(rng: random.Random) -> Object:
    return {
        "key": rng.choice(TAINT_KEYS),
        "value": rng.choice(("", "x")),
        "effect": rng.choices(EFFECTS, (6, 3, 1, 1))[0],
        "timeAdded": "2026-01-01T00:00:00Z",
    }
