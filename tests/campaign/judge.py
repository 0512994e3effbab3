"""The outside judge: reads etcd's revisions and the apiserver's audit log, and shares no code with the scheduler.

It counts for itself, as `kscheduler/testing/controlplane/verify.py` does. What happened to a node behind the
schedulers' back (it shrank, was created again, or somebody else put a pod onto it) counts against them only after
`KNOWN_AFTER_S`.
"""

from __future__ import annotations

import datetime
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kscheduler.testing.controlplane.verify import Amounts, amounts, pod_request
from tests.campaign.history import Change

KNOWN_AFTER_S = 30.0
WOKEN_S = 5.0  # a leader that was stopped beyond its lease may send what it was about to send

Object = dict[str, Any]
Interval = tuple[float, float]  # from, to; Unix time in seconds


@dataclass(frozen=True, slots=True)
class BindRequest:
    """A binding as the audit log has it."""

    received_unix_s: float
    answered_unix_s: float
    user: str
    pod: str  # namespace/name
    uid: str
    node: str
    status: int


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never happen."""

    kind: str
    at_unix_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which pods that fit waited and nothing was bound, although the schedulers could have."""

    began_unix_s: float
    seconds: float
    after: str  # what ended just before it: "" or the kind of a fault
    limit_s: float

    @property
    def is_too_long(self) -> bool:
        """Whether it is over its limit."""
        return self.seconds > self.limit_s


def bound_twice(changes: Iterable[Change]) -> list[Violation]:
    """Pods whose node changed once they had one."""
    nodes: dict[str, str] = {}  # pod uid -> its node
    found = []
    for change in changes:
        if change.kind != "pod" or change.object is None or not (node := _node_of(change.object)):
            continue
        first = nodes.setdefault(_uid(change.object), node)
        if node != first:
            found.append(Violation("bound twice", change.at_unix_s, f"{change.key} was on {first}, then on {node}"))
    return found


def gone(changes: Iterable[Change]) -> dict[str, float]:
    """Pod uid -> Unix time at which the pod was deleted."""
    uids: dict[str, str] = {}  # pod key -> uid
    found = {}
    for change in changes:
        if change.kind != "pod":
            continue
        uid = _uid(change.object) if change.object is not None else ""
        before = uids.pop(change.key, "")
        if before and before != uid:
            found[before] = change.at_unix_s
        if uid:
            uids[change.key] = uid
    return found


def second_nodes(
    requests: Iterable[BindRequest], woken: Mapping[str, Sequence[float]], gone: Mapping[str, float]
) -> list[Violation]:
    """Requests for another node after a binding of the same pod had been carried out and answered by the apiserver.

    Those of a leader that has just been woken (user -> Unix times) are forgiven: nobody can hold them back. So are
    those for a pod that is gone (uid -> Unix time): its node is free, and no binding can be carried out any more.
    """
    carried_out: dict[str, BindRequest] = {}  # pod uid -> the request that was
    found = []
    for request in sorted(requests, key=lambda each: each.received_unix_s):
        first = carried_out.get(request.uid)
        is_second = first is not None and first.node != request.node and request.received_unix_s > first.answered_unix_s
        is_forgiven = any(0 <= request.received_unix_s - at <= WOKEN_S for at in woken.get(request.user, ()))
        is_forgiven |= request.received_unix_s > gone.get(request.uid, float("inf"))
        if first is not None and is_second and not is_forgiven:
            text = (
                f"{request.pod} was asked to {request.node} by {request.user} (HTTP {request.status}),"
                f" {request.received_unix_s - first.received_unix_s:.2f} s after {first.user} bound it to {first.node}"
            )
            found.append(Violation("second node", request.received_unix_s, text))
        if request.status == 201:
            carried_out.setdefault(request.uid, request)
    return found


def overcommitted(changes: Iterable[Change], ours: Mapping[str, str]) -> list[Violation]:
    """Bindings of ours (pod uid -> user) that put more onto a node than it had, in the revision that made them."""
    nodes: dict[str, list[tuple[float, Amounts]]] = defaultdict(list)  # name -> allocatable from then on
    pods: dict[str, dict[str, tuple[Object, float]]] = defaultdict(dict)  # node -> pod key -> pod, since when
    places: dict[str, str] = {}  # pod key -> node
    found = []
    for change in changes:
        if change.kind == "node" and change.object is not None:
            nodes[change.key].append((change.at_unix_s, amounts(change.object["status"].get("allocatable", {}))))
        if change.kind != "pod":
            continue
        pod = change.object
        node = _node_of(pod) if pod is not None and not _is_finished(pod) else ""
        before = places.pop(change.key, "")
        since_s = pods[before].pop(change.key, (pod, change.at_unix_s))[1] if before else change.at_unix_s
        if not node or pod is None:
            continue
        places[change.key] = node
        pods[node][change.key] = (pod, since_s)
        if before == node or _uid(pod) not in ours:
            continue
        counted = [
            other
            for other, bound_s in pods[node].values()
            if _uid(other) in ours or change.at_unix_s - bound_s > KNOWN_AFTER_S
        ]
        found += [
            Violation("overcommitted", change.at_unix_s, f"{ours[_uid(pod)]} put {change.key} onto {node}: {problem}")
            for problem in _problems(counted, _room(nodes[node], change.at_unix_s))
        ]
    return found


