"""Arguments of plugins that few configurations state, given to a third of the cases."""

from __future__ import annotations

import random

from tests.parity.case import Case, Object
from tests.parity.generate_amounts import PLENTY
from tests.parity.words import FPGA, GPU, HOSTNAME, HUGE, LABELS, TOPOLOGY_KEYS, ZONE, ZONES, often, pick, some

SHARE = 0.35  # of the cases
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "storage", GPU, FPGA, HUGE, PLENTY, "example.com/absent")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def add_rarer_arguments(case: Case) -> None:
    """Change the case in place. It draws numbers of its own, so that the rest of a case stays as its seed has it."""
    rng = random.Random(f"arguments {case.seed}")
    if not often(rng, SHARE):
        return
    names = [node["metadata"]["name"] for node in case.cluster["nodes"]] or ["n0"]
    for profile in case.config["profiles"]:
        given: dict[str, Object] = {each["name"]: each["args"] for each in profile.get("pluginConfig", ())}
        if often(rng, 0.4):
            given["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": _constraints(rng)}
        if often(rng, 0.4):
            given["NodeAffinity"] = {"addedAffinity": _affinity(rng, names)}
        if often(rng, 0.4):
            _score_strangely(rng, given.setdefault("NodeResourcesFit", {}))
        if often(rng, 0.3):
            balanced = [{"name": name, "weight": 1} for name in some(rng, RESOURCES, 6)]
            given["NodeResourcesBalancedAllocation"] = {"resources": balanced}
        profile["pluginConfig"] = [{"name": name, "args": args} for name, args in given.items()]


def _constraints(rng: random.Random) -> list[Object]:
    """Default constraints with all that constraints may state, but for a selector."""
    keys = [(key, when) for key in TOPOLOGY_KEYS for when in ("DoNotSchedule", "ScheduleAnyway")]
    made = []
    for key, when in some(rng, keys, 3):
        constraint: Object = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": rng.randint(1, 3)}
        if when == "DoNotSchedule" and often(rng, 0.4):
            constraint["minDomains"] = rng.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if often(rng, 0.4):
                constraint[policy] = pick(rng, ("Honor", "Ignore"))
        if often(rng, 0.2):
            constraint["matchLabelKeys"] = [pick(rng, ("app", "release", "absent"))]
        made.append(constraint)
    return made


def _affinity(rng: random.Random, names: list[str]) -> Object:
    affinity: Object = {}
    if often(rng, 0.5):
        affinity[REQUIRED] = {"nodeSelectorTerms": [_term(rng, names) for _ in range(rng.randint(1, 3))]}
    if often(rng, 0.7) or not affinity:
        affinity[PREFERRED] = [
            {"weight": pick(rng, (1, 3, 50, 100)), "preference": _term(rng, names)} for _ in range(rng.randint(1, 3))
        ]
    return affinity


def _term(rng: random.Random, names: list[str]) -> Object:
    term: Object = {}
    if often(rng, 0.25):
        operator = pick(rng, ("In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [pick(rng, names)]}]
    if often(rng, 0.85):
        term["matchExpressions"] = [_requirement(rng) for _ in range(rng.randint(1, 2))]
    return term


def _requirement(rng: random.Random) -> Object:
    key, operator = pick(rng, (*LABELS, ZONE, HOSTNAME)), pick(rng, ("In", "NotIn", "NotIn", "Exists", "DoesNotExist"))
    if often(rng, 0.2):
        return {"key": pick(rng, ("size", "rack")), "operator": pick(rng, ("Gt", "Lt")), "values": [pick(rng, "015")]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = {**LABELS, ZONE: ZONES, HOSTNAME: ("n0", "n1", "n2")}[key]
    return {"key": key, "operator": operator, "values": some(rng, values, 2)}


def _score_strangely(rng: random.Random, args: Object) -> None:
    """By resources that are no amounts of containers, that no node has, or that are named twice."""
    kind = pick(rng, ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    names = some(rng, RESOURCES, 6)
    if often(rng, 0.2):
        names.append(names[0])
    args["scoringStrategy"] = {"type": kind, "resources": [{"name": n, "weight": rng.randint(1, 100)} for n in names]}
    if kind == "RequestedToCapacityRatio":
        points = sorted(rng.sample(range(101), rng.randint(1, 6)))
        shape = [{"utilization": point, "score": rng.randint(0, 10)} for point in points]
        args["scoringStrategy"]["requestedToCapacityRatio"] = {"shape": shape}
    if often(rng, 0.3):
        args["ignoredResources"] = some(rng, (GPU, FPGA, PLENTY), 2)
    if often(rng, 0.3):
        args["ignoredResourceGroups"] = some(rng, ("example.com", "other.example.com"), 2)
