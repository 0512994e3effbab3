"""Builders of pods and nodes for tests: `make_pod("web").req(cpu="1").priority(10).obj()`.

A builder is immutable: each method returns a new one, so that a partly built pod can be shared. Methods about a
container (req, limits, image, host_port) change the container added last; there is always one. In names of resources
given as keywords "_" stands for "-" (`ephemeral_storage`); others are given as `**{"example.com/gpu": 1}`. Labels are
given as key, value pairs, or as keywords: `label("app.kubernetes.io/name", "web")`, `label(app="web")`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Labels,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    QuantityMap,
    RawQuantity,
    ResourceRequirements,
    SelectorRequirement,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)

HOSTNAME = "kubernetes.io/hostname"

# Labels to match, a whole selector, or None for no selector.
Selector = LabelSelector | Mapping[str, str] | None


def make_pod(name: str, namespace: str = "default") -> PodBuilder:
    """Return a builder of a pending pod with one container, no requests, and the uid uid-NAMESPACE-NAME."""
    return PodBuilder(
        Pod(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{namespace}-{name}"),
            spec=PodSpec(containers=[Container(name="c0")]),
        )
    )


def make_node(name: str) -> NodeBuilder:
    """Return a builder of a node without capacity, with the hostname label that a kubelet sets."""
    return NodeBuilder(Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels={HOSTNAME: name})))


def pair_up(pairs: tuple[str, ...], keywords: dict[str, str]) -> Labels:
    """Combine key, value pairs and keywords to labels: ("a", "b") and c="d" give {"a": "b", "c": "d"}."""
    if len(pairs) % 2:
        raise TypeError(f"expected key, value pairs, got {pairs}")
    return dict(zip(pairs[::2], pairs[1::2], strict=True)) | keywords


def name_resources(keywords: dict[str, RawQuantity]) -> QuantityMap:
    """Return the keywords with "_" replaced by "-" in resource names without a domain."""
    return {name if "/" in name else name.replace("_", "-"): amount for name, amount in keywords.items()}


class PodBuilder:
    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def obj(self) -> Pod:
        return self._pod

    # --- metadata ---

    def uid(self, uid: str) -> PodBuilder:
        return self._metadata(uid=uid)

    def resource_version(self, version: str) -> PodBuilder:
        return self._metadata(resource_version=version)

    def label(self, *pairs: str, **labels: str) -> PodBuilder:
        return self._metadata(labels={**(self._pod.metadata.labels or {}), **pair_up(pairs, labels)})

    def annotation(self, *pairs: str, **annotations: str) -> PodBuilder:
        return self._metadata(annotations={**(self._pod.metadata.annotations or {}), **pair_up(pairs, annotations)})

    def owner(self, kind: str, name: str, *, api_version: str = "apps/v1", uid: str = "") -> PodBuilder:
        reference = OwnerReference(api_version, kind, name, uid or f"uid-{name}", controller=True)
        return self._metadata(owner_references=[*(self._pod.metadata.owner_references or []), reference])

    def created(self, timestamp: str) -> PodBuilder:
        return self._metadata(creation_timestamp=timestamp)

    def terminating(self, timestamp: str = "2024-01-01T00:00:00Z") -> PodBuilder:
        return self._metadata(deletion_timestamp=timestamp)

    # --- containers ---

    def req(self, **requests: RawQuantity) -> PodBuilder:
        """Add requests to the last container."""
        return self._last_resources(requests=name_resources(requests))

    def limits(self, **limits: RawQuantity) -> PodBuilder:
        """Add limits to the last container; requests do not default to them here (`api.defaults` does that)."""
        return self._last_resources(limits=name_resources(limits))

    def image(self, image: str) -> PodBuilder:
        return self._last(image=image)

    def host_port(self, port: int, protocol: str = "TCP", host_ip: str = "") -> PodBuilder:
        taken = ContainerPort(container_port=port, host_port=port, host_ip=host_ip, protocol=protocol)
        return self._last(ports=[*(self._pod.spec.containers[-1].ports or []), taken])

    def container(self, name: str = "", image: str = "", **requests: RawQuantity) -> PodBuilder:
        """Add a container; later methods about containers change this one."""
        containers = self._pod.spec.containers
        return self._spec(containers=[*containers, _container(name or f"c{len(containers)}", image, requests)])

    def init_container(
        self, name: str = "", image: str = "", restart_policy: str | None = None, **requests: RawQuantity
    ) -> PodBuilder:
        """Add an init container; `restart_policy="Always"` makes it a sidecar."""
        others = self._pod.spec.init_containers or []
        added = replace(_container(name or f"init{len(others)}", image, requests), restart_policy=restart_policy)
        return self._spec(init_containers=[*others, added])

    # --- spec ---

    def node(self, name: str) -> PodBuilder:
        """Set spec.nodeName: the pod is bound to this node."""
        return self._spec(node_name=name)

    def priority(self, priority: int) -> PodBuilder:
        return self._spec(priority=priority)

    def preemption_policy(self, policy: str) -> PodBuilder:
        return self._spec(preemption_policy=policy)

    def grace_period(self, seconds: int) -> PodBuilder:
        """Set the pod's termination grace period in seconds."""
        return self._spec(termination_grace_period_seconds=seconds)

    def scheduler_name(self, name: str) -> PodBuilder:
        return self._spec(scheduler_name=name)

    def scheduling_group(self, name: str) -> PodBuilder:
        """Make the pod a member of the PodGroup of scheduling.k8s.io with this name."""
        return self._spec(scheduling_group=PodSchedulingGroup(name))

    def scheduling_gate(self, name: str) -> PodBuilder:
        return self._spec(scheduling_gates=[*(self._pod.spec.scheduling_gates or []), PodSchedulingGate(name)])

    def host_network(self) -> PodBuilder:
        return self._spec(host_network=True)

    def overhead(self, **amounts: RawQuantity) -> PodBuilder:
        return self._spec(overhead=name_resources(amounts))

    def pod_level_req(self, **requests: RawQuantity) -> PodBuilder:
        """Set spec.resources.requests, the requests of the pod as a whole."""
        return self._spec(resources=ResourceRequirements(requests=name_resources(requests)))

    def toleration(self, key: str = "", operator: str = "", value: str = "", effect: str = "") -> PodBuilder:
        return self._spec(tolerations=[*(self._pod.spec.tolerations or []), Toleration(key, operator, value, effect)])

    def node_selector(self, *pairs: str, **labels: str) -> PodBuilder:
        return self._spec(node_selector={**(self._pod.spec.node_selector or {}), **pair_up(pairs, labels)})

    # --- node affinity ---

    def node_affinity_in(self, key: str, values: Sequence[str]) -> PodBuilder:
        """Add a required node affinity expression `key In values` to the last node selector term (ANDed)."""
        return self.node_affinity(key, "In", values)

    def node_affinity_not_in(self, key: str, values: Sequence[str]) -> PodBuilder:
        return self.node_affinity(key, "NotIn", values)

    def node_affinity(
        self, key: str, operator: str, values: Sequence[str] = (), *, new_term: bool = False
    ) -> PodBuilder:
        """Add a required node affinity expression to the last node selector term (ANDed), or to a new one (ORed)."""
        terms = self._required_terms()
        last = NodeSelectorTerm() if new_term or not terms else terms.pop()
        added = SelectorRequirement(key, operator, list(values) or None)
        return self._require([*terms, replace(last, match_expressions=[*(last.match_expressions or []), added])])

    def node_names(self, *names: str) -> PodBuilder:
        """Add required node affinity terms for nodes of these names, as the DaemonSet controller writes them."""
        fields = [SelectorRequirement("metadata.name", "In", [name]) for name in names]
        return self._require([*self._required_terms(), *(NodeSelectorTerm(match_fields=[field]) for field in fields)])

    def preferred_node_affinity(
        self, weight: int, key: str, values: Sequence[str] = (), operator: str = "In"
    ) -> PodBuilder:
        term = NodeSelectorTerm(match_expressions=[SelectorRequirement(key, operator, list(values) or None)])
        affinity = self._node_affinity()
        others = affinity.preferred_during_scheduling_ignored_during_execution or []
        preferred = [*others, PreferredSchedulingTerm(weight, term)]
        return self._prefer(replace(affinity, preferred_during_scheduling_ignored_during_execution=preferred))

    # --- pod affinity ---

    def pod_affinity(self, topology_key: str, selector: Selector, **namespaces: Any) -> PodBuilder:
        """Add a required pod affinity term.

        `namespaces` may have `namespaces` and `namespace_selector`, as in the API.
        """
        return self._relate("pod_affinity", make_term(topology_key, selector, **namespaces))

    def pod_anti_affinity(self, topology_key: str, selector: Selector, **namespaces: Any) -> PodBuilder:
        return self._relate("pod_anti_affinity", make_term(topology_key, selector, **namespaces))

    def preferred_pod_affinity(
        self, weight: int, topology_key: str, selector: Selector, **namespaces: Any
    ) -> PodBuilder:
        return self._relate("pod_affinity", make_term(topology_key, selector, **namespaces), weight)

    def preferred_pod_anti_affinity(
        self, weight: int, topology_key: str, selector: Selector, **namespaces: Any
    ) -> PodBuilder:
        return self._relate("pod_anti_affinity", make_term(topology_key, selector, **namespaces), weight)

    # --- status ---

    def phase(self, phase: str) -> PodBuilder:
        return self._status(phase=phase)

    def nominated_node(self, name: str) -> PodBuilder:
        return self._status(nominated_node_name=name)

    def condition(
        self, type: str, status: str, reason: str = "", message: str = "", *, since: str | None = None
    ) -> PodBuilder:
        added = PodCondition(type=type, status=status, reason=reason, message=message, last_transition_time=since)
        return self._status(conditions=[*(self._pod.status.conditions or []), added])

    def started(self, timestamp: str) -> PodBuilder:
        return self._status(start_time=timestamp)

    # --- plumbing ---

    def _metadata(self, **changes: Any) -> PodBuilder:
        return PodBuilder(replace(self._pod, metadata=replace(self._pod.metadata, **changes)))

    def _spec(self, **changes: Any) -> PodBuilder:
        return PodBuilder(replace(self._pod, spec=replace(self._pod.spec, **changes)))

    def _status(self, **changes: Any) -> PodBuilder:
        status: PodStatus = replace(self._pod.status, **changes)
        return PodBuilder(replace(self._pod, status=status))

    def _last(self, **changes: Any) -> PodBuilder:
        *others, last = self._pod.spec.containers
        return self._spec(containers=[*others, replace(last, **changes)])

    def _last_resources(self, **changes: QuantityMap) -> PodBuilder:
        old = self._pod.spec.containers[-1].resources or ResourceRequirements()
        merged = {name: {**(getattr(old, name) or {}), **amounts} for name, amounts in changes.items()}
        return self._last(resources=replace(old, **merged))

    def _node_affinity(self) -> NodeAffinity:
        affinity = self._pod.spec.affinity
        return (affinity.node_affinity if affinity else None) or NodeAffinity()

    def _prefer(self, node_affinity: NodeAffinity) -> PodBuilder:
        return self._spec(affinity=replace(self._pod.spec.affinity or Affinity(), node_affinity=node_affinity))

    def _required_terms(self) -> list[NodeSelectorTerm]:
        required = self._node_affinity().required_during_scheduling_ignored_during_execution
        return list(required.node_selector_terms) if required else []

    def _relate(self, kind: str, term: PodAffinityTerm, weight: int | None = None) -> PodBuilder:
        """Add a term of pod affinity or anti-affinity: required, or preferred if it has a weight."""
        affinity = self._pod.spec.affinity or Affinity()
        old: PodAffinity = getattr(affinity, kind) or PodAffinity()
        if weight is None:
            required = [*(old.required_during_scheduling_ignored_during_execution or []), term]
            new = replace(old, required_during_scheduling_ignored_during_execution=required)
        else:
            others = old.preferred_during_scheduling_ignored_during_execution or []
            preferred = [*others, WeightedPodAffinityTerm(weight, term)]
            new = replace(old, preferred_during_scheduling_ignored_during_execution=preferred)
        return self._spec(affinity=replace(affinity, **{kind: new}))

    def _require(self, terms: list[NodeSelectorTerm]) -> PodBuilder:
        required = NodeSelector(node_selector_terms=terms)
        return self._prefer(
            replace(self._node_affinity(), required_during_scheduling_ignored_during_execution=required)
        )


