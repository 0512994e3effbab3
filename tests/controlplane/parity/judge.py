"""Is a pod where it may be? Worked out from the apiserver's own objects, one pod and one rule at a time.

None of the scheduler's code is used, so that a mistake of both schedulers would show too. A pod is judged on the
cluster as it is after its binding: scenarios in which pods go or nodes change are judged before they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.verify import overcommitted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEEPS_OFF = ("NoSchedule", "NoExecute")
EVERY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class World:
    """The objects that rules are about."""

    nodes: Mapping[str, Object]  # name -> node
    pods: list[Object]  # of all namespaces, bound or not
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # name -> labels
    claims: Mapping[tuple[str, str], Object] = field(default_factory=dict)  # namespace, name -> claim
    volumes: Mapping[str, Object] = field(default_factory=dict)  # name -> volume

    def others(self, pod: Object) -> list[Object]:
        """The other pods that are bound and not finished."""
        return [other for other in self.pods if _uid(other) != _uid(pod) and _node_of(other) and not is_finished(other)]

    def domain(self, pod: Object, key: str) -> str | None:
        """The value of the topology key on the pod's node."""
        node = self.nodes.get(_node_of(pod))
        return None if node is None else _labels(node).get(key)


def infeasible(pod: Object, world: World) -> list[str]:
    """What forbids the bound pod its node, a sentence each; empty when all is well."""
    node = world.nodes.get(_node_of(pod))
    if node is None:
        return [f"its node {_node_of(pod)} does not exist"]
    return [
        *_closed(pod, node),
        *_clashes(pod, world),
        *overcommitted([node], [each for each in [*world.others(pod), pod] if _node_of(each) == _node_of(pod)]),
        *_lonely(pod, world),
        *_shunned(pod, world),
        *_skewed(pod, world),
        *_out_of_reach(pod, node, world),
    ]


# --- the node itself ---


