"""Device classes, and pods with claims: counts, all devices, alternatives, admin access, constraints, configuration."""

from __future__ import annotations

import random

from tests.parity.devices.case import Object
from tests.parity.devices.generate_expressions import selector
from tests.parity.devices.words import CAPACITY_REQUESTS, DRIVERS, EFFECTS, TAINT_KEYS, TOPOLOGY

ANY, SHARED = "any", "shared"  # classes of all devices, and of all that can be shared
MISSING = "missing"  # a class that does not exist


def classes(rng: random.Random) -> list[Object]:
    made = [_class(rng, ANY, [])]
    for driver in DRIVERS:
        name = driver.partition(".")[0]
        made.append(_class(rng, name, [f'device.driver == "{driver}"']))
        if rng.random() < 0.5:
            made.append(_class(rng, f"{name}-some", [f'device.driver == "{driver}"', selector(rng, driver)]))
    made.append(_class(rng, SHARED, ["device.allowMultipleAllocations"]))
    return made


def _class(rng: random.Random, name: str, expressions: list[str]) -> Object:
    spec: Object = {}
    if expressions:
        spec["selectors"] = _selectors(expressions)
    if rng.random() < 0.4:
        spec["config"] = [{"opaque": _opaque(rng)} for _ in range(rng.choice((1, 1, 2)))]
    return {"metadata": {"name": name}, "spec": spec}


def _selectors(expressions: list[str]) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _opaque(rng: random.Random) -> Object:
    return {"driver": rng.choice(DRIVERS), "parameters": {"kind": "Parameters", "number": rng.randrange(5)}}


def tight_pods(rng: random.Random, class_name: str) -> list[Object]:
    """Several requests for devices of one class, bound to each other by constraints."""
    made = []
    for number in range(rng.choice((1, 2, 3))):
        requests: list[Object] = []
        for index in range(rng.choice((1, 2, 2, 3))):
            if rng.random() < 0.3:
                alternatives = [{"name": f"a{each}", **_plainly(rng, class_name)} for each in range(2)]
                requests.append({"name": f"r{index}", "firstAvailable": alternatives})
            else:
                requests.append({"name": f"r{index}", "exactly": _plainly(rng, class_name)})
        devices: Object = {"requests": requests}
        if rng.random() < 0.8:
            devices["constraints"] = [_constraint(rng, request_names(requests)) for _ in range(rng.choice((1, 1, 2)))]
        made.append({"claims": [_named(f"tight-{number}", devices)]})
        if rng.random() < 0.3:
            other: Object = {"requests": [{"name": "r0", "exactly": _plainly(rng, class_name)}]}
            made[-1]["claims"].append(_named(f"tight-{number}-other", other))
    return made


def _plainly(rng: random.Random, class_name: str) -> Object:
    made: Object = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": rng.choice((1, 1, 2, 2, 3))}
    made["tolerations"] = [{"operator": "Exists"}]
    if rng.random() < 0.25:
        numa = f'device.attributes["{TOPOLOGY}"].numa == {rng.randrange(2)}'
        made["selectors"] = _selectors([numa])
    if rng.random() < 0.2:
        made["capacity"] = {"requests": _amounts(rng)}
    return made


def wide_pods(rng: random.Random, class_name: str) -> list[Object]:
    """Claims for as many devices as there may be, or more."""
    made = []
    for number in range(2):
        asked: Object = {"deviceClassName": class_name, "tolerations": [{"operator": "Exists"}]}
        asked |= rng.choice(
            ({"allocationMode": "All"}, {"allocationMode": "ExactCount", "count": rng.choice((20, 30, 31, 32))})
        )
        one: Object = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": rng.choice((1, 2, 12))}
        requests: list[Object] = [{"name": "r0", "exactly": asked}]
        if rng.random() < 0.5:
            requests.insert(
                rng.randrange(2), {"name": "r1", "firstAvailable": [{"name": f"a{i}", **one} for i in range(2)]}
            )
        made.append({"claims": [_named(f"wide-{number}", {"requests": requests})]})
    return made


def pods(rng: random.Random, class_names: list[str]) -> list[Object]:
    made = []
    for number in range(rng.choice((1, 2, 2, 3, 4))):
        claims = [
            make_claim(rng, f"claim-{number}-{each}", class_names) for each in range(rng.choice((1, 1, 1, 1, 2, 3)))
        ]
        if rng.random() < 0.03:
            _make_odd(rng, claims[-1]["spec"]["devices"])
        if rng.random() < 0.01:
            claims.append(claims[0])  # a pod may name a claim twice
        made.append({"claims": claims})
    return made


