"""Cases of preemption: crowded clusters, and pods that mostly fit nowhere until others leave.

A third of them are clusters of `generate`, with all that a plugin may object to; the others are small and crowded, made
so that the pods on them are what is in the way, and that nodes are equal up to the last rule of the choice.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Sequence

from kscheduler.framework.plugins.registry import IN_TREE
from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE
from tests.parity.case import Case, Object
from tests.parity.generate import HEAD, PROFILES, generate
from tests.parity.generate_nodes import generate_node
from tests.parity.generate_obstacles import OBSTACLES, be_shunned, cling
from tests.parity.generate_pods import PodGenerator, label_selector, pinned
from tests.parity.generate_rarer import add_rarer
from tests.parity.words import GPU, NAMESPACES, POD_LABELS, TAINT_KEYS, often, pick, some

PREEMPT = "preempt"
PENDING = 6  # pods of a case
MOST_NODES = 12  # of a cluster of `generate`
MOST_CROWDED = 25  # with more nodes, each has one pod
SORTED_STABLY = 12  # up to so many pods kube-scheduler's sort leaves equals in their order
ROOMS = (2, 4, 8)  # CPUs of a crowded cluster's nodes
WANTS = (0.0, 0.3, 0.5, 0.5, 0.7, 1.0, 1.0, 1.1)  # of a node's room, by pods that preempt
LEAST = -(1 << 31)  # only with this priority can a further victim cost nothing
SYSTEM = 2_000_000_000
MOST = (1 << 31) - 1
LOW = (-10, 0, 0, 0, 5, 10)  # priorities of pods that are in the way
HIGH = (10, 10, 20, 20, 100, 100, 100, SYSTEM, MOST)
TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"


def generate_preemption(seed: int, release: str = DEFAULT_RELEASE, *, shares_ports: bool = False) -> Case:
    """The case of a seed; `shares_ports`: may pods of one node have the same host port?"""
    rng = random.Random(f"preemption {seed}")
    case = _varied(rng, seed, release) if often(rng, 0.33) else _with_nominated_rows(rng, seed, release)
    seconds = pick(rng, (1, 3, 6))
    priorities = pick(rng, (LOW, LOW, (0,), (0, 5)))
    for pod in case.cluster["pods"]:
        age(rng, pod, priorities, seconds)
    for pod in case.cluster.get("nominated", ()):
        set_priority(rng, pod, (*LOW, *HIGH), none=0.05)
    for pod in case.pending:
        make_preemptor(rng, pod, [node["metadata"]["name"] for node in case.cluster["nodes"]])
    case.cluster["current"] = [_changed(rng, pod, case) for pod in case.pending if often(rng, 0.99)]
    distinguish(case.cluster["pods"])
    if not shares_ports:
        share_no_port(case.cluster["pods"])
    case.cluster["podDisruptionBudgets"] = [budget_for(rng, f"b{index}", case) for index in range(rng.randint(0, 3))]
    if often(rng, 0.3):
        _limit(rng, case.config)
    return case


def has_equals(case: Case) -> bool:
    """Are there pods on a node of which none is more important than the other?"""
    known = [(pod["spec"]["nodeName"], *_importance(pod)) for pod in case.cluster["pods"]]
    return len(set(known)) < len(known)


# --- clusters ---


def _varied(rng: random.Random, seed: int, release: str) -> Case:
    base = generate(seed, release)
    names = [node["metadata"]["name"] for node in base.cluster["nodes"][:MOST_NODES]]
    cluster = base.cluster | {"nodes": base.cluster["nodes"][:MOST_NODES]}
    cluster["pods"] = [pod for pod in cluster["pods"] if pod["spec"]["nodeName"] in names or often(rng, 0.1)]
    profile = {key: value for key, value in base.config["profiles"][0].items() if key != "percentageOfNodesToScore"}
    config = {**HEAD, "percentageOfNodesToScore": 100, "profiles": [profile]}
    for pod in (*base.pending, *cluster.get("nominated", ())):
        pod["spec"].pop("schedulerName", None)
    return Case(seed, PREEMPT, config, cluster, base.pending[:PENDING], release)


def _with_nominated_rows(rng: random.Random, seed: int, release: str) -> Case:
    names = [f"n{index}" for index in range(_size(rng))]
    pods = PodGenerator(rng, names, frozenset(IN_TREE), PROFILES[:1], theme=often(rng, 0.7), claims=False)
    plain = pick(rng, (0.3, 0.6, 0.9, 1.0))  # how many pods ask for nothing but amounts
    room = pick(rng, ROOMS)
    cluster: dict[str, list[Object]] = {
        "nodes": [small_node(rng, name, room) for name in names],
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
    }
    per_node = pick(rng, (1, 2, 3, 4, 6, 14)) if len(names) <= MOST_CROWDED else 1
    # With few sizes, nodes and the victims on them are often equals.
    sizes = pick(rng, ((1.0,), (0.5, 1.0), (0.3, 0.7, 1.0, 1.6)))

    def sized(pod: Object, parts: int, sizes: Sequence[float]) -> Object:
        return resize(rng, only_amounts(rng, pod) if often(rng, plain) else pod, room * pick(rng, sizes) / parts)

    cluster["pods"] = [
        sized(_placed(pods.running(f"r{index}"), names[index % len(names)]), per_node, sizes)
        for index in range(per_node * len(names))
        if often(rng, 0.95)
    ]
    obstacle = pick(rng, OBSTACLES) if often(rng, 0.4) else None
    if often(rng, 0.9 if obstacle is be_shunned else 0.35):
        waiting = rng.randint(1, 2 * len(names))
        cluster["nominated"] = [sized(pods.nominated(f"w{index}"), 2, sizes) for index in range(waiting)]
    wants = WANTS if obstacle in (None, cling) or often(rng, 0.2) else (0.0, 0.0, 0.1)
    pending = [sized(pods.pending(f"p{index}"), 1, wants) for index in range(PENDING)]
    for pod in pending:
        if often(rng, 0.1):
            pod["spec"]["affinity"] = pinned(some(rng, names, 3))
    if obstacle is not None:
        obstacle(rng, cluster, pending)
    profile = {"schedulerName": PROFILES[0]}
    config = {**HEAD, "percentageOfNodesToScore": 100, "profiles": [profile]}
    case = Case(seed, PREEMPT, config, cluster, pending, release)
    add_rarer(case)
    return case


def _size(rng: random.Random) -> int:
    if often(rng, 0.01):
        return rng.randint(120, 160)
    return rng.randint(1, 7) if often(rng, 0.9) else rng.randint(8, MOST_CROWDED)


def small_node(rng: random.Random, name: str, room: int) -> Object:
    node = generate_node(rng, name, calm=True)
    if often(rng, 0.85):  # what pods that leave cannot change is met in the other clusters
        node["spec"] = {}
    amounts = {"cpu": str(room), "memory": pick(rng, ("4Gi", "8Gi")), "pods": pick(rng, ("2", "3", *["110"] * 6))}
    if often(rng, 0.3):
        amounts[GPU] = pick(rng, ("1", "2"))
    node["status"] |= {"capacity": amounts, "allocatable": amounts}
    return node


def only_amounts(rng: random.Random, pod: Object) -> Object:
    """Without what only some plugins look at; host ports stay."""
    for field in ("affinity", "nodeSelector", "topologySpreadConstraints", "volumes", "hostNetwork", "initContainers"):
        pod["spec"].pop(field, None)
    for field in ("overhead", "resources", "hostUsers"):
        pod["spec"].pop(field, None)
    pod["spec"]["containers"] = [{"name": "c0", "image": "app:1"}]
    if often(rng, 0.12):
        port = {"containerPort": 80, "hostPort": pick(rng, (80, 443)), "protocol": "TCP"}
        pod["spec"]["containers"][0]["ports"] = [port]
    pod.get("status", {}).pop("containerStatuses", None)
    return pod


def _placed(pod: Object, node_name: str) -> Object:
    pod["spec"]["nodeName"] = node_name
    return pod


def resize(rng: random.Random, pod: Object, room: float) -> Object:
    """The pod, with so much of a node's room for its own."""
    container = pod["spec"]["containers"][0]
    container.setdefault("resources", {}).pop("limits", None)
    requests = {"cpu": f"{int(room * 1000)}m", "memory": "100Mi"}
    if often(rng, 0.15):
        requests["memory"] = pick(rng, ("0", "2Gi", "5Gi"))
    if often(rng, 0.08):
        requests[GPU] = "1"
    container["resources"]["requests"] = requests
    pod["spec"].pop("resources", None)
    return pod