def forgotten(changes: Iterable[Change], scheduler: str = "default-scheduler") -> list[Violation]:
    """Pods that fit and are not bound at the end, and unbound ones without PodScheduled=False.

    Only pods without constraints other than resources, host ports and selectors are judged to fit.
    """
    nodes, pods = _last(changes, "node"), _last(changes, "pod")
    found = []
    for key, (pod, at_s) in pods.items():
        if _node_of(pod) or pod["spec"].get("schedulerName") != scheduler or pod["spec"].get("schedulingGates"):
            continue
        others = [other for other, _ in pods.values()]
        fitting = [name for name, (node, _) in nodes.items() if _is_plain(pod) and fits(pod, node, others)]
        if fitting:
            found.append(Violation("forgotten", at_s, f"{key} is not bound, although it fits onto {fitting[0]}"))
        elif not _is_marked(pod):
            found.append(Violation("no condition", at_s, f"{key} is not bound and carries no PodScheduled=False"))
    return found


def pauses(
    changes: Sequence[Change],
    requests: Iterable[BindRequest],
    blocked: Sequence[tuple[float, float, str, float]],
    *,
    limit_s: float,
) -> list[Pause]:
    """Times without a binding while a pod that fits waited, cut by the times in which nobody could bind.

    `blocked` holds (from, to, kind, limit of what follows); what follows within a second belongs to that kind.
    """
    bound_at_s = sorted(request.answered_unix_s for request in requests if request.status == 201)
    found = []
    for began_s, ended_s in _waiting(changes):
        marks = [began_s, *(at for at in bound_at_s if began_s < at < ended_s), ended_s]
        for start, end in itertools.pairwise(marks):
            found += _unblocked(start, end, blocked, limit_s)
    return sorted(found, key=lambda pause: -pause.seconds)


def fits(pod: Object, node: Object, pods: Iterable[Object]) -> bool:
    """Whether a node is open to a plain pod, and has room for it beside the pods on it."""
    spec, name = node.get("spec", {}), node["metadata"]["name"]
    if spec.get("unschedulable") or spec.get("taints"):
        return False
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    beside = [other for other in pods if _node_of(other) == name and not _is_finished(other)]
    return not _problems([*beside, pod], amounts(node["status"].get("allocatable", {})))


def bind_requests(audit: Iterable[Object]) -> list[BindRequest]:
    """The bindings of an audit log whose policy keeps their bodies."""
    found = []
    for event in audit:
        about = event.get("objectRef", {})
        body = event.get("requestObject") or {}
        if about.get("subresource") != "binding" or "target" not in body or event["stage"] != "ResponseComplete":
            continue
        found.append(
            BindRequest(
                received_unix_s=unix_s(event["requestReceivedTimestamp"]),
                answered_unix_s=unix_s(event["stageTimestamp"]),
                user=event["user"]["username"].rpartition(":")[2],
                pod=f"{about.get('namespace', '')}/{about.get('name', '')}",
                uid=body.get("metadata", {}).get("uid", ""),
                node=body["target"]["name"],
                status=event.get("responseStatus", {}).get("code", 0),
            )
        )
    return found


def _problems(pods: Sequence[Object], room: Amounts) -> list[str]:
    """What is more than the room, as sentences: resources, the number of pods, host ports."""
    wanted: Amounts = defaultdict(Fraction)
    ports: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        for resource, amount in {**_request(pod), "pods": Fraction(1)}.items():
            wanted[resource] += amount
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", ()):
                if port.get("hostPort"):
                    ports[port.get("protocol", "TCP"), port["hostPort"]] += 1
    problems = [
        f"{resource}: {float(amount):g} of {float(room.get(resource, Fraction(0))):g}"
        for resource, amount in wanted.items()
        if amount > room.get(resource, 0)
    ]
    return problems + [f"host port {port[1]} is taken {count} times" for port, count in ports.items() if count > 1]


_requests: dict[str, Amounts] = {}  # containers as text -> what they request together; pods here have nothing else


def _request(pod: Object) -> Amounts:
    key = repr(pod["spec"]["containers"])
    if key not in _requests:
        _requests[key] = pod_request(pod)
    return _requests[key]


def _room(history: Sequence[tuple[float, Amounts]], now_s: float) -> Amounts:
    """The most a node had within the last seconds that need not be known."""
    room: Amounts = {}
    for index, (_, allocatable) in enumerate(history):
        until_s = history[index + 1][0] if index + 1 < len(history) else now_s
        if until_s >= now_s - KNOWN_AFTER_S:
            room = {
                key: max(room.get(key, Fraction(0)), allocatable.get(key, Fraction(0)))
                for key in {**room, **allocatable}
            }
    return room


