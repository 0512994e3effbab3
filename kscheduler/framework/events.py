"""Cluster events, for which plugins register: a resource, and what was done to it.

Names, labels and matching are kube-scheduler's; the label is the `event` label of its metrics. A change is reported as
specifically as possible: a node whose taints changed gives UPDATE_NODE_TAINT and nothing else, so that only pods
rejected by a plugin that reads taints are requeued.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Pod
from kscheduler.api.resources import is_resize_infeasible, pod_resources
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.snapshot.pod_info import PodInfo


class Action(enum.IntFlag):
    """What was done to an object. Registrations may combine actions; a reported event has one (or UPDATE)."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()  # also: a node was uncordoned
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_SCALE_UP = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE_POD_OTHER = enum.auto()  # a change without an action of its own; labelled "Update"

    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_POD_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class EventResource(enum.StrEnum):
    """The resource that an event is about. Resources outside this list are written "plural.version.group"."""

    POD = "Pod"  # for registering; matches all kinds below
    ASSIGNED_POD = "AssignedPod"  # the pod has a node
    UNSCHEDULED_POD = "UnscheduledPod"  # another pod that waits
    TARGET_POD = "TargetPod"  # the waiting pod itself
    UNSCHEDULABLE_POD = "UnschedulablePod"  # reported only, where the two above are one kind: the pod has no node
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    WILDCARD = "*"


_SPECIFIC_PODS = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD, EventResource.TARGET_POD)
_POD_KINDS = frozenset({*_SPECIFIC_PODS, EventResource.UNSCHEDULABLE_POD})
_PLAIN_ACTIONS: dict[Action, str] = {  # actions whose label is not their name in camel case
    Action.UPDATE: "Update",
    Action.UPDATE_POD_OTHER: "Update",
    Action.ALL: "All",
}


