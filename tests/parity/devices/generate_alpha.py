"""Adds features to cases whose gates are off by default: attributes with several values, compatibility groups,
fractional ranges of capacity, node operations that kubelets are to skip, and attributes that requests derive.

Their draws are apart from those of the case, so that a case stays what it was without them.
"""

from __future__ import annotations

import random
from typing import Any

from tests.parity.devices.case import DeviceCase, Object
from tests.parity.devices.gates import DEFAULTS
from tests.parity.devices.generate_derived import expression
from tests.parity.devices.words import ATTRIBUTES, GROUPS

FRACTIONAL, SKIPPING = 0.3, 0.1  # how many cases of 1.37 have fractional ranges, and skipped operations
DERIVED = 0.3  # how many cases of 1.37 with constraints have derived attributes
LISTS, GROUPED = 0.15, 0.6  # how many cases have lists; how many of those with counters, compatibility groups

_VALUES = {each.name: each.values for each in ATTRIBUTES}


def add_alpha_features(case: DeviceCase) -> None:
    """Change the devices of some cases, and turn on the gates that the changes need."""
    rng = random.Random(f"alpha {case.seed}")
    devices = [device for each in case.cluster["resourceSlices"] for device in each["spec"].get("devices", ())]
    if rng.random() < LISTS:
        _turn_on(case, "DRAListTypeAttributes")
        listed = rng.sample(sorted(_VALUES), rng.choice((1, 2, 4)))
        for device in devices:
            _list_values(rng, device["attributes"], listed)
    if "DRAOptionalNodeOperations" in DEFAULTS[case.release]:
        _add_newest(case, random.Random(f"newest {case.seed}"))
        _derive(case, random.Random(f"derived {case.seed}"))
    consumed = [each for device in devices for each in device.get("consumesCounters", ())]
    if consumed and "DRADeviceCompatibilityGroups" in DEFAULTS[case.release] and rng.random() < GROUPED:
        if rng.random() < 0.85:
            _turn_on(case, "DRADeviceCompatibilityGroups")
        grouped = rng.choice((0.5, 0.9, 1.0))
        for each in consumed:
            if rng.random() < grouped:
                each["compatibilityGroups"] = rng.sample(GROUPS, rng.choice((1, 1, 2)))


def _add_newest(case: DeviceCase, rng: random.Random) -> None:
    """Add what came with 1.37."""
    if rng.random() < FRACTIONAL:
        _turn_on(case, "DRAFractionalCapacityRange")
    if rng.random() < SKIPPING:
        if rng.random() < 0.8:
            _turn_on(case, "DRAOptionalNodeOperations")
        for each in case.cluster["resourceSlices"]:
            if rng.random() < 0.5:
                each["spec"]["skipNodeOperations"] = ["NodePrepareResources", "NodeUnprepareResources"]
        for node in case.cluster["nodes"]:
            if rng.random() < 0.6:
                node.setdefault("status", {})["declaredFeatures"] = ["DRAOptionalNodeOperations"]


def _derive(case: DeviceCase, rng: random.Random) -> None:
    """Let requests derive some of the attributes that constraints on them name."""
    claims = [claim["spec"]["devices"] for pod in case.pending for claim in pod["claims"]]
    if not any(claim.get("constraints") for claim in claims) or rng.random() >= DERIVED:
        return
    if rng.random() < 0.9:
        _turn_on(case, "DRADerivedAttributes")
    shared = rng.random() < 0.7  # do requests derive an attribute in one way?
    for claim in claims:
        named = {name for each in claim.get("constraints", ()) for key, name in each.items() if key != "requests"}
        common = {name: expression(rng) for name in sorted(named)}
        for request in claim["requests"]:
            for asked in request.get("firstAvailable") or [request.get("exactly")]:
                derived = [name for name in sorted(named) if rng.random() < 0.8]
                if asked is not None and derived:
                    asked["derivedAttributes"] = [
                        {"name": name, "expression": common[name] if shared else expression(rng)} for name in derived
                    ]


def _turn_on(case: DeviceCase, gate: str) -> None:
    case.config["gates"] = {**case.config.get("gates", {}), gate: True}


def _list_values(rng: random.Random, attributes: Object, listed: list[str]) -> None:
    """Give some attributes of a device up to three values."""
    for name in listed:
        given: dict[str, Any] | None = attributes.get(name)
        if given is None or len(given) != 1 or rng.random() < 0.2:
            continue
        ((kind, value),) = given.items()
        if kind in ("int", "bool", "string", "version") and value in _VALUES[name]:
            others = rng.sample(_VALUES[name], min(len(_VALUES[name]), rng.choice((0, 1, 2))))
            attributes[name] = {f"{kind}s": list(dict.fromkeys([value, *others]))}