# --- pods ---


def age(rng: random.Random, pod: Object, priorities: Sequence[int], seconds: int) -> None:
    """Give a pod on a node a priority and a start within these seconds, and perhaps an end."""
    set_priority(rng, pod, priorities, none=0.1)
    if often(rng, 0.03):
        pod["spec"]["priority"] = pick(rng, (LEAST, LEAST, SYSTEM))
    status = pod.setdefault("status", {})
    if often(rng, 0.93):
        status["startTime"] = f"2024-01-01T00:00:{rng.randrange(seconds):02d}Z"
    if often(rng, 0.08):
        pod["metadata"]["deletionTimestamp"] = "2024-01-01T01:00:00Z"
    if often(rng, 0.1 if "deletionTimestamp" not in pod["metadata"] else 0.7):
        condition = {
            "type": TARGET,
            "status": pick(rng, ("True", "True", "True", "False")),
            "reason": pick(rng, (BY_SCHEDULER, BY_SCHEDULER, BY_SCHEDULER, "EvictionByEvictionAPI")),
        }
        status["conditions"] = [*status.get("conditions", ()), condition]


def set_priority(rng: random.Random, pod: Object, among: Sequence[int], *, none: float) -> None:
    pod["spec"].pop("priority", None)
    if not often(rng, none):
        pod["spec"]["priority"] = pick(rng, among)


