"""Runs a plan on a fresh cluster with one scheduler.

Operations are carried out one after another, as in scheduler_perf. Background changes end with the last operation; then
the scheduler is stopped, and the outcome is checked once nothing changes any more.
"""

from __future__ import annotations

import contextlib
import fnmatch
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from kscheduler.testing.controlplane import HarnessError, RequestFailed, workload
from kscheduler.testing.controlplane.load import Batch, Created
from perf.workloads.background import Background, Churning, Deleting, Updating
from perf.workloads.collection import Collected, Collection
from perf.workloads.devices import allocations, node_slice
from perf.workloads.judge import Ledger, judge
from perf.workloads.kept_connections import KeptConnections
from perf.workloads.object_template import Object, ObjectTemplate
from perf.workloads.operations import (
    AllocResourceClaims,
    AnyOperation,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    DeletePods,
    NodeAllocatable,
    Sleep,
    StartCollectingMetrics,
    UpdateAny,
)
from perf.workloads.site import Connection, Site
from perf.workloads.suite import Plan, seconds

TIMEOUT_S = 600.0  # scheduler_perf's: what is not bound by then is a failure
ATTEMPT_POLL_S = 1.0
EVENTS_POLL_S = 0.25
EVENTS_QUIET_S = 3.0  # without another Event; those that are missing then will not come
EVENTS_TIMEOUT_S = 120.0
# Fewer objects than these are created over a connection that is there; more are worth a process of their own.
FEW = 100

