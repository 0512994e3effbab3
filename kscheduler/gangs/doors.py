"""The doors by which gangs come: for each API, which gang a pod names, and what its objects say as a `Gang`.

A door is open if the configuration and the release say so; the marks of a closed door are ignored, as by a scheduler
that does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import (
    COSCHEDULING_GROUP,
    DISRUPTION_POD,
    DISRUPTION_POD_GROUP,
    KUBERNETES_GROUP,
    POD_GROUP_LABEL,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    CompositePodGroup,
    CoschedulingPodGroup,
    DisruptionMode,
    Empty,
    PodGroup,
    PodGroupConstraints,
)
from kscheduler.api.quantity import parse_milli
from kscheduler.config.releases import Release
from kscheduler.errors import DecodeError
from kscheduler.gangs.gang import COMPOSITE_API, Disruption, Gang, GangKey, Topology
from kscheduler.input.int32 import MAX_INT32
from kscheduler.input.names import is_qualified_name

POLICY_PATH, DISRUPTION_PATH = "spec.schedulingPolicy", "spec.disruptionMode"


@dataclass(frozen=True, slots=True)
class Door:
    """An API by which gangs come.

    `name_of` returns the name of the group that a pod names, "" for none. `gang_of` raises DecodeError, naming the
    field, for an object that no gang can be made of.
    """

    api: str
    kind: type[Any]  # of its objects
    name_of: Callable[[Pod], str]
    gang_of: Callable[[Any], Gang]


# --- scheduling.k8s.io ------------------------------------------------------------------------------------------


def _name_by_field(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def gang_of_pod_group(group: PodGroup) -> Gang:
    """Return what a PodGroup of scheduling.k8s.io says, in v1alpha2 or v1beta1."""
    gang = group.spec.scheduling_policy.gang
    return _gang(group, KUBERNETES_GROUP, "minCount", 1 if gang is None else gang.min_count)


def gang_of_composite(group: CompositePodGroup) -> Gang:
    """Return what a CompositePodGroup of scheduling.k8s.io/v1alpha3 says."""
    gang = group.spec.scheduling_policy.gang
    return _gang(group, COMPOSITE_API, "minGroupCount", 1 if gang is None else gang.min_group_count)


def _gang(group: PodGroup | CompositePodGroup, api: str, least_field: str, least: int) -> Gang:
    spec, metadata, policy = group.spec, group.metadata, group.spec.scheduling_policy
    _check_choice(POLICY_PATH, basic=policy.basic, gang=policy.gang)
    _check_range(f"{POLICY_PATH}.gang.{least_field}", least, 1)
    return Gang(
        key=GangKey(api, metadata.namespace, metadata.name),
        uid=metadata.uid,
        min_members=least,
        is_basic=policy.gang is None,
        priority=spec.priority or 0,
        preempts=None if spec.preemption_policy is None else spec.preemption_policy != "Never",
        created=metadata.creation_timestamp or "",
        generation=metadata.generation,
        topology=_constraint(spec.scheduling_constraints),
        disruption=_disruption(spec.disruption_mode),
        is_composite=api == COMPOSITE_API,
        parent=spec.parent_composite_pod_group_name or "",
    )


def _constraint(constraints: PodGroupConstraints | None) -> Topology | None:
    topology = () if constraints is None else constraints.topology or ()
    if len(topology) > 1:
        raise DecodeError(f"spec.schedulingConstraints.topology: expected at most 1 constraint, got {len(topology)}")
    if topology and not topology[0].key:
        raise DecodeError('spec.schedulingConstraints.topology[0].key: expected the key of a node label, got ""')
    return Topology(topology[0].key) if topology else None


def _disruption(mode: str | DisruptionMode | None) -> Disruption:
    if mode is None:
        return Disruption.SINGLE
    if isinstance(mode, DisruptionMode):
        _check_choice(DISRUPTION_PATH, single=mode.single, all=mode.all)
        return Disruption.SINGLE if mode.all is None else Disruption.ALL
    if mode not in (DISRUPTION_POD, DISRUPTION_POD_GROUP):
        raise DecodeError(f'{DISRUPTION_PATH}: expected "{DISRUPTION_POD}" or "{DISRUPTION_POD_GROUP}", got "{mode}"')
    return Disruption.ALL if mode == DISRUPTION_POD_GROUP else Disruption.SINGLE


def _check_choice(path: str, **choices: Empty | object | None) -> None:
    """Raise DecodeError unless exactly one of the choices is made."""
    made = [name for name, value in choices.items() if value is not None]
    if len(made) != 1:
        expected = " or ".join(f'"{name}"' for name in choices)
        raise DecodeError(f"{path}: expected exactly one of {expected}, got {'both' if made else 'neither'}")


def _check_range(path: str, number: int, least: int) -> None:
    if not least <= number <= MAX_INT32:
        raise DecodeError(f"{path}: expected a number from {least} to {MAX_INT32}, got {number}")


# --- scheduling.x-k8s.io ----------------------------------------------------------------------------------------


def _name_by_label(pod: Pod) -> str:
    labels = pod.metadata.labels
    return labels.get(POD_GROUP_LABEL, "") if labels else ""


def gang_of_coscheduling(group: CoschedulingPodGroup) -> Gang:
    """Return what a PodGroup of scheduling.x-k8s.io says. A minimum of 0, or none, makes it a group only by name."""
    spec = group.spec
    _check_range("spec.minMember", spec.min_member, 0)
    timeout = spec.schedule_timeout_seconds
    if timeout is not None:
        _check_range("spec.scheduleTimeoutSeconds", timeout, 0)
    resources = {
        name: parse_milli(quantity, f"spec.minResources.{name}")
        for name, quantity in (spec.min_resources or {}).items()
    }
    for name, amount in resources.items():
        if amount < 0:
            raise DecodeError(
                f"spec.minResources.{name}: expected an amount of at least 0, got {(spec.min_resources or {})[name]}"
            )
    return Gang(
        key=GangKey(COSCHEDULING_GROUP, group.metadata.namespace, group.metadata.name),
        uid=group.metadata.uid,
        min_members=max(spec.min_member, 1),
        is_basic=spec.min_member == 0,
        created=group.metadata.creation_timestamp or "",
        generation=group.metadata.generation,
        timeout_s=float(timeout) if timeout else None,  # 0 means the default, as in Coscheduling
        min_resources=resources,
        topology=_topology(group.metadata.annotations or {}),
    )


def _topology(annotations: Mapping[str, str]) -> Topology | None:
    """Return the topology that annotations of a PodGroup of scheduling.x-k8s.io ask for; None if they ask for none."""
    required = annotations.get(TOPOLOGY_REQUIRED)
    preferred = annotations.get(TOPOLOGY_PREFERRED)
    if required is None and preferred is None:
        return None
    keys = [] if required is None else [(TOPOLOGY_REQUIRED, required)]
    preferences = [] if preferred is None else [key.strip() for key in preferred.split(",")]
    for name, key in (*keys, *((TOPOLOGY_PREFERRED, key) for key in preferences)):
        if not is_qualified_name(key):
            raise DecodeError(f'metadata.annotations[{name}]: expected the key of a node label, got "{key}"')
    for key in preferences:
        if preferences.count(key) > 1:
            raise DecodeError(f'metadata.annotations[{TOPOLOGY_PREFERRED}]: expected each key once, got "{key}" again')
    return Topology(required or "", tuple(preferences))


KUBERNETES_DOOR = Door(KUBERNETES_GROUP, PodGroup, _name_by_field, gang_of_pod_group)
COMPOSITE_DOOR = Door(COMPOSITE_API, CompositePodGroup, lambda pod: "", gang_of_composite)  # pods name none of them
COSCHEDULING_DOOR = Door(COSCHEDULING_GROUP, CoschedulingPodGroup, _name_by_label, gang_of_coscheduling)


# --- the open ones ----------------------------------------------------------------------------------------------


def open_doors(release: Release, *, has_coscheduling: bool) -> list[Door]:
    """Return the doors that are open under a release's feature gates, and if a profile has the plugin Coscheduling."""
    doors = [KUBERNETES_DOOR] if release.schedules_pod_groups else []
    if release.nests_pod_groups and not has_coscheduling:
        doors.append(COMPOSITE_DOOR)
    return [*doors, COSCHEDULING_DOOR] if has_coscheduling else doors


class Doors:
    """The doors that are open in this scheduler."""

    __slots__ = ("_open",)

    def __init__(self, doors: Sequence[Door]) -> None:
        self._open = tuple((door.api, door.name_of) for door in doors)

    def key_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that a pod names; None if it names none. Of a pod that names several, that of the first door.

        Such a pod is not to be scheduled: see `apis_of`.
        """
        for api, name_of in self._open:
            name = name_of(pod)
            if name:
                return GangKey(api, pod.metadata.namespace, name)
        return None

    def apis_of(self, pod: Pod) -> list[str]:
        """Return the APIs by which a pod names a gang; it may name one only."""
        return [api for api, name_of in self._open if name_of(pod)]