def make_preemptor(rng: random.Random, pod: Object, nodes: list[str]) -> None:
    spec = pod["spec"]
    for field in ("nodeName", "schedulingGates"):
        spec.pop(field, None)
    set_priority(rng, pod, HIGH if often(rng, 0.85) else LOW, none=0.03)
    if often(rng, 0.1):
        spec["preemptionPolicy"] = pick(rng, ("Never", "Never", "PreemptLowerPriority"))
    pod.pop("status", None)
    if often(rng, 0.3):
        pod["status"] = {"nominatedNodeName": pick(rng, [*nodes, "elsewhere"])}
    if often(rng, 0.3):
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in TAINT_KEYS]


def _changed(rng: random.Random, pod: Object, case: Case) -> Object:
    """The pod by the time of preemption; mostly it is as it was when its cycle began."""
    if often(rng, 0.88):
        return pod
    pod = copy.deepcopy(pod)
    change = rng.randrange(4)
    if change == 0:
        pod["metadata"]["labels"] = {key: pick(rng, values) for key, values in POD_LABELS.items() if often(rng, 0.5)}
    elif change == 1:
        pod["spec"]["tolerations"] = [{"key": key, "operator": "Exists"} for key in TAINT_KEYS]
    elif change == 2:
        pod["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": pick(rng, ("0", "1", "3"))}
    elif "status" in pod:
        del pod["status"]
    else:
        nodes = [node["metadata"]["name"] for node in case.cluster["nodes"]]
        pod["status"] = {"nominatedNodeName": pick(rng, [*nodes, "elsewhere"])}
    return pod


def _importance(pod: Object) -> tuple[int, str | None]:
    return pod["spec"].get("priority", 0), pod.get("status", {}).get("startTime")


def distinguish(pods: Sequence[Object]) -> None:
    """Of equally important pods kube-scheduler takes any where there are many, or where they have not been started."""
    pods_on = Counter(pod["spec"]["nodeName"] for pod in pods)
    met: set[tuple[str, int, str | None]] = set()  # node and importance of the pods before
    for index, pod in enumerate(pods):
        node, importance = pod["spec"]["nodeName"], _importance(pod)
        if (node, *importance) in met and (importance[1] is None or pods_on[node] > SORTED_STABLY):
            pod["status"]["startTime"] = f"2024-01-02T00:{index // 60:02d}:{index % 60:02d}Z"
        met.add((node, *importance))


def share_no_port(pods: Sequence[Object]) -> None:
    """Where pods of a node share a host port, kube-scheduler forgets it when one of them leaves: see DIFFERENCES.md."""
    taken: set[tuple[str, str, str, int]] = set()  # node, address, protocol, port
    for pod in pods:
        spec = pod["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            free = []
            for port in container.get("ports", ()):
                number = port.get("hostPort", port["containerPort"] if spec.get("hostNetwork") else 0)
                key = (spec["nodeName"], port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), number)
                if not number or key not in taken:
                    free.append(port)
                    taken.add(key)
            if "ports" in container:
                container["ports"] = free


# --- budgets and arguments ---


def budget_for(rng: random.Random, name: str, case: Case) -> Object:
    budget: Object = {
        "metadata": {"name": name, "namespace": pick(rng, list(NAMESPACES))},
        "spec": {"selector": label_selector(rng, POD_LABELS)},  # sometimes empty, which here is no pod
        "status": {"disruptionsAllowed": pick(rng, (0, 0, 1, 1, 2, -1))},
    }
    if often(rng, 0.08):
        del budget["spec"]["selector"]
    elif often(rng, 0.08):
        budget["spec"]["selector"]["matchExpressions"] = [{"key": "app", "operator": "Near", "values": ["web"]}]
    if case.cluster["pods"] and often(rng, 0.3):
        gone = [pod["metadata"]["name"] for pod in some(rng, case.cluster["pods"], 3)]
        budget["status"]["disruptedPods"] = dict.fromkeys(gone, "2024-01-01T00:00:00Z")
    return budget


def _limit(rng: random.Random, config: Object) -> None:
    """Fewer candidates than nodes are asked for."""
    arguments = {
        "minCandidateNodesPercentage": pick(rng, (0, 10, 30, 60)),
        "minCandidateNodesAbsolute": pick(rng, (1, 2, 3)),
    }
    profile = config["profiles"][0]
    profile["pluginConfig"] = [*profile.get("pluginConfig", ()), {"name": "DefaultPreemption", "args": arguments}]