def make_selector(selector: Selector) -> LabelSelector | None:
    """Return a label selector for the given labels; a LabelSelector or None is returned unchanged."""
    return LabelSelector(match_labels=dict(selector)) if isinstance(selector, Mapping) else selector


def make_term(
    topology_key: str,
    selector: Selector,
    *,
    namespaces: Sequence[str] | None = None,
    namespace_selector: Selector = None,
) -> PodAffinityTerm:
    """Return a term of pod affinity or anti-affinity, with namespaces as in the API."""
    names = None if namespaces is None else list(namespaces)
    return PodAffinityTerm(topology_key, make_selector(selector), names, make_selector(namespace_selector))


def _container(name: str, image: str, requests: dict[str, RawQuantity]) -> Container:
    resources = ResourceRequirements(requests=name_resources(requests)) if requests else None
    return Container(name=name, image=image, resources=resources)


class NodeBuilder:
    def __init__(self, node: Node) -> None:
        self._node = node

    def obj(self) -> Node:
        return self._node

    def uid(self, uid: str) -> NodeBuilder:
        return self._metadata(uid=uid)

    def resource_version(self, version: str) -> NodeBuilder:
        return self._metadata(resource_version=version)

    def label(self, *pairs: str, **labels: str) -> NodeBuilder:
        return self._metadata(labels={**(self._node.metadata.labels or {}), **pair_up(pairs, labels)})

    def annotation(self, *pairs: str, **annotations: str) -> NodeBuilder:
        return self._metadata(annotations={**(self._node.metadata.annotations or {}), **pair_up(pairs, annotations)})

    def capacity(self, pods: RawQuantity = 110, **amounts: RawQuantity) -> NodeBuilder:
        """Set capacity and allocatable to these amounts; `pods` defaults to 110, as in the kubelet."""
        capacity: QuantityMap = {**name_resources(amounts), "pods": pods}
        return self._status(capacity=capacity, allocatable=capacity)

    def allocatable(self, **amounts: RawQuantity) -> NodeBuilder:
        """Set allocatable amounts that differ from the capacity; other resources keep theirs."""
        return self._status(allocatable={**(self._node.status.allocatable or {}), **name_resources(amounts)})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> NodeBuilder:
        return self._spec(taints=[*(self._node.spec.taints or []), Taint(key, value, effect)])

    def unschedulable(self) -> NodeBuilder:
        """Mark the node unschedulable as `kubectl cordon` does, without the taint that a controller adds."""
        return self._spec(unschedulable=True)

    def image(self, name: str, size: int) -> NodeBuilder:
        """Add an image of `size` bytes to the node."""
        return self._status(images=[*(self._node.status.images or []), ContainerImage([name], size)])

    def condition(self, type: str, status: str) -> NodeBuilder:
        return self._status(conditions=[*(self._node.status.conditions or []), NodeCondition(type, status)])

    def declared_feature(self, name: str) -> NodeBuilder:
        return self._status(declared_features=[*(self._node.status.declared_features or []), name])

    def _metadata(self, **changes: Any) -> NodeBuilder:
        return NodeBuilder(replace(self._node, metadata=replace(self._node.metadata, **changes)))

    def _spec(self, **changes: Any) -> NodeBuilder:
        spec: NodeSpec = replace(self._node.spec, **changes)
        return NodeBuilder(replace(self._node, spec=spec))

    def _status(self, **changes: Any) -> NodeBuilder:
        status: NodeStatus = replace(self._node.status, **changes)
        return NodeBuilder(replace(self._node, status=status))
