"""Encodes pods for a guest: only the parts that it declared, in the order of plugins/abi/README.md."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from kscheduler.snapshot.pod_info import PodInfo

Document = dict[str, Any]

# Parts that differ from pod to pod: for a guest that reads them no two pods are equal.
PERSONAL = frozenset({"name"})
# Parts with fields that the scheduler's own signature of pods leaves out.
UNKNOWN = frozenset({"annotations", "spec"})


def _add_name(into: Document, pod: PodInfo) -> None:
    into["name"] = pod.pod.metadata.name


def _add_namespace(into: Document, pod: PodInfo) -> None:
    into["namespace"] = pod.pod.metadata.namespace


def _add_uid(into: Document, pod: PodInfo) -> None:
    into["uid"] = pod.uid


def _add_labels(into: Document, pod: PodInfo) -> None:
    if pod.pod.metadata.labels:
        into["labels"] = dict(sorted(pod.pod.metadata.labels.items()))


def _add_annotations(into: Document, pod: PodInfo) -> None:
    if pod.pod.metadata.annotations:
        into["annotations"] = dict(sorted(pod.pod.metadata.annotations.items()))


def _add_priority(into: Document, pod: PodInfo) -> None:
    if pod.priority:
        into["priority"] = pod.priority


def _add_requests(into: Document, pod: PodInfo) -> None:
    resources = pod.resources
    if requests := {name: amount for name, amount in resources.requests.items() if amount}:
        into["requests"] = requests
    into["scored_cpu"] = resources.non_zero_cpu_milli
    into["scored_memory"] = resources.non_zero_memory


def _add_containers(into: Document, pod: PodInfo) -> None:
    if pod.pod.spec.containers:
        into["containers"] = [[each.name, each.image] for each in pod.pod.spec.containers]


def _add_node_selector(into: Document, pod: PodInfo) -> None:
    if pod.pod.spec.node_selector:
        into["node_selector"] = dict(sorted(pod.pod.spec.node_selector.items()))


def _add_tolerations(into: Document, pod: PodInfo) -> None:
    if pod.pod.spec.tolerations:
        into["tolerations"] = [[t.key, t.operator, t.value, t.effect] for t in pod.pod.spec.tolerations]


def _add_owners(into: Document, pod: PodInfo) -> None:
    if owners := pod.pod.metadata.owner_references:
        into["owners"] = [[o.api_version, o.kind, o.name, o.uid, bool(o.controller)] for o in owners]


def _add_spec(into: Document, pod: PodInfo) -> None:
    into["spec"] = msgspec.json.encode(pod.pod.spec)


# In the order of plugins/abi/README.md. A part may add several keys.
_WRITERS: tuple[tuple[str, Callable[[Document, PodInfo], None]], ...] = (
    ("name", _add_name),
    ("namespace", _add_namespace),
    ("name", _add_uid),
    ("labels", _add_labels),
    ("annotations", _add_annotations),
    ("priority", _add_priority),
    ("requests", _add_requests),
    ("containers", _add_containers),
    ("node_selector", _add_node_selector),
    ("tolerations", _add_tolerations),
    ("owners", _add_owners),
    ("spec", _add_spec),
)


class PodView:
    """Encodes those parts of pods that one guest declared to read."""

    def __init__(self, parts: frozenset[str]) -> None:
        self._writers = [write for part, write in _WRITERS if part in parts]
        self._is_personal = bool(parts & PERSONAL)
        self._has_spec = "spec" in parts
        self._has_annotations = "annotations" in parts

    def show(self, pod: PodInfo, state: bytes | None = None) -> Document:
        """Return the pod as a part of a message to the guest: the parts that it declared to read.

        `state` is what the guest returned last in this pod's cycle, or None.
        """
        shown: Document = {}
        for write in self._writers:
            write(shown, pod)
        if state is not None:
            shown["state"] = state
        return shown

    def show_on_node(self, pod: PodInfo) -> Document:
        """Return the pod for the list of pods on a node in the guest's copy of the node table, always with its uid."""
        shown = self.show(pod)
        return shown if "uid" in shown else {"uid": pod.uid, **shown}

    def look(self, pod: PodInfo) -> Hashable | None:
        """Return a key that is equal for pods that are equal in all the guest reads; None if no two pods can be."""
        if self._is_personal or (
            self._has_spec and pod.pod.spec.volumes
        ):  # volumes may have names that are unique to the pod
            return None
        return _encode(self.show(pod))

    def beyond(self, pod: PodInfo) -> bytes:
        """Encode those fields the guest reads that the scheduler's own signature of a pod leaves out; b"" for none."""
        volumes = b"v" if self._has_spec and pod.pod.spec.volumes else b""
        annotations = self._has_annotations and pod.pod.metadata.annotations
        return volumes + _encode(dict(sorted(annotations.items()))) if annotations else volumes


_encode = msgspec.msgpack.Encoder().encode