def _closed(pod: Object, node: Object) -> Iterator[str]:
    taints = [taint for taint in node["spec"].get("taints", []) if taint["effect"] in KEEPS_OFF]
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    for taint in taints:
        if not any(_tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations", [])):
            yield f"taint {taint['key']} is not tolerated"
    if not _selects(pod, node):
        yield "its node selector or affinity does not match"


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    is_any = toleration.get("operator") == "Exists"
    return is_any or toleration.get("value", "") == taint.get("value", "")


def _selects(pod: Object, node: Object) -> bool:
    """The pod's node selector and required node affinity."""
    if any(_labels(node).get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    required = _affinity(pod, "nodeAffinity").get(REQUIRED)
    return required is None or any(_is_met(term, node) for term in required["nodeSelectorTerms"])


def _is_met(term: Object, node: Object) -> bool:
    """A node selector term; one that says nothing matches nothing."""
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    return all(_holds(each, _labels(node)) for each in expressions) and all(
        _holds(each, {"metadata.name": node["metadata"]["name"]}) for each in fields
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
    raise ValueError(f"unknown operator {expression['operator']!r}")


# --- the pods beside it ---


def _clashes(pod: Object, world: World) -> Iterator[str]:
    beside = [other for other in world.others(pod) if _node_of(other) == _node_of(pod)]
    for wanted in _host_ports(pod):
        for other in beside:
            if any(_is_same_port(wanted, port) for port in _host_ports(other)):
                yield f"host port {wanted[2]} is also that of {other['metadata']['name']}"


def _host_ports(pod: Object) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or EVERY_ADDRESS, port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port.get("hostPort")
    ]


def _is_same_port(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or EVERY_ADDRESS in (one[0], other[0]))


def _lonely(pod: Object, world: World) -> Iterator[str]:
    """Required affinity. The first of a series may be alone, when it would attract itself."""
    for term in _affinity(pod, "podAffinity").get(REQUIRED, []):
        key = term["topologyKey"]
        there = world.domain(pod, key)
        attracting = [other for other in world.others(pod) if _means(term, pod, other, world)]
        if there is None or (attracting and all(world.domain(other, key) != there for other in attracting)):
            yield f"no pod that it needs is in its {key}"
        if there is not None and not attracting and not _means(term, pod, pod, world):
            yield "there is no pod that it needs, and it does not match its own affinity"


def _shunned(pod: Object, world: World) -> Iterator[str]:
    """Required anti-affinity, its own and that of others."""
    for other in world.others(pod):
        for holder, meant in ((pod, other), (other, pod)):
            for term in _affinity(holder, "podAntiAffinity").get(REQUIRED, []):
                key = term["topologyKey"]
                there = world.domain(pod, key)
                if there is not None and world.domain(other, key) == there and _means(term, holder, meant, world):
                    yield f"anti-affinity of {holder['metadata']['name']} in {key}"


def _means(term: Object, holder: Object, other: Object, world: World) -> bool:
    """Is the other pod one of those a pod affinity term is about?"""
    namespace = _namespace(other)
    named = namespace in term.get("namespaces", [])
    selector = term.get("namespaceSelector")
    selected = selector is not None and _matches(selector, world.namespaces.get(namespace, {}))
    own = not term.get("namespaces") and selector is None and namespace == _namespace(holder)
    return (named or selected or own) and _matches(term.get("labelSelector"), _labels(other))


def _skewed(pod: Object, world: World) -> Iterator[str]:
    """Hard topology spread constraints. The apiserver has put `matchLabelKeys` into their selectors."""
    for rule in pod["spec"].get("topologySpreadConstraints", []):
        if rule["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        key = rule["topologyKey"]
        counts = {_labels(node)[key]: 0 for node in world.nodes.values() if _counts(rule, pod, node)}
        for other in [*world.others(pod), pod]:
            there = world.domain(other, key)
            is_meant = _namespace(other) == _namespace(pod) and _matches(rule.get("labelSelector"), _labels(other))
            if there in counts and is_meant and "deletionTimestamp" not in other["metadata"]:
                counts[there] += 1
        own = world.domain(pod, key)
        if own not in counts:
            yield f"its node has no {key}"
            continue
        least = 0 if len(counts) < rule.get("minDomains", 1) else min(counts.values())
        if counts[own] - least > rule["maxSkew"]:
            yield f"{counts[own]} pods in {own}, {least} elsewhere, with a maxSkew of {rule['maxSkew']}"


def _counts(rule: Object, pod: Object, node: Object) -> bool:
    """Is the node's domain one that a spread constraint is about?"""
    if rule["topologyKey"] not in _labels(node):
        return False
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not _selects(pod, node):
        return False
    return rule.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not list(_closed(pod, node))


# --- its volumes ---


def _out_of_reach(pod: Object, node: Object, world: World) -> Iterator[str]:
    for volume in pod["spec"].get("volumes", []):
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if "ephemeral" in volume:
            name = f"{pod['metadata']['name']}-{volume['name']}"
        if name is None:
            continue
        claim = world.claims.get((_namespace(pod), name))
        found = world.volumes.get(claim["spec"].get("volumeName", "")) if claim else None
        if found is None:
            yield f"claim {name} has no volume"
            continue
        required = found["spec"].get("nodeAffinity", {}).get("required")
        if required is not None and not any(_is_met(term, node) for term in required["nodeSelectorTerms"]):
            yield f"volume {found['metadata']['name']} cannot be accessed from {node['metadata']['name']}"


# --- reading objects ---


def _matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """A label selector; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _holds(each, labels) for each in selector.get("matchExpressions", [])
    )


def _affinity(pod: Object, kind: str) -> Object:
    found: Object = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return found


def is_finished(pod: Object) -> bool:
    """Finished pods take nothing and concern nobody."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _labels(found: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = found["metadata"].get("labels", {})
    return labels


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _namespace(pod: Object) -> str:
    return str(pod["metadata"]["namespace"])


def _uid(found: Object) -> Any:
    return found["metadata"]["uid"]


def by_name(objects: Iterable[Object]) -> dict[str, Object]:
    """Objects without a namespace, by name."""
    return {each["metadata"]["name"]: each for each in objects}
