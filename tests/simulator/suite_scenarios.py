"""The workloads of perf/workloads as scenarios for a simulation: one operation after the other, at fixed times.

Nobody waits for pods as a measured run does: an operation begins STEP_S after the one before. Operations beside others
(churn, deletion at a rate) make a few rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kscheduler.api.decode import convert_object
from kscheduler.client.kinds import GROUPS, NAMESPACES, NODES, PODS, STORAGE, Resource
from kscheduler.client.protocol import EventType
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.scenario import Arrival, Scenario
from perf.workloads import execution
from perf.workloads.object_template import Object
from perf.workloads.operations import (
    AnyOperation,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
)
from perf.workloads.suite import Plan, Suite

STEP_S = 7.31  # no multiple of latencies and periods: what happens at one instant may come in either order
APART_S = 0.0137  # pods of an operation come so long one after the other
ROUNDS = 6  # of what goes on beside others

_RESOURCES: tuple[Resource[Any], ...] = (PODS, NODES, *GROUPS, *STORAGE)
_KINDS = {each.kind: each for each in _RESOURCES}


def small_plans() -> dict[str, Plan]:
    """Return the plans of all cases without claims for devices and PodGroups, by name, in their smallest size."""
    suite = Suite()
    plans = {case.name: suite.plan(case.name, "small") for case in suite.cases}
    return {name: plan for name, plan in plans.items() if not (plan.needs_claims or has_groups(plan))}


def has_groups(plan: Plan) -> bool:
    """Whether pods belong to PodGroups."""
    return any(template.kind == "PodGroup" for template in plan.templates.values())


class SuiteScenario:
    """Builds the scenario of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._scenario = Scenario()
        self._numbers: Counter[str] = Counter()
        self._namespaces: set[str] = set()

    def build(self) -> Scenario:
        for number, operation in enumerate(self._plan.operations):
            self._add(operation, number * STEP_S)
        self._scenario.arrivals.sort(key=lambda arrival: arrival.at_s)
        self._scenario.changes.sort(key=lambda change: change.at_s)
        return self._scenario

    def _add(self, operation: AnyOperation, at_s: float) -> None:
        match operation:
            case CreateNodes():
                self._add_nodes(operation)
            case CreateNamespaces():
                self._add_namespaces(operation)
            case CreatePods():
                self._add_pods(operation, at_s)
            case CreateAny():
                made = self._plan.templates[operation.template_path].objects(operation.count)
                for number in range(operation.count):
                    self._change(at_s, execution._named(made[number % len(made)]), operation.namespace)
            case DeletePods():
                self._delete_pods(operation, at_s)
            case Churn():
                self._churn(operation, at_s)
            case _:
                pass

    def _add_nodes(self, operation: CreateNodes) -> None:
        path = operation.node_template_path
        made = [execution._named(each) for each in self._plan.templates[path].objects(operation.count)]
        strategy, unique = operation.label_node_prepare_strategy, operation.unique_node_label_strategy
        if strategy is not None:
            made = execution._in_turn(made, operation.count, strategy.label_key, strategy.label_values)
        allocatable = operation.node_allocatable_strategy
        for node in self._numbered(made, operation.count):
            labels = {"kubernetes.io/hostname": node["metadata"]["name"]}
            if unique is not None:
                labels[unique.label_key] = f"unique-{node['metadata']['name']}"
            node = execution._with_labels(node, labels)
            if allocatable is not None:
                node = execution._with_allocatable(node, allocatable)
                self._store(execution._csi_node(node["metadata"]["name"], allocatable))
            self._scenario.nodes.append(convert_object(node, NODES.type))

    def _add_namespaces(self, operation: CreateNamespaces) -> None:
        path = operation.namespace_template_path
        for number in range(operation.count):
            made = self._plan.templates[path].object(number, operation.count) if path else {}
            self._ensure_namespace(f"{operation.prefix}-{number}", made.get("metadata", {}))

    def _add_pods(self, operation: CreatePods, at_s: float) -> None:
        self._ensure_namespace(operation.namespace)
        made = [
            execution._named(each)
            for each in self._plan.templates[operation.pod_template_path].objects(operation.count)
        ]
        if operation.persistent_volume_template_path:
            made = [execution._with_claim(pod) for pod in made]
        for number, pod in enumerate(self._numbered(made, operation.count)):
            if operation.persistent_volume_template_path:
                self._add_volume(operation, pod)
            self._arrive(at_s + number * APART_S, pod, operation.namespace)

    def _add_volume(self, operation: CreatePods, pod: Object) -> None:
        namespace, claim_name = operation.namespace, execution._claim_name(pod)
        volume_name = f"{namespace}-{pod['metadata']['name']}"
        claim = self._plan.templates[operation.persistent_volume_claim_template_path].object()
        volume = self._plan.templates[operation.persistent_volume_template_path].object()
        self._store(_within(execution._bound_claim(claim, claim_name, volume_name), namespace))
        self._store(execution._bound_volume(volume, volume_name, namespace, claim_name))

    def _delete_pods(self, operation: DeletePods, at_s: float) -> None:
        arrivals = self._scenario.arrivals
        for place, arrival in enumerate(arrivals):
            if arrival.pod.metadata.namespace == operation.namespace and arrival.leaves_at_s is None:
                arrivals[place] = replace(arrival, leaves_at_s=at_s + place * APART_S)

    def _churn(self, operation: Churn, at_s: float) -> None:
        self._ensure_namespace(operation.namespace)
        interval_s = operation.interval_milliseconds / 1000 + APART_S
        leaves_s = 2 * interval_s if operation.mode == "recreate" else None
        for number in range(ROUNDS):
            for path in operation.template_paths:
                (made,) = self._numbered([execution._named(self._plan.templates[path].object())], 1)
                when_s = at_s + number * interval_s
                if made["kind"] == PODS.kind:
                    self._arrive(when_s, made, operation.namespace, leaves_s)
                else:
                    self._change(when_s, made, operation.namespace, leaves_s)

    # --- objects ---

    def _ensure_namespace(self, name: str, metadata: Object | None = None) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            self._change(0.0, {"kind": NAMESPACES.kind, "metadata": {**(metadata or {}), "name": name}}, "")

    def _numbered(self, made: Sequence[Object], count: int) -> list[Object]:
        name = str(made[0]["metadata"]["name"])
        first = self._numbers[name]
        self._numbers[name] += count
        return [execution._numbered(made[number % len(made)], first + number) for number in range(count)]

    def _store(self, made: Object) -> None:
        self._scenario.storage.append(convert_object(made, _KINDS[made["kind"]].type))

    def _arrive(self, at_s: float, made: Object, namespace: str, leaves_s: float | None = None) -> None:
        pod = convert_object(_within(made, namespace), PODS.type)
        self._scenario.arrivals.append(Arrival(at_s, pod, None, None if leaves_s is None else at_s + leaves_s))

    def _change(self, at_s: float, made: Object, namespace: str, leaves_s: float | None = None) -> None:
        resource = _KINDS[made["kind"]]
        item = convert_object(_within(made, namespace) if resource.namespaced else made, resource.type)
        self._scenario.changes.append(ObjectChange(at_s, resource, EventType.ADDED, item))
        if leaves_s is not None:
            self._scenario.changes.append(ObjectChange(at_s + leaves_s, resource, EventType.DELETED, item))


def _within(made: Object, namespace: str) -> Object:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}