PODS = "/api/v1/namespaces/{namespace}/pods"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measurements of one run, and whether its outcome is right."""

    collected: Collected
    evicted: int
    churned: int  # objects created by background changes
    problems: list[str]  # what is wrong with the outcome; empty if nothing


def measure(site: Site, plan: Plan, timeout_s: float = TIMEOUT_S) -> Outcome:
    """Carry out the plan. However it ends, nothing of it is left running."""
    with site:
        with Execution(site, plan, timeout_s) as execution:
            execution.run()
            execution.let_events_arrive()
        site.stop_scheduler()
        with contextlib.closing(site.connect()) as connection:
            verdict = judge(
                execution.ledger,
                connection.list_all("/api/v1/nodes"),
                connection.list_all("/api/v1/pods"),
                site.scheduled_events(),
                connection.list_all("/apis/resource.k8s.io/v1/resourceclaims") if plan.needs_claims else (),
            )
    if execution.collected is None:
        raise HarnessError(f"{plan.name} measured nothing")
    churned = sum(churning.created for churning in execution.churning)
    return Outcome(execution.collected, verdict.evicted, churned, verdict.problems)


class Execution:
    """A plan that is being run; leaving the context ends its background changes."""

    def __init__(self, site: Site, plan: Plan, timeout_s: float) -> None:
        self._site = site
        self._plan = plan
        self._timeout_s = timeout_s
        self._ends = contextlib.ExitStack()
        self._api = self._ends.enter_context(contextlib.closing(site.connect()))
        self._background = self._ends.enter_context(Background(site.connect))
        self._collection: Collection | None = None  # between start and stop
        self._awaited: dict[str, set[str]] = {}  # namespace -> keys of its pods that nobody has waited for
        self._numbers: Counter[str] = Counter()  # path and name of what is created -> how many were
        self.churning: list[Churning] = []
        self.collected: Collected | None = None
        self.ledger = Ledger()

    def __enter__(self) -> Execution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.close()

    def run(self) -> None:
        """Every operation, in order, and the end of what goes on beside them."""
        for operation in self._plan.operations:
            self._carry_out(operation)
        self._background.end()
        self._check()

    def let_events_arrive(self) -> None:
        """Events have a lane of their own and may still be on their way; wait while some are missing or come."""
        deadline = time.monotonic() + EVENTS_TIMEOUT_S
        seen, since_s = -1, time.monotonic()
        while time.monotonic() < deadline:
            found = len(self._site.scheduled_events())
            if found != seen:
                seen, since_s = found, time.monotonic()
            elif found >= len(self._site.pods.bound()) or time.monotonic() - since_s >= EVENTS_QUIET_S:
                return
            time.sleep(EVENTS_POLL_S)

    def _carry_out(self, operation: AnyOperation) -> None:
        match operation:
            case CreateNodes():
                self._create_nodes(operation)
            case CreateNamespaces():
                self._create_namespaces(operation)
            case CreatePods():
                self._create_pods(operation)
            case CreateAny():
                self._create_any(operation)
            case UpdateAny():
                self._update_any(operation)
            case DeletePods():
                self._delete_pods(operation)
            case Churn():
                self._churn(operation)
            case Barrier():
                self._wait_for(operation)
            case CreateResourceDriver():
                self._create_driver(operation)
            case AllocResourceClaims():
                self._allocate_claims(operation)
            case Sleep():
                time.sleep(seconds(operation.duration))
            case StartCollectingMetrics():
                self._collection = Collection(self._site, operation.namespaces)
            case _:
                assert self._collection is not None, "the plan was checked"
                self.collected = self._collection.finish()

    # --- nodes and namespaces ---

    def _create_nodes(self, operation: CreateNodes) -> None:
        """1. As the template says.  2. With the labels and amounts that strategies add.  3. What CSI says of them."""
        path = operation.node_template_path
        made = self._plan.templates[path].objects(operation.count) if path else [workload.node()]
        nodes = [_named(each) for each in made]
        nodes = [_with_labels(node, {"kubernetes.io/hostname": node["metadata"]["name"]}) for node in nodes]
        if operation.label_node_prepare_strategy is not None:
            strategy = operation.label_node_prepare_strategy
            nodes = _in_turn(nodes, operation.count, strategy.label_key, strategy.label_values)
        if operation.unique_node_label_strategy is not None:
            key = operation.unique_node_label_strategy.label_key
            nodes = [_with_labels(node, {key: f"unique-{node['metadata']['name']}"}) for node in nodes]
        allocatable = operation.node_allocatable_strategy
        if allocatable is not None:
            nodes = [_with_allocatable(node, allocatable) for node in nodes]
        first = self._create("/api/v1/nodes", nodes, operation.count)
        if allocatable is not None and allocatable.csi_node_allocatable:
            drivers = [_csi_node(node["metadata"]["name"], allocatable) for node in nodes]
            self._site.create(Batch("/apis/storage.k8s.io/v1/csinodes", drivers, operation.count, first))

    def _create_namespaces(self, operation: CreateNamespaces) -> None:
        path = operation.namespace_template_path
        for number in range(operation.count):
            made: Object = self._plan.templates[path].object(number, operation.count) if path else {}
            self._ensure_namespace(f"{operation.prefix}-{number}", made.get("metadata", {}))

    def _ensure_namespace(self, name: str, metadata: Mapping[str, Any] | None = None) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {**(metadata or {}), "name": name}}
        try:
            self._api.create("/api/v1/namespaces", body)
        except RequestFailed as error:
            if error.reason != "AlreadyExists":
                raise

    # --- pods ---

    def _create_pods(self, operation: CreatePods) -> None:
        namespace = operation.namespace
        self._ensure_namespace(namespace)
        pods, first = self._numbered_pods(operation)
        self._create_volumes(operation, pods, first)
        if operation.skip_wait_to_completion:
            keys, _ = self._post_pods(operation, pods, first)
            self._awaited.setdefault(namespace, set()).update(keys)
            return
        collection = Collection(self._site, [namespace]) if operation.collect_metrics else None
        if operation.steady_state:
            self._replace_pods(operation, pods, first)
            if collection is not None:
                self.collected = collection.finish()
            return
        keys, created = self._post_pods(operation, pods, first)
        self._site.pods.wait_bound(keys, self._timeout_s, self._check)
        if collection is not None:
            self.collected = collection.finish(created)
        self.ledger.waited_for.update(keys)

    def _replace_pods(self, operation: CreatePods, pods: list[Object], first: int) -> None:
        """Create the pods, delete them once all are bound, and begin again with other names until the time is over."""
        where = PODS.format(namespace=operation.namespace)
        until_s = time.monotonic() + seconds(operation.duration)
        with KeptConnections(self._site.connect) as connections:
            while True:
                keys = self._note_created(operation, pods, first)
                bodies = [_numbered(pods[number % len(pods)], first + number) for number in range(operation.count)]
                connections.send([partial(_create, path=where, body=body) for body in bodies])
                self._site.pods.wait_bound(keys, self._timeout_s, self._check)
                self.ledger.deleted.update(keys)
                if time.monotonic() >= until_s:
                    self.ledger.deleted.difference_update(keys)
                    self.ledger.waited_for.update(keys)
                    return
                connections.send([partial(_delete_now, path=f"{where}/{key.partition('/')[2]}") for key in keys])
                first = self._first_number(where, pods, operation.count)

    def _numbered_pods(self, operation: CreatePods) -> tuple[list[Object], int]:
        """What the pods are like, and the number of the first."""
        path, count = operation.pod_template_path, operation.count
        if path:
            self._note_priority(self._plan.templates[path])
        made = self._plan.templates[path].objects(count) if path else [workload.pod("pod-{index}")]
        pods = [_named(each) for each in made]
        if operation.persistent_volume_template_path:
            pods = [_with_claim(pod) for pod in pods]
        return pods, self._first_number(PODS.format(namespace=operation.namespace), pods, count)

    def _post_pods(self, operation: CreatePods, pods: list[Object], first: int) -> tuple[list[str], Created | None]:
        """Create them; their keys, and how fast they came if that was measured."""
        keys, count = self._note_created(operation, pods, first), operation.count
        where = PODS.format(namespace=operation.namespace)
        if operation.collect_metrics or count > FEW:
            rate_per_s = self._plan.rate_per_s if operation.collect_metrics else None
            return keys, self._site.create(Batch(where, pods, count, first, rate_per_s=rate_per_s))
        self._create_few(where, pods, count, first)
        return keys, None

    def _note_created(self, operation: CreatePods, pods: list[Object], first: int) -> list[str]:
        """Note in the ledger that they are created, and return their keys."""
        keys = [f"{operation.namespace}/{_name_of(pods, number, first)}" for number in range(operation.count)]
        for number, key in enumerate(keys):
            self.ledger.created[key] = _priority(pods[number % len(pods)])
        return keys

    def _create_volumes(self, operation: CreatePods, pods: list[Object], first: int) -> None:
        """A volume and a claim for each pod, bound to one another; they are there before the first pod comes."""
        if not operation.persistent_volume_template_path:
            return
        namespace, count = operation.namespace, operation.count
        volume = self._plan.templates[operation.persistent_volume_template_path].object()
        claim = self._plan.templates[operation.persistent_volume_claim_template_path].object()
        names = [(_claim_name(pod), f"{namespace}-{pod['metadata']['name']}") for pod in pods]
        claims = [_bound_claim(claim, of_claim, of_volume) for of_claim, of_volume in names]
        where = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._site.create(Batch(where, claims, count, first))
        volumes = [_bound_volume(volume, of_volume, namespace, of_claim) for of_claim, of_volume in names]
        self._site.create(Batch("/api/v1/persistentvolumes", volumes, count, first))

    def _delete_pods(self, operation: DeletePods) -> None:
        collection = PODS.format(namespace=operation.namespace)
        found = [pod for pod in self._api.list_all(collection) if _has_labels(pod, operation.label_selector)]
        names = [pod["metadata"]["name"] for pod in found]
        self.ledger.deleted |= {f"{operation.namespace}/{name}" for name in names}
        if not operation.delete_pods_per_second and not operation.label_selector:
            self._api.request("DELETE", collection)
            return
        deleting = Deleting([f"{collection}/{name}" for name in names])
        interval_s = 1.0 / operation.delete_pods_per_second if operation.delete_pods_per_second else 0.0
        if operation.skip_wait_to_completion:
            self._background.repeat(f"deleting in {operation.namespace}", deleting.step, interval_s)
        else:
            while deleting.step(self._api):
                time.sleep(interval_s)

    # --- devices ---

    def _create_driver(self, operation: CreateResourceDriver) -> None:
        names = [node["metadata"]["name"] for node in self._api.list_all("/api/v1/nodes")]
        slices = [
            node_slice(operation.driver_name, name, operation.max_claims_per_node)
            for name in names
            if fnmatch.fnmatchcase(name, operation.nodes)
        ]
        if not slices:
            raise HarnessError(f"{self._plan.name}: createResourceDriver: no node is called {operation.nodes}")
        self._site.create(Batch("/apis/resource.k8s.io/v1/resourceslices", slices, len(slices)))

    def _allocate_claims(self, operation: AllocResourceClaims) -> None:
        """Write an allocation to each claim without one; the nodes' order is drawn, the same in each run."""
        group = "/apis/resource.k8s.io/v1"
        chosen = f"{group}/namespaces/{operation.namespace}" if operation.namespace else group
        found = allocations(
            nodes=self._api.list_all("/api/v1/nodes"),
            slices=self._api.list_all(f"{group}/resourceslices"),
            classes=self._api.list_all(f"{group}/deviceclasses"),
            claims=self._api.list_all(f"{group}/resourceclaims"),
            chosen=self._api.list_all(f"{chosen}/resourceclaims"),
            release=self._plan.release,
        )
        for claim in found:
            metadata = claim["metadata"]
            self._api.replace(
                f"{group}/namespaces/{metadata['namespace']}/resourceclaims/{metadata['name']}/status", claim
            )

    # --- any object ---

    def _create_any(self, operation: CreateAny) -> None:
        template = self._plan.templates[operation.template_path]
        where = self._any_path(template, operation.namespace, operation.template_path)
        if operation.namespace:
            self._ensure_namespace(operation.namespace)
        made = template.objects(operation.count)
        # A name that is made up is made up by the apiserver.
        if operation.count > FEW:
            self._site.create(Batch(where, made, operation.count))
        else:
            self._create_few(where, made, operation.count, 0)

    def _update_any(self, operation: UpdateAny) -> None:
        template = self._plan.templates[operation.template_path]
        where = self._any_path(template, operation.namespace, operation.template_path)
        objects = [template.object(number, operation.count) for number in range(operation.count)]
        updating = Updating(where, objects, operation.subresources)
        interval_s = 1.0 / operation.update_per_second if operation.update_per_second else 0.0
        while updating.step(self._api):
            time.sleep(interval_s)

    def _churn(self, operation: Churn) -> None:
        sources = []
        for path in operation.template_paths:
            template = self._plan.templates[path]
            self._note_priority(template)
            sources.append((self._collection_path(template, operation.namespace), template.object()))
        self._ensure_namespace(operation.namespace)
        churning = Churning(operation, sources)
        self.churning.append(churning)
        self._background.repeat(
            f"churn in {operation.namespace}", churning.step, operation.interval_milliseconds / 1000
        )

    def _any_path(self, template: ObjectTemplate, namespace: str, written: str) -> str:
        path = self._collection_path(template, namespace)
        if ("/namespaces/" in path) != bool(namespace):
            raise HarnessError(
                f"{self._plan.name}: {written}: a {template.kind} "
                + ("is in no namespace, got one" if namespace else "is in a namespace, got none")
            )
        if namespace:
            self._ensure_namespace(namespace)
        return path

    def _collection_path(self, template: ObjectTemplate, namespace: str) -> str:
        """Where objects like the template are created, which the apiserver knows."""
        version, kind = template.api_version, template.kind
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self._api.get(base)["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                middle = f"/namespaces/{namespace or 'default'}" if resource["namespaced"] else ""
                return f"{base}{middle}/{resource['name']}"
        raise HarnessError(f"{self._plan.name}: the cluster has no kind {kind!r} in {version}")

    # --- many objects ---

    def _create(self, path: str, templates: Sequence[Object], count: int) -> int:
        """Create so many, the templates taking turns; returns the number of the first."""
        first = self._first_number(path, templates, count)
        self._site.create(Batch(path, templates, count, first))
        return first

    def _create_few(self, path: str, templates: Sequence[Object], count: int, first: int) -> None:
        for number in range(count):
            self._api.create(path, _numbered(templates[number % len(templates)], first + number))

    def _first_number(self, path: str, templates: Sequence[Object], count: int) -> int:
        """Objects are numbered on where another step made some of the same name."""
        name = templates[0]["metadata"]["name"]
        first = self._numbers[f"{path} {name}"]
        self._numbers[f"{path} {name}"] += count
        return first

    def _note_priority(self, template: ObjectTemplate) -> None:
        if template.kind == "Pod":
            self.ledger.highest_priority = max(self.ledger.highest_priority, template.priority)

    # --- waiting ---

    def _wait_for(self, operation: Barrier) -> None:
        for namespace in operation.namespaces or list(self._awaited):
            if operation.stage_requirement == "Attempted":
                self._wait_attempted(namespace, operation.label_selector)
                continue
            keys = self._awaited.pop(namespace, set()) - self.ledger.deleted
            if operation.label_selector:
                found = self._api.list_all(PODS.format(namespace=namespace))
                chosen = {_key(pod) for pod in found if _has_labels(pod, operation.label_selector)}
                self._awaited[namespace] = keys - chosen
                keys &= chosen
            self._site.pods.wait_bound(keys, self._timeout_s, self._check)
            self.ledger.waited_for.update(keys)

    def _wait_attempted(self, namespace: str, labels: Mapping[str, str]) -> None:
        """An attempt is seen by its condition; that of a gate is written when the pod is created."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            found = self._api.list_all(PODS.format(namespace=namespace))
            chosen = [pod for pod in found if _key(pod) in self._awaited[namespace] and _has_labels(pod, labels)]
            attempted = sum(1 for pod in chosen if pod["spec"].get("nodeName") or _has_condition(pod))
            if attempted == len(chosen):
                return
            self._check()
            if time.monotonic() > deadline:
                raise HarnessError(
                    f"{attempted} of {len(chosen)} pods of {namespace} were attempted in {self._timeout_s:.0f} s"
                )
            time.sleep(ATTEMPT_POLL_S)

    def _check(self) -> None:
        """Raise when the end cannot come."""
        self._site.check()
        self._background.check()


# --- requests ---


def _create(connection: Connection, *, path: str, body: Object) -> None:
    connection.create(path, body)


def _delete_now(connection: Connection, *, path: str) -> None:
    connection.request("DELETE", f"{path}?gracePeriodSeconds=0")


# --- objects ---


def _named(made: Object) -> Object:
    """A copy whose name is known: what the apiserver would make up is the object's number."""
    metadata = dict(made["metadata"])
    prefix = metadata.pop("generateName", "")
    metadata.setdefault("name", f"{prefix}{{index}}")
    return {**made, "metadata": metadata}


def _numbered(made: Any, number: int) -> Any:
    """The object with its number in place of `{index}`."""
    if isinstance(made, dict):
        return {key: _numbered(value, number) for key, value in made.items()}
    if isinstance(made, list):
        return [_numbered(value, number) for value in made]
    return made.replace("{index}", str(number)) if isinstance(made, str) else made


def _name_of(templates: Sequence[Object], number: int, first: int) -> str:
    return str(templates[number % len(templates)]["metadata"]["name"]).replace("{index}", str(first + number))


def _with_labels(made: Object, labels: Mapping[str, str]) -> Object:
    metadata = made["metadata"]
    return {**made, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


def _in_turn(nodes: list[Object], count: int, key: str, values: Sequence[str]) -> list[Object]:
    """The nodes, or the one that all are like, with the values in turn."""
    wanted = len(values) if len(nodes) == 1 else count
    return [_with_labels(nodes[number % len(nodes)], {key: values[number % len(values)]}) for number in range(wanted)]


def _with_allocatable(node: Object, strategy: NodeAllocatable) -> Object:
    status = node["status"]
    amounts = {**status.get("capacity", {}), **status.get("allocatable", {}), **strategy.node_allocatable}
    return {**node, "status": {**status, "allocatable": amounts}}


def _csi_node(name: str, strategy: NodeAllocatable) -> Object:
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": {"count": limit.count}}
        for driver, limit in strategy.csi_node_allocatable.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
    metadata = {"name": name, "annotations": annotations if strategy.migrated_plugins else {}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def _claim_name(pod: Object) -> str:
    return f"claim-{pod['metadata']['name']}"


def _with_claim(pod: Object) -> Object:
    volume = {"name": "volume", "persistentVolumeClaim": {"claimName": _claim_name(pod)}}
    return {**pod, "spec": {**pod["spec"], "volumes": [volume]}}


def _bound_claim(claim: Object, name: str, volume_name: str) -> Object:
    metadata = {**claim["metadata"], "name": name}
    metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "true", **(metadata.get("annotations") or {})}
    return {**claim, "metadata": metadata, "spec": {**claim["spec"], "volumeName": volume_name}}


def _bound_volume(volume: Object, name: str, namespace: str, claim_name: str) -> Object:
    """The volume under its own name and handle, promised to the claim."""
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name}
    spec = {**volume["spec"], "claimRef": claim}
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": name}
    if "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": name}
    return {**volume, "metadata": {**volume["metadata"], "name": name}, "spec": spec}


def _has_labels(made: Object, labels: Mapping[str, str]) -> bool:
    has = made["metadata"].get("labels") or {}
    return all(has.get(key) == value for key, value in labels.items())


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


def _has_condition(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition["type"] == "PodScheduled" for condition in conditions)