def _make_odd(rng: random.Random, devices: Object) -> None:
    """Something that an apiserver of a later release may store, or that it hardly ever does."""
    request = devices["requests"][-1]
    asked = request.get("exactly") or request["firstAvailable"][-1]
    kind = rng.randrange(7)
    if kind == 0:
        devices["requests"] = []
        devices.pop("constraints", None)
        devices.pop("config", None)
    elif kind == 1:
        devices["constraints"] = [{"requests": [request["name"]]}]
    elif kind == 2:
        asked["allocationMode"] = rng.choice(("Some", ""))
    elif kind == 3:
        asked["deviceClassName"] = ""
    elif kind == 4:
        asked["selectors"] = [*asked.get("selectors", ()), {}]
    elif kind == 5:
        request.pop("exactly", None)
        request.pop("firstAvailable", None)
    else:
        asked["count"] = 0


def make_claim(rng: random.Random, name: str, class_names: list[str]) -> Object:
    requests = [_request(rng, f"r{number}", class_names) for number in range(rng.choice((1, 1, 1, 1, 2, 3)))]
    devices: Object = {"requests": requests}
    names = request_names(requests)
    if rng.random() < 0.22:
        devices["constraints"] = [_constraint(rng, names) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.3:
        devices["config"] = [_config(rng, names) for _ in range(rng.choice((1, 2, 2)))]
    return _named(name, devices)


def _named(name: str, devices: Object) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def request_names(requests: list[Object]) -> list[str]:
    """Of requests and of alternatives, as constraints and configurations refer to them."""
    names = []
    for request in requests:
        names.append(request["name"])
        names += [f"{request['name']}/{each['name']}" for each in request.get("firstAvailable", ())]
    return names


def _request(rng: random.Random, name: str, class_names: list[str]) -> Object:
    if rng.random() < 0.2:
        alternatives = [_asked(rng, class_names) for _ in range(rng.choice((1, 2, 2, 3)))]
        return {"name": name, "firstAvailable": [{"name": f"a{i}", **each} for i, each in enumerate(alternatives)]}
    asked = _asked(rng, class_names)
    if rng.random() < 0.08:
        asked["adminAccess"] = rng.random() < 0.9
    return {"name": name, "exactly": asked}


def _asked(rng: random.Random, class_names: list[str]) -> Object:
    class_name = MISSING if rng.random() < 0.003 else rng.choice(class_names)
    made: Object = {"deviceClassName": class_name}
    if rng.random() < 0.07:
        made["allocationMode"] = "All"
    else:
        made |= {"allocationMode": "ExactCount", "count": _count(rng)}
    if rng.random() < 0.3:
        driver = next((each for each in DRIVERS if each.startswith(class_name[:3])), rng.choice(DRIVERS))
        made["selectors"] = _selectors([selector(rng, driver) for _ in range(rng.choice((1, 1, 1, 2)))])
    if rng.random() < 0.3:
        made["tolerations"] = [_toleration(rng) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < (0.5 if class_name == SHARED else 0.1):
        made["capacity"] = {"requests": _amounts(rng)}
    return made


def _count(rng: random.Random) -> int:
    kind = rng.random()
    if kind < 0.994:
        return rng.choice((1, 1, 1, 1, 1, 2, 2, 3))
    return rng.choice((5, 12, 31, 32, 33, 1 << 40, (1 << 63) - 1))


def _amounts(rng: random.Random) -> Object:
    names = rng.sample(list(CAPACITY_REQUESTS), rng.choice((1, 1, 2)))
    if "absent" in names and rng.random() < 0.7:
        names = ["memory"]
    return {name: rng.choice(CAPACITY_REQUESTS[name]) for name in names}


def _toleration(rng: random.Random) -> Object:
    made: Object = {"operator": rng.choice(("Exists", "Exists", "Equal"))}
    if made["operator"] == "Equal" or rng.random() < 0.5:
        made["key"] = rng.choice(TAINT_KEYS)
    if made["operator"] == "Equal" and rng.random() < 0.5:
        made["value"] = "x"
    if rng.random() < 0.4:
        made["effect"] = rng.choice(EFFECTS[:2])
        if made["effect"] == "NoExecute" and rng.random() < 0.5:
            made["tolerationSeconds"] = rng.choice((0, 30))
    return made


def _constraint(rng: random.Random, names: list[str]) -> Object:
    driver = rng.choice(DRIVERS)
    attribute = rng.choice(
        (
            f"{TOPOLOGY}/numa",
            f"{TOPOLOGY}/numa",
            f"{TOPOLOGY}/rack",
            f"{driver}/model",
            f"{driver}/index",
            f"{driver}/healthy",
            f"{driver}/version",
        )
    )
    made: Object = {rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): attribute}
    if rng.random() < 0.5:
        made["requests"] = rng.sample(names, rng.randint(1, len(names)))
    return made


def _config(rng: random.Random, names: list[str]) -> Object:
    made: Object = {"opaque": _opaque(rng)}
    if rng.random() < 0.6:
        made["requests"] = rng.sample(names, rng.randint(1, len(names)))
    return made
