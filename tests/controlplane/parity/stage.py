"""Where a scenario is played to one scheduler: namespaces of the play's own, nodes and objects that go after it.

Names of namespaces are logical (`main`, `other`); on the control plane each play has its own. Waiting is by watch. A
wait in vain ends nothing: it is written down, becomes part of the outcome, and so shows in the comparison.
"""

from __future__ import annotations

import copy
import itertools
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import KeptApi, Object
from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.faults import HarnessError, RequestFailed
from kscheduler.testing.controlplane.mirror import Mirror
from kscheduler.testing.controlplane.patience import Patience, notified
from tests.controlplane.parity.judge import World, by_name, infeasible

MAIN = "main"
PODS = "pods"
FOREIGN = "someone-else"  # the profile of pods that neither scheduler is to look after
IDLE_S = 30.0  # of a scheduler that does not do what is expected: its backoff is 10 s

# What a probe is refused with: it names a node that nobody has, so it is refused by whichever nodes there are.
PROBE_AFFINITY: Object = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["no-such-node"]}]}
            ]
        }
    }
}
NODES_SEEN = re.compile(r"^0/(\d+) nodes are available")
NO_NODES = "no nodes available"

APPS = "apis/apps/v1"
GENERATED = "[bcdfghjklmnpqrstvwxz2456789]{5}"  # the end of a name that the apiserver makes up

_numbers = itertools.count(1)


