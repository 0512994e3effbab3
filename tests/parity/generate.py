"""Seeded cases: the same seed gives the same case, for one state of the registry.

Most clusters are small, so that all corners of a plugin are met often. What a plugin that the registry does not have
would decide about is left out; the plugin itself is not disabled.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kscheduler.framework.plugins.registry import IN_TREE
from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import EVALUATE, SEQUENCE, Case, Object
from tests.parity.generate_amounts import exaggerate
from tests.parity.generate_arguments import add_rarer_arguments
from tests.parity.generate_newer import add_newer
from tests.parity.generate_nodes import generate_node
from tests.parity.generate_pods import CONTROLLERS, OWNER, POD_AFFINITY, SPREAD, PodGenerator, label_selector, pinned
from tests.parity.generate_rarer import add_rarer
from tests.parity.generate_volumes import VOLUME_PLUGINS, generate_volumes, label_for_drivers
from tests.parity.words import (
    FPGA,
    GPU,
    HUGE,
    NAMESPACES,
    POD_LABELS,
    REGION,
    REGIONS,
    TOPOLOGY_KEYS,
    ZONE,
    ZONES,
    often,
    pick,
    some,
)

HEAD: Object = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SCORERS = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    *(name for name in (SPREAD, POD_AFFINITY) if name in IN_TREE),
)
PROFILES = ("default-scheduler", "second-scheduler")
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, FPGA, HUGE)
PENDING = 40  # pods of a case: many, since a cluster costs more than a pod
SAMPLED = 12  # pods of a case whose search is sampled: fewer, since it has many nodes
FEW_TO_SAMPLE = 100  # nodes up to which kube-scheduler looks at all of them


def generate(seed: int, release: str = DEFAULT_RELEASE, more_gates: tuple[str, ...] = ()) -> Case:
    """The case of a seed, the same for each release but for what a release refuses or leaves to chance.

    `more_gates`: feature gates that are on beside those of the release.
    """
    case = _generate(seed, release)
    case.more_gates = more_gates
    add_newer(case)
    add_rarer(case)
    add_rarer_arguments(case)
    return case


def _generate(seed: int, release: str) -> Case:
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(_size(rng))]
    mode = pick(rng, (EVALUATE, SEQUENCE))
    if len(nodes) > FEW_TO_SAMPLE and often(rng, 0.8):
        return _sampled(rng, seed, mode, nodes, release)
    has_claims = VOLUME_PLUGINS.issubset(IN_TREE) and often(rng, 0.4)
    # Each of kube-scheduler's profiles knows its own assumptions about volumes only: see README.md.
    alone = has_claims and mode == SEQUENCE
    profiles = PROFILES[: 2 if often(rng, 0.15) and not alone else 1]
    theme = often(rng, 0.8 if has_claims else 0.5)
    pods = PodGenerator(rng, nodes, frozenset(IN_TREE), profiles, theme=theme, claims=has_claims)
    running = rng.randint(0, 3 * min(len(nodes), 40))
    cluster: dict[str, list[Object]] = {
        "nodes": [generate_node(rng, name, calm=theme) for name in nodes],
        "pods": [pods.running(f"r{i}") for i in range(running)],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    if SPREAD in IN_TREE:
        cluster |= _owners(rng)
    pending = [pods.pending(f"p{i}") for i in range(PENDING)]
    if often(rng, 0.25):
        cluster["nominated"] = [pods.nominated(f"w{i}") for i in range(rng.randint(1, 2 * min(len(nodes), 10) + 1))]
        for pod in pending:
            if often(rng, 0.1):
                pods.nominate(pod)
    if often(rng, 0.05):
        exaggerate(rng, cluster["nodes"], [*cluster["pods"], *pending])
    if alone:
        for pod in pending:
            _name_claims_once(pod)
    if has_claims:
        for node in cluster["nodes"]:
            label_for_drivers(rng, node)
        cluster |= generate_volumes(rng, nodes, [*cluster["pods"], *cluster.get("nominated", ()), *pending])
    return Case(seed, mode, generate_config(rng, profiles, has_claims=has_claims), cluster, pending, release)


def _name_claims_once(pod: Object) -> None:
    """A claim that a pod names twice gets two volumes; which of them the next pod finds is by the order of a Go map."""
    volumes = pod["spec"].get("volumes", ())
    named = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in volumes]
    kept = [volume for at, volume in enumerate(volumes) if named[at] is None or named[at] not in named[:at]]
    if len(kept) < len(volumes):
        pod["spec"]["volumes"] = kept


def _size(rng: random.Random) -> int:
    if often(rng, 0.01):
        return 0
    return rng.randint(100, 320) if often(rng, 0.03) else rng.randint(1, 12)


def _sampled(rng: random.Random, seed: int, mode: str, nodes: Sequence[str], release: str) -> Case:
    """A search that ends early. The nodes take turns in their zones, so that their order is kube-scheduler's, too."""
    pods = PodGenerator(rng, nodes, frozenset(IN_TREE), PROFILES[:1], theme=True, claims=False)
    cluster = {
        "nodes": [generate_node(rng, name, calm=often(rng, 0.9)) for name in nodes],
        "pods": [pods.running(f"r{i}") for i in range(rng.randint(0, 60))],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    zones = rng.randint(1, len(ZONES))
    for index, node in enumerate(cluster["nodes"]):
        node["metadata"]["labels"] |= {ZONE: ZONES[index % zones], REGION: REGIONS[index % zones % len(REGIONS)]}
    case = Case(seed, mode, generate_config(rng, PROFILES[:1], has_claims=False), cluster, release=release)
    holder = case.config if often(rng, 0.5) else case.config["profiles"][0]
    holder["percentageOfNodesToScore"] = rng.randint(1, 80)
    case.pending = [pods.pending(f"p{i}") for i in range(SAMPLED)]
    for pod in case.pending:
        if often(rng, 0.6):  # fits on many nodes
            for field in ("affinity", "nodeSelector", "nodeName", "topologySpreadConstraints"):
                pod["spec"].pop(field, None)
        elif often(rng, 0.3):
            pod["spec"]["affinity"] = pinned(some(rng, nodes, 3))
    return case


def _owners(rng: random.Random) -> dict[str, list[Object]]:
    """Services, and the controllers that pods may name."""
    services = [
        {"metadata": {"name": f"s{index}", "namespace": namespace}, "spec": {"selector": _exact(rng)}}
        for index, namespace in enumerate(pick(rng, list(NAMESPACES)) for _ in range(rng.randint(0, 2)))
    ]
    owners: dict[str, list[Object]] = {"services": services}
    for _, kind, list_name in CONTROLLERS:
        owners[list_name] = [
            {
                "metadata": {"name": OWNER, "namespace": namespace},
                "spec": {
                    "selector": _exact(rng) if kind == "ReplicationController" else label_selector(rng, POD_LABELS),
                    "template": {},
                },
            }
            for namespace in NAMESPACES
            if often(rng, 0.4)
        ]
    return owners


def _exact(rng: random.Random) -> dict[str, str]:
    key = pick(rng, list(POD_LABELS))
    return {key: pick(rng, POD_LABELS[key])}


# --- configuration ---


def generate_config(rng: random.Random, profiles: Sequence[str], *, has_claims: bool) -> Object:
    made = [_profile(rng, name, has_claims=has_claims) for name in profiles]
    return {**HEAD, "percentageOfNodesToScore": 100, "profiles": made}


def _profile(rng: random.Random, scheduler_name: str, *, has_claims: bool) -> Object:
    arguments = _arguments(rng) if often(rng, 0.6) else {}
    weights = {name: rng.randint(1, 5) for name in some(rng, SCORERS, 3)} if often(rng, 0.2) else {}
    silent = _silent(rng) if has_claims and often(rng, 0.45) else []
    multi_point: Object = {"disabled": [{"name": name} for name in silent]}
    if weights:
        multi_point["enabled"] = [{"name": name, "weight": weight} for name, weight in weights.items()]
    profile: Object = {"schedulerName": scheduler_name, "plugins": {"multiPoint": multi_point}}
    if arguments:
        profile["pluginConfig"] = [{"name": name, "args": args} for name, args in arguments.items()]
    return profile


def _silent(rng: random.Random) -> list[str]:
    """Volume plugins to disable, not all: of several that turn a pod down for its claims only the first is heard."""
    plugins = sorted(VOLUME_PLUGINS)
    return rng.sample(plugins, len(plugins) - 1) if often(rng, 0.6) else some(rng, plugins, len(plugins) - 1)


def _arguments(rng: random.Random) -> dict[str, Object]:
    arguments: dict[str, Object] = {}
    if often(rng, 0.7):
        arguments["NodeResourcesFit"] = _fit(rng)
    if often(rng, 0.4):
        names = some(rng, RESOURCES, 4)
        arguments["NodeResourcesBalancedAllocation"] = {"resources": [{"name": n, "weight": 1} for n in names]}
    if often(rng, 0.3):
        arguments["NodeAffinity"] = {"addedAffinity": _added_affinity(rng)}
    if POD_AFFINITY in IN_TREE and often(rng, 0.5):
        arguments[POD_AFFINITY] = {
            "hardPodAffinityWeight": pick(rng, (0, 1, 10, 100)),
            "ignorePreferredTermsOfExistingPods": often(rng, 0.3),
        }
    if SPREAD in IN_TREE and often(rng, 0.5):
        arguments[SPREAD] = _spread(rng)
    return arguments


def _fit(rng: random.Random) -> Object:
    args: Object = {}
    if often(rng, 0.2):
        args["ignoredResources"] = [GPU]
    if often(rng, 0.2):
        args["ignoredResourceGroups"] = [FPGA.partition("/")[0]]
    if often(rng, 0.8):
        args["scoringStrategy"] = _strategy(rng)
    return args


def _strategy(rng: random.Random) -> Object:
    kind = pick(rng, ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    names = some(rng, RESOURCES, 4)
    strategy: Object = {"type": kind, "resources": [{"name": n, "weight": pick(rng, (1, 3, 100))} for n in names]}
    if kind == "RequestedToCapacityRatio":
        points = sorted(rng.sample(range(101), rng.randint(1, 4)))
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": point, "score": rng.randint(0, 10)} for point in points]
        }
    return strategy


def _added_affinity(rng: random.Random) -> Object:
    requirement = {"key": "disk", "operator": pick(rng, ("In", "NotIn")), "values": ["ssd"]}
    affinity: Object = {}
    if often(rng, 0.7):
        terms = [{"matchExpressions": [requirement]}]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if often(rng, 0.6) or not affinity:
        preference = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 20, "preference": preference}]
    return affinity


def _spread(rng: random.Random) -> Object:
    if often(rng, 0.3):
        return {"defaultingType": "System"}
    entries = {(pick(rng, TOPOLOGY_KEYS), pick(rng, ("DoNotSchedule", "ScheduleAnyway"))) for _ in "ab"}
    constraints = [
        {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": rng.randint(1, 3)} for key, when in sorted(entries)
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}