def _waiting(changes: Sequence[Change]) -> list[Interval]:
    """When at least one pod that fits waited."""
    cluster = _Cluster()
    intervals: list[Interval] = []
    began_s: float | None = None
    for change in changes:
        if change.kind == "lease":
            continue
        cluster.apply(change)
        does_wait = cluster.does_one_wait()
        if does_wait and began_s is None:
            began_s = change.at_unix_s
        elif not does_wait and began_s is not None:
            intervals.append((began_s, change.at_unix_s))
            began_s = None
    if began_s is not None:
        intervals.append((began_s, changes[-1].at_unix_s))
    return intervals


class _Cluster:
    """Pods, nodes and what is taken of them, kept from change to change: a campaign has ten thousand of them."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Object, Amounts]] = {}
        self._placed: dict[str, tuple[str, Object]] = {}  # pod key -> node and pod
        self._taken: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))
        self._ports: dict[str, list[int]] = defaultdict(list)
        self._waiting: dict[str, tuple[str, Object]] = {}  # pod key -> its shape, and the pod

    def apply(self, change: Change) -> None:
        """Take a pod's or node's new state."""
        if change.kind == "node":
            self._nodes.pop(change.key, None)
            if change.object is not None:
                self._nodes[change.key] = (change.object, amounts(change.object["status"].get("allocatable", {})))
            return
        self._waiting.pop(change.key, None)
        if change.key in self._placed:
            self._count(*self._placed.pop(change.key), sign=-1)
        pod = change.object
        if pod is None or _is_finished(pod):
            return
        if _node_of(pod):
            self._placed[change.key] = (_node_of(pod), pod)
            self._count(_node_of(pod), pod, sign=1)
        elif _is_plain(pod) and pod["spec"].get("schedulerName") == "default-scheduler":
            self._waiting[change.key] = (repr((pod["spec"]["containers"], pod["spec"].get("nodeSelector"))), pod)

    def does_one_wait(self) -> bool:
        """Whether a pod that waits fits somewhere."""
        shapes = dict(self._waiting.values())
        return any(self._fits(pod, name) for pod in shapes.values() for name in self._nodes)

    def _fits(self, pod: Object, name: str) -> bool:
        node, room = self._nodes[name]
        spec, labels, taken = node.get("spec", {}), node["metadata"].get("labels", {}), self._taken[name]
        if spec.get("unschedulable") or spec.get("taints"):
            return False
        if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
            return False
        if any(port in self._ports[name] for port in _host_ports(pod)):
            return False
        wanted = {**_request(pod), "pods": Fraction(1)}
        return all(taken[resource] + amount <= room.get(resource, 0) for resource, amount in wanted.items())

    def _count(self, node: str, pod: Object, *, sign: int) -> None:
        for resource, amount in {**_request(pod), "pods": Fraction(1)}.items():
            self._taken[node][resource] += sign * amount
        for port in _host_ports(pod):
            if sign > 0:
                self._ports[node].append(port)
            else:
                self._ports[node].remove(port)


def _host_ports(pod: Object) -> list[int]:
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports", ()))
    return [port["hostPort"] for port in ports if port.get("hostPort")]


def _unblocked(
    start: float, end: float, blocked: Sequence[tuple[float, float, str, float]], limit_s: float
) -> list[Pause]:
    """The parts of an interval that no block covers, each with the time that all blocks before it leave."""
    pieces = []
    cursor, after, until_s = start, "", start

    def piece(ends_s: float) -> Pause:
        return Pause(cursor, ends_s - cursor, after, max(limit_s, until_s - cursor))

    for began, ended, kind, limit_after_s in sorted(blocked):
        if began >= end:
            break
        if began > cursor:
            pieces.append(piece(began))
        if ended > start - 1:
            after = kind
        cursor, until_s = max(cursor, ended), max(until_s, ended + limit_after_s)
    if cursor < end:
        pieces.append(piece(end))
    return pieces


def _last(changes: Iterable[Change], kind: str) -> dict[str, tuple[Object, float]]:
    table: dict[str, tuple[Object, float]] = {}
    for change in changes:
        if change.kind == kind:
            if change.object is None:
                table.pop(change.key, None)
            else:
                table[change.key] = (change.object, change.at_unix_s)
    return table


def _is_plain(pod: Object) -> bool:
    """Whether nothing but resources, host ports and selectors decides where it fits."""
    spec = pod["spec"]
    return not any(spec.get(field) for field in ("affinity", "topologySpreadConstraints", "volumes", "schedulingGates"))


def _is_marked(pod: Object) -> bool:
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for condition in pod.get("status", {}).get("conditions", ())
    )


def _is_finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def unix_s(timestamp: str) -> float:
    """2026-01-02T03:04:05.678901Z"""
    return datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