class Names(Protocol):
    """How a side calls the profiles of the scenarios."""

    def scheduler_name(self, profile: str) -> str: ...

    def profile_name(self, scheduler_name: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Switch:
    """Starts and kills the scheduler that is played to."""

    start: Callable[[], object]  # does nothing if it runs
    kill: Callable[[], object]  # as a crash does: it has no time to finish anything


ALWAYS_ON = Switch(start=lambda: None, kill=lambda: None)  # of a scheduler that runs, and is not to be killed


class Cluster:
    """The control plane with mirrors of what schedulers do, for all plays of a session."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.api = KeptApi(control_plane.credentials)
        self.control_plane = control_plane
        self.changed = threading.Condition()
        self.pods = self._mirror("/api/v1/pods", keeps_gone=True)
        self.nodes = self._mirror("/api/v1/nodes")
        self.events = self._mirror("/apis/events.k8s.io/v1/events")
        self.claims = self._mirror("/api/v1/persistentvolumeclaims")
        self.volumes = self._mirror("/api/v1/persistentvolumes")
        self.budgets = self._mirror("/apis/policy/v1/poddisruptionbudgets")
        self.replica_sets = self._mirror("/apis/apps/v1/replicasets")
        self.resource_claims = self._mirror("/apis/resource.k8s.io/v1/resourceclaims")
        self._mirrors = (
            *(self.pods, self.nodes, self.events),
            *(self.claims, self.volumes, self.budgets, self.replica_sets, self.resource_claims),
        )

    def __enter__(self) -> Cluster:
        for mirror in self._mirrors:
            mirror.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for mirror in self._mirrors:
            mirror.__exit__(kind, error, traceback)
        self.api.close()

    def _mirror(self, path: str, *, keeps_gone: bool = False) -> Mirror:
        return Mirror(self.api.credentials, path, self.changed, keeps_gone=keeps_gone)


class Stage:
    """One play: what it created, what it waited for, and what a judge found wrong. `clear` removes all of it."""

    def __init__(self, cluster: Cluster, names: Names, switch: Switch = ALWAYS_ON) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.names = names
        self._switch = switch
        self.given_up: list[str] = []  # waits in vain
        self.wrong: list[str] = []  # bindings that the judge finds infeasible
        self._number = next(_numbers)
        self._namespaces: dict[str, str] = {}  # logical name -> real name
        self._created: list[str] = []  # paths of objects other than nodes and pods
        self._replicated: list[str] = []  # names of ReplicaSets
        self._node_names: set[str] = set()
        self._judged: set[str] = set()  # uids of pods whose binding was judged
        self._probes = itertools.count(1)
        self._is_awake = False  # does the scheduler run?
        self._unseen: set[str] = set()  # resources whose last changes the scheduler may not have seen yet
        self.create_namespace(MAIN)
        self.create_namespace("probes")

    # --- the scheduler ---

    def start_scheduler(self) -> None:
        """Start the scheduler, unless it runs."""
        self._switch.start()
        self._is_awake = True

    def kill_scheduler(self) -> None:
        """Kill the scheduler. What is created from now on is not waited for, until it is started again."""
        self._switch.kill()
        self._is_awake = False

    # --- creating ---

    def create_namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        """A namespace by its logical name."""
        self.change("namespaces")
        real = f"{name}-{self._number}"
        self._namespaces[name] = real
        self.api.create("/api/v1/namespaces", {"metadata": {"name": real, "labels": labels or {}}})

    def create_node(self, node: Object) -> None:
        """A node; the next pod or fence waits until the scheduler has seen it."""
        self.change("nodes")
        self.api.create("/api/v1/nodes", node)
        self._node_names.add(node["metadata"]["name"])

    def delete_node(self, name: str) -> None:
        """Delete a node; the next pod or fence waits until the scheduler has seen it."""
        self.change("nodes")
        self.api.delete(f"/api/v1/nodes/{name}")
        self._node_names.discard(name)

    def create_pod(self, pod: Object, namespace: str = MAIN) -> None:
        """A pod; its scheduler is named as in scenarios. What was changed before is seen before it."""
        self.change(PODS)
        self._create_pod(pod, namespace)

    def _create_pod(self, pod: Object, namespace: str) -> None:
        scheduler = self.names.scheduler_name(pod["spec"]["schedulerName"])
        named = {**pod, "spec": {**pod["spec"], "schedulerName": scheduler}}
        self.api.create(self.path("pods", namespace=namespace), named)

    def create_replicas(self, replica_set: Object) -> None:
        """A ReplicaSet; its template names the scheduler as pods do. Its pods are all called `NAME-*`."""
        self.change(PODS)
        made = copy.deepcopy(replica_set)
        spec = made["spec"]["template"]["spec"]
        spec["schedulerName"] = self.names.scheduler_name(spec["schedulerName"])
        self._replicated.append(made["metadata"]["name"])
        self.api.create(self.path("replicasets", group=APPS), made)

    def create(self, document: Object, namespace: str = MAIN) -> None:
        """Any other object, from a manifest. Namespaced objects go to the play's namespace."""
        group = document["apiVersion"]
        base = f"/apis/{group}" if "/" in group else f"/api/{group}"
        resource = plural(document["kind"])
        self.change(resource)
        if document["kind"] in CLUSTER_WIDE:
            self._name_claimant(document)
        else:
            base = f"{base}/namespaces/{self._namespaces[namespace]}"
        self.api.create(f"{base}/{resource}", document)
        self._created.append(f"{base}/{resource}/{document['metadata']['name']}")

    def _name_claimant(self, document: Object) -> None:
        """A volume that is meant for a claim names its namespace."""
        if claimant := document.get("spec", {}).get("claimRef"):
            claimant["namespace"] = self._namespaces[claimant["namespace"]]

    def change(self, resource: str) -> None:
        """Objects of a resource are about to change. What was changed of others is seen before, where it matters.

        Schedulers watch each resource by itself: they may see a later change of one before an earlier one of another,
        and then wake pods, place them, or bind one that is gone. That matters for pods, and while pods wait.
        """
        if self._is_awake and self._unseen - {resource} and (self._is_about_pods(resource) or self._do_pods_wait()):
            self.fence()
        self._unseen.add(resource)

    def pods_are_seen(self) -> None:
        """The scheduler has decided the last pod, so it has seen all that was changed of pods before."""
        self._unseen.discard(PODS)

    def _is_about_pods(self, resource: str) -> bool:
        return PODS in (resource, *self._unseen)

    def _do_pods_wait(self) -> bool:
        return not all(pod["spec"].get("nodeName") for pod in self.own_pods())

    def path(self, resource: str, name: str = "", namespace: str = MAIN, group: str = "api/v1") -> str:
        """The path of a resource in the play's namespace."""
        base = f"/{group}/namespaces/{self._namespaces[namespace]}/{resource}"
        return f"{base}/{name}" if name else base

    # --- looking ---

    def pods(self) -> dict[str, Object]:
        """namespace/name, both as scenarios know them -> pod, as last seen."""
        return self._by_key(self.cluster.pods)

    def own_pods(self) -> list[Object]:
        """The pods that are the scheduler's to decide."""
        return self._own(self.pods().values())

    def gone_pods(self) -> list[Object]:
        """Those that were the scheduler's to decide and have been deleted, as they last were."""
        return self._own(pod for real in self._played() for pod in self.cluster.pods.gone(real))

    def _own(self, pods: Iterable[Object]) -> list[Object]:
        foreign = self.names.scheduler_name(FOREIGN)
        return [pod for pod in pods if pod["spec"]["schedulerName"] != foreign]

    def claims(self) -> dict[str, Object]:
        """namespace/name -> claim."""
        return self._by_key(self.cluster.claims)

    def resource_claims(self) -> dict[str, Object]:
        """namespace/name -> claim for devices."""
        return self._by_key(self.cluster.resource_claims)

    def events(self) -> list[Object]:
        """Events of the play's namespaces, probes left out."""
        return [event for real in self._played() for event in self.cluster.events.objects(real)]

    def nodes(self) -> dict[str, Object]:
        """Node name -> node."""
        return {node["metadata"]["name"]: node for node in self.cluster.nodes.objects()}

    def pod(self, key: str) -> Object:
        """A pod by name, or by namespace/name; empty when there is none."""
        return self.pods().get(key if "/" in key else f"{MAIN}/{key}", {})

    def named(self, name: str) -> list[Object]:
        """The pods of a name, which for replicas may be several: `web-*`."""
        if "*" in name:
            return [pod for pod in self.pods().values() if self.mask(pod["metadata"]["name"]) == name]
        return [found] if (found := self.pod(name)) else []

    def budget(self, name: str) -> Object:
        """A PodDisruptionBudget of the main namespace; empty when there is none."""
        return self.cluster.budgets.get(name, self._namespaces[MAIN]) or {}

    def mask(self, text: str) -> str:
        """The text with what differs from play to play replaced."""
        for name, real in self._namespaces.items():
            text = text.replace(real, name)
        for name in self._replicated:
            text = re.sub(rf"\b{name}-{GENERATED}\b", f"{name}-*", text)
        text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
        return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)

    def _by_key(self, mirror: Mirror) -> dict[str, Object]:
        return {
            f"{name}/{each['metadata']['name']}": each
            for name, real in self._namespaces.items()
            if name != "probes"
            for each in mirror.objects(real)
        }

    def _played(self) -> Iterable[str]:
        return [real for name, real in self._namespaces.items() if name != "probes"]

    # --- waiting ---

    def wait(self, is_so: Callable[[], object], what: str) -> bool:
        """Wait for something to be seen; what did not happen though nothing moves any more is written down."""
        try:
            notified(self.cluster.changed, is_so, Patience(what, idle_s=IDLE_S))
        except HarnessError:
            self.given_up.append(f"waited in vain: {self.mask(what)}")
            return False
        return True

    def fence(self) -> None:
        """Wait until the scheduler has decided a pod that was created after all that was done until now, and noted it.

        Its Event has to be seen too: those about refusals before it were sent before, but nothing else shows that they
        have arrived. A pod refused twice has an Event for each time, and the first alone fits its condition.
        The probe's message also says how many nodes the scheduler knows; when one is missing or left over, another
        probe is sent. What else was changed was on its way to the scheduler before the probe was.
        """
        for _ in range(20):
            if self._probe() == len(self._node_names):
                self._unseen.clear()
                return
        raise HarnessError(f"the scheduler does not see {len(self._node_names)} nodes")

    def _probe(self) -> int:
        name = f"probe-{next(self._probes)}"
        pod = workload.pod(name, scheduler_name="default", spec={"affinity": PROBE_AFFINITY})
        self._create_pod(pod, "probes")
        namespace = self._namespaces["probes"]
        seen = ""

        def is_refused() -> bool:
            nonlocal seen
            found = self.cluster.pods.get(name, namespace)
            if not found:
                return False
            seen = condition(found).get("message", "")
            return bool(seen) and any(
                each["regarding"].get("uid") == found["metadata"]["uid"]
                for each in self.cluster.events.objects(namespace)
            )

        notified(self.cluster.changed, is_refused, Patience(f"the scheduler decides {name}"))
        self.api.delete(self.path("pods", name, "probes"))
        counted = NODES_SEEN.match(seen)
        if counted is None and NO_NODES not in seen:
            raise HarnessError(f"a probe was refused with: {seen}")
        return int(counted[1]) if counted else 0

    def judge(self) -> None:
        """Look at the bindings since the last look, on the cluster as it is."""
        world = self._world()
        for pod in self.own_pods():
            uid = pod["metadata"]["uid"]
            if pod["spec"].get("nodeName") and uid not in self._judged:
                self._judged.add(uid)
                self.wrong += [self.mask(f"{pod['metadata']['name']}: {each}") for each in infeasible(pod, world)]

    def _world(self) -> World:
        # Asked for now: mirrors follow one by one, and a binding may be seen before the change that allowed it.
        namespaces = self.api.list_all("/api/v1/namespaces")
        claims = self.api.list_all("/api/v1/persistentvolumeclaims")
        return World(
            nodes=by_name(self.api.list_all("/api/v1/nodes")),
            pods=self.api.list_all("/api/v1/pods"),
            namespaces={each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in namespaces},
            claims={(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims},
            volumes=by_name(self.api.list_all("/api/v1/persistentvolumes")),
        )

    # --- the end ---

    def clear(self) -> None:
        """Remove what the play created, and wait until all of it is gone."""
        # 1. Pods first, since claims of their own are made again while they are there. They are made again
        #    themselves while there are replicas to be.
        self._remove_replicas()
        for real in self._namespaces.values():
            self.api.delete(f"/api/v1/namespaces/{real}/pods")
        self._wait_gone(lambda: not self._left(self.cluster.pods))
        # 2. Claims before volumes, since claims are provisioned for.
        if self.cluster.claims.objects() or self.cluster.volumes.objects():
            for real in self._played():
                self._remove_all(f"/api/v1/namespaces/{real}/persistentvolumeclaims")
            self._wait_gone(lambda: not self._left(self.cluster.claims))
            self._remove_all("/api/v1/persistentvolumes")
        # 3. Claims for devices go when their controller has seen that nobody uses them any more.
        if self._left(self.cluster.resource_claims):
            for real in self._played():
                self.api.delete(f"/apis/resource.k8s.io/v1/namespaces/{real}/resourceclaims")
            self._wait_gone(lambda: not self._left(self.cluster.resource_claims))
        # 4. The rest in any order.
        for path in reversed(self._created):
            self.api.delete(path, missing_ok=True)
        for real in self._namespaces.values():
            self._remove_namespace(real)
        self.api.delete("/api/v1/nodes")
        self._wait_gone(lambda: not (self.cluster.nodes.objects() or self.cluster.volumes.objects()))

    def _remove_replicas(self) -> None:
        """Delete ReplicaSets once their controller has nothing more to do for them."""
        paths = [self.path("replicasets", name, group=APPS) for name in self._replicated]
        for path in paths:
            self.api.patch(path, {"spec": {"replicas": 0}}, "application/merge-patch+json")
        self._wait_gone(lambda: all(map(_has_none, self._left(self.cluster.replica_sets))))
        for path in paths:
            self.api.delete(path)

    def _wait_gone(self, is_gone: Callable[[], bool]) -> None:
        notified(self.cluster.changed, is_gone, Patience("the objects of a play are gone after it"))

    def _remove_all(self, collection: str) -> None:
        """Delete claims or volumes. Nobody runs the controllers that let go of protected ones."""
        for found in self.api.list_all(collection):
            path = f"{collection}/{found['metadata']['name']}"
            try:
                self.api.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
                self.api.delete(path)
            except RequestFailed as error:
                if error.status != 404:  # its last finalizer held it
                    raise

    def _remove_namespace(self, name: str) -> None:
        path = f"/api/v1/namespaces/{name}"
        deleted = self.api.delete(path)
        deleted["spec"]["finalizers"] = []
        self.api.replace(f"{path}/finalize", deleted)

    def _left(self, mirror: Mirror) -> list[Object]:
        return [each for each in mirror.objects() if each["metadata"]["namespace"] in self._namespaces.values()]


# Kinds without a namespace that scenarios create, beside nodes and namespaces.
CLUSTER_WIDE = (
    *("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "PriorityClass"),
    *("DeviceClass", "ResourceSlice", "DeviceTaintRule"),
)


def _has_none(replica_set: Object) -> bool:
    """Is it to have no replicas, and does its controller say that it is so?"""
    status = replica_set.get("status", {})
    is_seen = status.get("observedGeneration") == replica_set["metadata"]["generation"]
    return bool(is_seen and replica_set["spec"]["replicas"] == 0 == status.get("replicas", 0))


def plural(kind: str) -> str:
    """A kind's name in paths."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def condition(pod: Object, kind: str = "PodScheduled") -> Object:
    """One of the pod's conditions, or an empty one."""
    found = pod.get("status", {}).get("conditions", [])
    return next((entry for entry in found if entry["type"] == kind), {})