def action_label(action: Action) -> str:
    """Return the metric label of an action, such as `UpdateNodeTaint`; unnamed combinations are joined with "|"."""
    plain = _PLAIN_ACTIONS.get(action)
    if plain is not None:
        return plain
    names = [single.name or "" for single in Action if single in action and single.bit_count() == 1]
    return "|".join("".join(word.capitalize() for word in name.split("_")) for name in names)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and an action. The metric `label` follows from them unless the event has a special name."""

    resource: EventResource | str
    action: Action
    label: str = ""
    is_wildcard: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.label:
            resource = self.resource.value if isinstance(self.resource, EventResource) else self.resource
            object.__setattr__(self, "label", resource + action_label(self.action))
        is_wildcard = self.resource == EventResource.WILDCARD and self.action == Action.ALL
        object.__setattr__(self, "is_wildcard", is_wildcard)

    def __hash__(self) -> int:
        return hash(self.label)  # a str caches its hash; enums and tuples compute theirs each time


# Labels of causes, other than cluster events, for which a pod moves between queues.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_QUEUE = "PopFromBackoffQ"

ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
NODE_ADD = ClusterEvent(EventResource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, Action.ALL, "ForceActivate")
GUEST_REPLACED = ClusterEvent(EventResource.WILDCARD, Action.ALL, "WasmPluginReplaced")  # ours
ELASTIC_QUOTAS = "elasticquotas.v1alpha1.scheduling.x-k8s.io"  # the resource, as scheduler-plugins registers for it
SHARE_QUEUES = "queues.v1alpha1.kscheduler.io"  # the resource, also for events of KAI-Scheduler's kind
SHARE_DIVISION = ClusterEvent(EventResource.WILDCARD, Action.ALL, "ShareDivisionChanged")  # ours
METRICS_CHANGED = ClusterEvent("metrics", Action.UPDATE)  # ours: values of live metrics, or policies over them


def waiting_pod_label(action: Action, release: Release) -> str:
    """Return the metric label of an event of a pod without a node: UnscheduledPod… or UnschedulablePod…, by release."""
    pods = EventResource.UNSCHEDULED_POD if release.splits_pod_events else EventResource.UNSCHEDULABLE_POD
    return ClusterEvent(pods, action).label


def matches(registered: ClusterEvent, happened: ClusterEvent) -> bool:
    """Return True if a registration for `registered` covers the event `happened`.

    A general registration (Node UPDATE) covers a specific event (Node UPDATE_NODE_LABEL), but not the other way round:
    an event is reported as general only if no specific action applies. Only wildcards cover a wildcard event.
    """
    if registered.is_wildcard:
        return True
    return _resource_matches(registered.resource, happened.resource) and not happened.action & ~registered.action


def _resource_matches(registered: str, happened: str) -> bool:
    return (
        registered == happened
        or registered == EventResource.WILDCARD
        or (registered == EventResource.POD and happened in _POD_KINDS)
    )


# --- registrations ----------------------------------------------------------------------------------------------

# (the waiting pod, the object before, the object after) -> can the event make this pod schedulable? The objects are
# None where there is none: before an ADD, after a DELETE. An exception counts as yes, so that no pod gets stuck.
QueueingHint = Callable[[Pod, object, object], bool]


class GroupIndex(Protocol):
    """Finds the groups of waiting pods for which an event may matter, without calling a queueing hint for each of them.

    A group is identified by the key that its pods share.
    """

    def add(self, key: Hashable) -> None: ...

    def remove(self, key: Hashable) -> None:
        """Remove a group's key that was added; called once for each key."""
        ...

    def find(self, old: object, new: object) -> Iterable[Hashable]:
        """Return at least all keys for which the hint would return True; the hint is called for these only.

        The result may be iterated over in pieces, while keys are added and removed.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The properties of a waiting pod on which a queueing hint depends: pods with equal keys get equal answers.

    So for an event the hint is called once for such a group, except for an event about one of its pods. A pod with the
    key None is a group of its own. With an index, the hint need not be called for most groups. Registrations that share
    a Grouping share its groups.
    """

    key: Callable[[PodInfo], Hashable]
    index: Callable[[], GroupIndex] | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A plugin's registration for an event; without a hint the event requeues every pod that the plugin rejected.

    A hint without a grouping is called for each pod, which is slow if very many pods wait.
    """

    event: ClusterEvent
    hint: QueueingHint | None = None
    grouping: Grouping | None = None


# ONE_GROUP: for hints that read nothing of the waiting pod, except whether the event is about it.
ONE_GROUP = Grouping(lambda pod: ())
EACH_BY_ITSELF = Grouping(lambda pod: None)


def complete_registrations(
    registered: Sequence[ClusterEvent | Registration], release: Release = DEFAULT_RELEASE
) -> tuple[Registration, ...]:
    """Return a plugin's registrations in the form that the queue uses, as in the release's kube-scheduler.

    Plugins register for the kinds of pods apart, each kind in a registration of its own. Where the release does not
    distinguish them, registrations with the same hint become one for Pod; else one for Pod becomes one for each kind.
    In a release that `adds_taint_event`, a registration for added nodes but not for taints is extended by taints: a
    node may be added with a taint for which other filters reject it before this plugin is called, and lose it later.
    """
    registrations = [
        registration if isinstance(registration, Registration) else Registration(registration)
        for registration in registered
    ]
    registrations = _split_pods(registrations) if release.splits_pod_events else _join_pods(registrations)
    of_nodes = [
        registration.event.action for registration in registrations if registration.event.resource == EventResource.NODE
    ]
    if (
        release.adds_taint_event
        and any(Action.ADD in action for action in of_nodes)
        and not any(Action.UPDATE_NODE_TAINT in action for action in of_nodes)
    ):
        registrations.append(Registration(ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_TAINT)))
    return tuple(registrations)


def _split_pods(registrations: Sequence[Registration]) -> list[Registration]:
    """Replace each registration for Pod by one for each kind of pods."""
    return [
        replace(registration, event=ClusterEvent(resource, registration.event.action))
        for registration in registrations
        for resource in (
            _SPECIFIC_PODS if registration.event.resource == EventResource.POD else (registration.event.resource,)
        )
    ]


def _join_pods(registrations: Sequence[Registration]) -> list[Registration]:
    """Replace the registrations for pods that have the same hint by one for Pod, at the place of the first."""
    joined: list[Registration] = []
    places: dict[tuple[QueueingHint | None, Grouping | None], int] = {}  # (hint, grouping) -> index in `joined`
    for registration in registrations:
        if registration.event.resource not in _POD_KINDS:
            joined.append(registration)
            continue
        answers = registration.hint, registration.grouping
        place = places.setdefault(answers, len(joined))
        if place == len(joined):
            joined.append(replace(registration, event=ClusterEvent(EventResource.POD, registration.event.action)))
        else:
            action = joined[place].event.action | registration.event.action
            joined[place] = replace(registration, event=ClusterEvent(EventResource.POD, action))
    return joined


# --- what changed between two versions of an object ---------------------------------------------------------------

_NODE_UPDATES: dict[Action, ClusterEvent] = {
    action: ClusterEvent(EventResource.NODE, action)
    for action in (
        Action.UPDATE_NODE_ALLOCATABLE,
        Action.UPDATE_NODE_LABEL,
        Action.UPDATE_NODE_TAINT,
        Action.UPDATE_NODE_CONDITION,
        Action.UPDATE_NODE_ANNOTATION,
        Action.UPDATE_NODE_DECLARED_FEATURE,
    )
}
_POD_UPDATES: dict[tuple[EventResource, Action], ClusterEvent] = {
    (resource, action): ClusterEvent(resource, action)
    for resource in (EventResource.ASSIGNED_POD, EventResource.TARGET_POD, EventResource.UNSCHEDULABLE_POD)
    for action in (
        Action.UPDATE_POD_LABEL,
        Action.UPDATE_POD_SCALE_DOWN,
        Action.UPDATE_POD_SCALE_UP,
        Action.UPDATE_POD_TOLERATION,
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        Action.UPDATE_POD_OTHER,
    )
}


def node_events(change: NodeChange) -> list[ClusterEvent]:
    """Return the cluster events of a node's update, in kube-scheduler's order; none for a heartbeat."""
    changed = (
        (change.uncordoned, Action.UPDATE_NODE_TAINT),  # first: the first event that helps a pod is the one reported
        (change.allocatable, Action.UPDATE_NODE_ALLOCATABLE),
        (change.labels, Action.UPDATE_NODE_LABEL),
        (change.taints and not change.uncordoned, Action.UPDATE_NODE_TAINT),
        (change.conditions, Action.UPDATE_NODE_CONDITION),
        (change.annotations, Action.UPDATE_NODE_ANNOTATION),
        (change.declared_features, Action.UPDATE_NODE_DECLARED_FEATURE),
    )
    return [_NODE_UPDATES[action] for has_changed, action in changed if has_changed]


def pod_events(old: Pod, new: Pod, release: Release = DEFAULT_RELEASE) -> list[ClusterEvent]:
    """Return the cluster events between two versions of a pod, at least one: a change of any other field is "Update".

    Those of a pod without a node are for that pod itself.
    """
    changed: list[Action] = []
    before, after = old.metadata.labels, new.metadata.labels
    if before is not after and (before or None) != (after or None):
        changed.append(Action.UPDATE_POD_LABEL)
    if _may_differ_in_requests(old, new, release):
        if _requests_less(new, old, release):
            changed.append(Action.UPDATE_POD_SCALE_DOWN)
        if release.has_scale_up_event and _requests_less(old, new, release):
            changed.append(Action.UPDATE_POD_SCALE_UP)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        changed.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations or ()) != len(new.spec.tolerations or ()):
        # The API allows only adding tolerations, so that comparing their number is enough.
        changed.append(Action.UPDATE_POD_TOLERATION)
    if (old.status.resource_claim_statuses or None) != (new.status.resource_claim_statuses or None):
        changed.append(Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    if new.spec.node_name:
        resource = EventResource.ASSIGNED_POD
    else:
        resource = EventResource.TARGET_POD if release.splits_pod_events else EventResource.UNSCHEDULABLE_POD
    if not changed:
        return [_POD_UPDATES[resource, Action.UPDATE_POD_OTHER]]
    if len(changed) == 1:
        return [_POD_UPDATES[resource, changed[0]]]
    return [_POD_UPDATES[resource, action] for action in changed]


def _may_differ_in_requests(old: Pod, new: Pod, release: Release) -> bool:
    """Return False if no field has changed that determines what a pod requests, so that it need not be parsed."""
    before, after, was_status, status = old.spec, new.spec, old.status, new.status
    if before is not after and (
        before.containers != after.containers
        or before.init_containers != after.init_containers
        or before.overhead != after.overhead
        or before.resources != after.resources
    ):
        return True
    if (
        was_status.container_statuses != status.container_statuses
        or was_status.init_container_statuses != status.init_container_statuses
        or was_status.resources != status.resources
        or was_status.allocated_resources != status.allocated_resources
    ):
        return True
    # Once a resize is found to be infeasible, what was requested no longer counts.
    was, now = old.status.conditions, new.status.conditions
    if was == now or not (new.status.container_statuses or release.sums_resizes_apart):
        return False
    return is_resize_infeasible(old) != is_resize_infeasible(new)


def _requests_less(pod: Pod, than: Pod, release: Release) -> bool:
    """Return True if a version of a pod requests less of any resource than another one, or does not request it."""
    apart = release.sums_resizes_apart
    now, before = pod_resources(pod, sums_resizes_apart=apart), pod_resources(than, sums_resizes_apart=apart)
    if before.names - now.names:
        return True
    less, more = now.total, before.total
    return (
        more.cpu_milli > less.cpu_milli
        or more.memory > less.memory
        or more.ephemeral_storage > less.ephemeral_storage
        or any(amount > less.scalars.get(name, 0) for name, amount in more.scalars.items())
    )
