"""Selectors of the Services and controllers that own a pod, for PodTopologySpread's default constraints.

A pod's selector is that of all Services that match it, merged with that of the ReplicationController, ReplicaSet or
StatefulSet that controls it. A pod that none of them selects has none. The event handlers of these kinds report them
here; without such reports no pod has a selector.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from kscheduler.api.labels import CompiledLabelSelector, Operator, Requirement, compile_label_selector
from kscheduler.api.objects import LabelSelector, OwnerReference, Pod
from kscheduler.errors import DecodeError

REPLICATION_CONTROLLER = ("v1", "ReplicationController")
REPLICA_SET = ("apps/v1", "ReplicaSet")
STATEFUL_SET = ("apps/v1", "StatefulSet")

MAX_KEPT = 16_384  # selectors kept, one for each namespace, labels and controller of pods

_Kind = tuple[str, str]  # apiVersion, kind


class Owners:
    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}  # namespace -> service -> its selector
        # (kind, namespace, name) -> selector; one that cannot be read counts as none
        self._controllers: dict[tuple[_Kind, str, str], CompiledLabelSelector] = {}
        self._found: dict[Hashable, CompiledLabelSelector | None] = {}  # (namespace, labels, controller) -> selector
        self.generation = 0  # bumped when a selector may have changed

    # --- reports of the event handlers ---

    def set_service(self, namespace: str, name: str, selector: Mapping[str, str] | None) -> None:
        """Add or update a Service; one with `selector` None matches no pod."""
        if self._services.get(namespace, {}).get(name) == selector:
            return
        self.remove_service(namespace, name)
        if selector is not None:
            self._services.setdefault(namespace, {})[name] = dict(selector)

    def remove_service(self, namespace: str, name: str) -> None:
        self._changed()
        services = self._services.get(namespace, {})
        services.pop(name, None)
        if not services:
            self._services.pop(namespace, None)

    def set_controller(self, kind: _Kind, namespace: str, name: str, selector: LabelSelector | None) -> None:
        """Add or update a controller of one of the kinds above; a ReplicationController has match_labels only."""
        try:
            compiled = compile_label_selector(selector, "spec.selector")
        except DecodeError:
            self.remove_controller(kind, namespace, name)
            return
        if self._controllers.get((kind, namespace, name)) != compiled:
            self._changed()
            self._controllers[kind, namespace, name] = compiled

    def remove_controller(self, kind: _Kind, namespace: str, name: str) -> None:
        if self._controllers.pop((kind, namespace, name), None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._found.clear()
        self.generation += 1

    # --- reading ---

    def selector_of(self, pod: Pod) -> CompiledLabelSelector | None:
        """Return the selector merged from the pod's Services and controller; None if the pod has neither."""
        if not self._services and not self._controllers:
            return None
        meta = pod.metadata
        labels, owner = meta.labels or {}, controller_of(pod)
        look = (meta.namespace, frozenset(labels.items()), owner and (owner.api_version, owner.kind, owner.name))
        if look not in self._found:
            if len(self._found) >= MAX_KEPT:
                self._found.clear()
            self._found[look] = self._merged(meta.namespace, labels, owner)
        return self._found[look]

    def _merged(
        self, namespace: str, labels: Mapping[str, str], owner: OwnerReference | None
    ) -> CompiledLabelSelector | None:
        same: dict[str, str] = {}
        for selector in self._services.get(namespace, {}).values():
            if selector.items() <= labels.items():
                same.update(selector)
        requirements = {key: Requirement(key, Operator.IN, frozenset({value})) for key, value in same.items()}
        added: Sequence[Requirement] = ()
        if owner is not None:
            kind = (owner.api_version, owner.kind)
            found = self._controllers.get((kind, namespace, owner.name))
            added = (found and found.requirements) or ()
            if kind == REPLICATION_CONTROLLER:  # its values replace a service's; other kinds add theirs
                requirements |= {requirement.key: requirement for requirement in added}
                added = ()
        all_of = (*(requirements[key] for key in sorted(requirements)), *added)
        return CompiledLabelSelector(all_of) if all_of else None


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the pod's owner reference with `controller: true`, or None."""
    return next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)
