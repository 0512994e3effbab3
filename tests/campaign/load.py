"""The cluster's life during a campaign: pods come and go, and objects change behind the schedulers' back.

The cluster is kept nearly full, so that a pod whose room was given away twice finds too little.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import queue
import random
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kscheduler.testing.controlplane import ControlPlane, RequestFailed, workload
from kscheduler.testing.controlplane.api import KeptApi
from kscheduler.testing.controlplane.verify import amounts, pod_request
from tests.campaign.history import History

NODES = 16
ZONES = 4
TICK_S = 0.1
PER_TICK = 3  # pods created and removed
MOST_WAITING = 25
FULL = 0.85  # of the CPU: from here on bound pods are removed
NAMESPACE = "campaign"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SPREAD_ON = "topology.kubernetes.io/zone"
IMPOSSIBLE = "impossible"  # label of pods that fit nowhere
FAILURES = (OSError, http.client.HTTPException, RequestFailed)

Object = dict[str, Any]


class Load:
    """Works on a thread of its own; `do` hands it a fault of objects."""

    def __init__(self, control_plane: ControlPlane, history: History, seed: int) -> None:
        self._api = KeptApi(control_plane.credentials)
        self._history = history
        self._chance = random.Random(f"load {seed}")
        self._numbers = itertools.count()
        self._jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._live, name="load", daemon=True)
        self._faults: dict[str, Callable[[], None]] = {
            "node-recreated": self._make_node_again,
            "node-resized": self._resize_node,
            "node-cordoned": lambda: self._change_node({"unschedulable": True}),
            "node-tainted": lambda: self._change_node({"taints": [{"key": "campaign", "effect": "NoSchedule"}]}),
            "pods-deleted": self._delete_waiting,
            "pods-recreated": self._make_pods_again,
            "pods-bound-by-another": self._bind_elsewhere,
            "pods-of-high-priority": self._create_urgent,
        }

    def start(self) -> None:
        """Create the namespace, priority class, budget and nodes, and begin."""
        self._api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
        budget = {"minAvailable": "90%", "selector": {"matchLabels": {"app": "guarded"}}}
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
        self._api.create(path, {"metadata": {"name": "guarded"}, "spec": budget})
        for index in range(NODES):
            self._create_node(index)
        for _ in range(2):
            self._create_pod({"cpu": "100"}, {IMPOSSIBLE: "true"})
        self._thread.start()

    def do(self, kind: str) -> None:
        """Bring a fault of objects about soon."""
        self._jobs.put(kind)

    def stop(self) -> None:
        """Leave the cluster as it is."""
        self._ending.set()
        self._thread.join()

    def open_nodes(self) -> None:
        """Take taints and cordons away."""
        for name in self._history.current("node"):
            with contextlib.suppress(RequestFailed):
                self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None, "unschedulable": None}})

    def close(self) -> None:
        """Hang up."""
        self._api.close()

    def add_room(self) -> None:
        """Add nodes that have room for everything."""
        for index in range(NODES, 2 * NODES):
            self._create_node(index, cpu="64")

    def _live(self) -> None:
        while not self._ending.wait(TICK_S):
            with contextlib.suppress(*FAILURES):
                while not self._jobs.empty():
                    self._faults[self._jobs.get()]()
                self._turn_over()

    def _turn_over(self) -> None:
        pods = self._history.current("pod")
        bound = [key for key, pod in pods.items() if pod["spec"].get("nodeName")]
        if len(pods) - len(bound) < MOST_WAITING:
            for _ in range(PER_TICK):
                self._create_pod(*self._shape())
        room = sum(amounts(node["status"]["allocatable"])["cpu"] for node in self._history.current("node").values())
        used = sum((pod_request(pods[key])["cpu"] for key in bound), Fraction(0))
        if used > room * Fraction(FULL):
            for key in self._chance.sample(bound, min(PER_TICK, len(bound))):
                self._delete(key)

    def _shape(self) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
        requests = {"cpu": self._chance.choice(["250m", "500m", "1"]), "memory": "256Mi"}
        labels = {"app": self._chance.choice(["web", "store", "guarded"])}
        like = {"labelSelector": {"matchLabels": labels}}
        spec: dict[str, Any] = {}
        kind = self._chance.random()
        if kind < 0.1:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 5, "topologyKey": SPREAD_ON, "whenUnsatisfiable": "DoNotSchedule", **like}
            ]
        elif kind < 0.15:
            preferred = {"weight": 10, "podAffinityTerm": {"topologyKey": SPREAD_ON, **like}}
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        elif kind < 0.25:
            spec["nodeSelector"] = {SPREAD_ON: f"zone-{self._chance.randrange(ZONES)}"}
        elif kind < 0.28:
            requests = {"cpu": "250m", "memory": "256Mi"}
            spec["ports"] = 8000 + self._chance.randrange(3)
        return requests, labels, spec

    def _create_pod(self, requests: dict[str, str], labels: dict[str, str], spec: Object | None = None) -> None:
        spec = {"terminationGracePeriodSeconds": 0, **(spec or {})}
        port = spec.pop("ports", None)
        made = workload.pod(f"pod-{next(self._numbers)}", requests=requests, labels=labels, spec=spec)
        if port:
            made["spec"]["containers"][0]["ports"] = [{"hostPort": port, "containerPort": port}]
        self._api.create(PODS, made)

    def _create_node(self, index: int, cpu: str = "4") -> None:
        capacity = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        node = workload.node(f"node-{index}", capacity=capacity, labels={SPREAD_ON: f"zone-{index % ZONES}"})
        self._api.create("/api/v1/nodes", node)

    def _delete(self, key: str) -> None:
        self._api.delete(f"{PODS}/{key.partition('/')[2]}", missing_ok=True)

    def _waiting(self, most: int) -> list[tuple[str, Object]]:
        found = [
            (key, pod)
            for key, pod in self._history.current("pod").items()
            if not pod["spec"].get("nodeName") and IMPOSSIBLE not in pod["metadata"].get("labels", {})
        ]
        return self._chance.sample(found, min(most, len(found)))

    def _make_node_again(self) -> None:
        """The node goes with the pods on it, and another of the same name comes, as after a repair."""
        index = self._chance.randrange(NODES)
        self._api.delete(f"/api/v1/nodes/node-{index}", missing_ok=True)
        for key, pod in self._history.current("pod").items():
            if pod["spec"].get("nodeName") == f"node-{index}":
                self._delete(key)
        self._create_node(index)

    def _resize_node(self) -> None:
        cpu = self._chance.choice(["3", "4", "5"])
        path = f"/api/v1/nodes/node-{self._chance.randrange(NODES)}/status"
        self._api.patch(path, {"status": {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}})

    def _change_node(self, spec: Object) -> None:
        """Close a node, and open another that is closed."""
        closed = [
            name
            for name, node in self._history.current("node").items()
            if node["spec"].get("taints") or node["spec"].get("unschedulable")
        ]
        for name in closed[:2]:
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None, "unschedulable": None}})
        self._api.patch(f"/api/v1/nodes/node-{self._chance.randrange(NODES)}", {"spec": spec})

    def _delete_waiting(self) -> None:
        for key, _ in self._waiting(5):
            self._delete(key)

    def _make_pods_again(self) -> None:
        for key, pod in self._waiting(5):
            self._delete(key)
            again = {"metadata": {"name": key.partition("/")[2], "labels": pod["metadata"].get("labels", {})}}
            kept = ("containers", "schedulerName", "nodeSelector", "terminationGracePeriodSeconds", "affinity")
            again["spec"] = {field: pod["spec"][field] for field in kept if field in pod["spec"]}
            self._api.create(PODS, again)

    def _bind_elsewhere(self) -> None:
        for key, _ in self._waiting(2):
            target = {"kind": "Node", "name": f"node-{self._chance.randrange(NODES)}"}
            with contextlib.suppress(RequestFailed):  # the scheduler was first
                self._api.create(f"{PODS}/{key.partition('/')[2]}/binding", {"target": target})

    def _create_urgent(self) -> None:
        for _ in range(3):
            self._create_pod({"cpu": "1", "memory": "256Mi"}, {"app": "urgent"}, {"priorityClassName": "urgent"})
