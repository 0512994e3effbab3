"""A plan carried out on a control plane of its own, under one scheduler that runs from the beginning to the end.

Operations follow one another as in scheduler_perf. What goes on beside them ends with the last; then the scheduler
ends, and the outcome is judged when nothing moves any more.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from perf.control_plane_run import MEBIBYTE, Peer
from perf.workloads.background import Background, Churning, Deleting
from perf.workloads.collection import Collected, Collection, wait_bound
from perf.workloads.judge import Ledger, judge
from perf.workloads.operations import (
    AnyOperation,
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    Sleep,
    StartCollectingMetrics,
)
from perf.workloads.suite import Object, Plan, seconds
from tests.controlplane.harness import ApiserverOptions, BindWatch, ControlPlane, HarnessError, RequestFailed, workload
from tests.controlplane.harness.api import KeptApi
from tests.controlplane.harness.load import Created, create, nodes, pods

TIMEOUT_S = 600.0  # scheduler_perf's: what is not bound by then is a failure
ATTEMPT_POLL_S = 1.0
EVENTS_POLL_S = 1.0
EVENTS_POLLS = 120

# Pods say their priority themselves, which the admission of PriorityClasses would refuse.
NO_PRIORITY_CLASSES = ("--disable-admission-plugins=Priority",)


@dataclass(frozen=True, slots=True)
class Result:
    """What one run took, and whether it was right."""

    scheduler: str
    workload: str
    collected: Collected
    evicted: int
    churned: int  # objects created beside the measured ones
    problems: list[str]  # empty is right

    @property
    def pods_per_s(self) -> float:
        return self.collected.pods / self.collected.seconds

    @property
    def cpu_ms_per_pod(self) -> float:
        return 1000 * self.collected.scheduler_cpu_s / self.collected.pods

    @property
    def apiserver_cpu_ms_per_pod(self) -> float:
        return 1000 * self.collected.apiserver_cpu_s / self.collected.pods

    @property
    def peak_memory_mib(self) -> float:
        return self.collected.peak_memory_bytes / MEBIBYTE


def measure(name: str, start: Callable[[ControlPlane], Peer], plan: Plan, timeout_s: float = TIMEOUT_S) -> Result:
    """Carry out the plan. However it ends, nothing of it is left running."""
    with ControlPlane(ApiserverOptions(extra_flags=NO_PRIORITY_CLASSES)) as control_plane:
        peer = start(control_plane)
        with Execution(control_plane, peer, plan, timeout_s) as execution:
            execution.run()
            execution.let_events_arrive()
        peer.stop()
        verdict = judge(
            execution.ledger,
            control_plane.api.list_all("/api/v1/nodes"),
            control_plane.api.list_all("/api/v1/pods"),
            control_plane.api.list_all("/api/v1/events", fieldSelector="reason=Scheduled"),
        )
    if execution.collected is None:
        raise HarnessError(f"{plan.name} measured nothing")
    churned = sum(churning.created for churning in execution.churning)
    return Result(name, plan.name, execution.collected, verdict.evicted, churned, verdict.problems)


class Execution:
    """One plan under way; leaving the context ends what goes on beside it."""

    def __init__(self, control_plane: ControlPlane, peer: Peer, plan: Plan, timeout_s: float) -> None:
        self._plane = control_plane
        self._peer = peer
        self._plan = plan
        self._timeout_s = timeout_s
        self._ends = contextlib.ExitStack()
        self._background = self._ends.enter_context(Background(self._connect))
        self._collection: Collection | None = None  # between start and stop
        self._awaited: Counter[str] = Counter()  # namespace -> pods that nobody has waited for
        self._numbers: Counter[str] = Counter()  # path of a template -> objects made of it
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
        """Events have a lane of their own and may still be on their way; wait while their number grows."""
        seen = -1
        for _ in range(EVENTS_POLLS):
            found = len(self._plane.api.list_all("/api/v1/events", fieldSelector="reason=Scheduled"))
            if found == seen:
                return
            seen = found
            time.sleep(EVENTS_POLL_S)

    def _carry_out(self, operation: AnyOperation) -> None:
        match operation:
            case CreateNodes():
                self._create_nodes(operation)
            case CreateNamespaces():
                for number in range(operation.count):
                    self._ensure_namespace(f"{operation.prefix}-{number}")
            case CreatePods():
                self._create_pods(operation)
            case DeletePods():
                self._delete_pods(operation)
            case Churn():
                self._churn(operation)
            case Barrier():
                self._wait_for(operation)
            case Sleep():
                time.sleep(seconds(operation.duration))
            case StartCollectingMetrics():
                self._collection = self._collect(operation.namespaces)
            case _:
                assert self._collection is not None, "the plan was checked"
                self.collected = self._collection.finish()

    # --- creating ---

    def _create_nodes(self, operation: CreateNodes) -> None:
        path = operation.node_template_path
        template = _named(self._plan.templates[path] if path else workload.node())
        name = template["metadata"]["name"]
        labels = {**template["metadata"].get("labels", {}), "kubernetes.io/hostname": name}
        template["metadata"]["labels"] = labels
        first = self._take_numbers(f"node {path}", operation.count)
        create(self._plane.credentials, nodes(operation.count, first=first, templates=[template]))

    def _create_pods(self, operation: CreatePods) -> None:
        namespace = operation.namespace
        self._ensure_namespace(namespace)
        if operation.skip_wait_to_completion:
            self._post_pods(operation)
            self._awaited[namespace] += operation.count
        elif operation.collect_metrics:
            collection = self._collect([namespace])
            created = self._post_pods(operation)
            collection.wait(namespace, operation.count, self._timeout_s, self._check)
            self.collected = collection.finish(created)
        else:
            before = self._bound_in(namespace)
            with BindWatch(self._plane.credentials, namespace) as watch:
                self._post_pods(operation)
                wait_bound(watch, before + operation.count, self._timeout_s, self._check)
        if not operation.skip_wait_to_completion and not self._awaited[namespace]:
            self.ledger.waited_for.add(namespace)

    def _post_pods(self, operation: CreatePods) -> Created:
        path, namespace = operation.pod_template_path, operation.namespace
        template = _named(self._plan.templates[path] if path else workload.pod())
        self._note_priority(template)
        first = self._take_numbers(f"pod {path}", operation.count)
        name = template["metadata"]["name"]
        for number in range(first, first + operation.count):
            self.ledger.created[f"{namespace}/{name.replace('{index}', str(number))}"] = _priority(template)
        return create(self._plane.credentials, pods(operation.count, namespace, first=first, templates=[template]))

    def _churn(self, operation: Churn) -> None:
        self._ensure_namespace(operation.namespace)
        sources = []
        for path in operation.template_paths:
            template = self._plan.templates[path]
            self._note_priority(template)
            sources.append((self._collection_path(template, operation.namespace), template))
        churning = Churning(operation, sources)
        self.churning.append(churning)
        self._background.repeat(
            f"churn in {operation.namespace}", churning.step, operation.interval_milliseconds / 1000
        )

    def _delete_pods(self, operation: DeletePods) -> None:
        collection = f"/api/v1/namespaces/{operation.namespace}/pods"
        names = [pod["metadata"]["name"] for pod in self._plane.api.list_all(collection)]
        self.ledger.deleted |= {f"{operation.namespace}/{name}" for name in names}
        if not operation.delete_pods_per_second:
            self._plane.api.request("DELETE", collection)
            return
        deleting = Deleting([f"{collection}/{name}" for name in names])
        interval_s = 1.0 / operation.delete_pods_per_second
        if operation.skip_wait_to_completion:
            self._background.repeat(f"deleting in {operation.namespace}", deleting.step, interval_s)
        else:
            with contextlib.closing(self._connect()) as api:
                while deleting.step(api):
                    time.sleep(interval_s)

    def _ensure_namespace(self, name: str) -> None:
        try:
            self._plane.create_namespace(name)
        except RequestFailed as error:
            if error.reason != "AlreadyExists":
                raise

    def _connect(self) -> KeptApi:
        return KeptApi(self._plane.credentials)

    def _take_numbers(self, of: str, count: int) -> int:
        first = self._numbers[of]
        self._numbers[of] += count
        return first

    def _note_priority(self, template: Object) -> None:
        if template["kind"] == "Pod":
            self.ledger.highest_priority = max(self.ledger.highest_priority, _priority(template))

    # --- waiting ---

    def _wait_for(self, operation: Barrier) -> None:
        for namespace in operation.namespaces or list(self._awaited):
            if operation.stage_requirement == "Attempted":
                self._wait_attempted(namespace, self._awaited[namespace])
            else:
                self._awaited.pop(namespace, None)
                left = self.ledger.created.keys() - self.ledger.deleted
                count = sum(1 for key in left if key.startswith(f"{namespace}/"))
                with BindWatch(self._plane.credentials, namespace) as watch:
                    wait_bound(watch, count, self._timeout_s, self._check)
                self.ledger.waited_for.add(namespace)

    def _wait_attempted(self, namespace: str, count: int) -> None:
        """An attempt is seen by its condition; that of a gate is written when the pod is created."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            found = self._plane.api.list_all(f"/api/v1/namespaces/{namespace}/pods")
            attempted = sum(1 for pod in found if pod["spec"].get("nodeName") or _has_condition(pod))
            if attempted >= count:
                return
            self._check()
            if time.monotonic() > deadline:
                raise HarnessError(f"{attempted} of {count} pods of {namespace} were attempted in {self._timeout_s} s")
            time.sleep(ATTEMPT_POLL_S)

    def _check(self) -> None:
        """Raise when the end cannot come."""
        self._background.check()
        process = self._peer.process
        if not process.is_running:
            raise HarnessError(f"{process.name} ended by itself with exit code {process.exit_code}")

    def _collect(self, namespaces: list[str] | tuple[str, ...]) -> Collection:
        return self._ends.enter_context(Collection(self._plane, self._peer, namespaces))

    def _bound_in(self, namespace: str) -> int:
        return len(self._plane.api.list_all(f"/api/v1/namespaces/{namespace}/pods", fieldSelector="spec.nodeName!="))

    def _collection_path(self, template: Object, namespace: str) -> str:
        """Where objects like the template are created, which the apiserver knows."""
        version, kind = template["apiVersion"], template["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self._plane.api.get(base)["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                middle = f"/namespaces/{namespace}" if resource["namespaced"] else ""
                return f"{base}{middle}/{resource['name']}"
        raise HarnessError(f"the apiserver has no kind {kind!r} in {version}")


def _named(template: Object) -> Object:
    """A copy whose name is known: what the apiserver would make up is the object's number."""
    metadata = dict(template["metadata"])
    prefix = metadata.pop("generateName", "")
    metadata.setdefault("name", f"{prefix}{{index}}")
    return {**template, "metadata": metadata}


def _priority(template: Object) -> int:
    return int(template["spec"].get("priority", 0))


def _has_condition(pod: Object) -> bool:
    return any(condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions", ()))
