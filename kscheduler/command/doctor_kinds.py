"""The custom kinds that a configuration makes a scheduler follow, and the rights to them that components grant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.client.reviews import Right
from kscheduler.config.capacity_scheduling import keeps_quotas
from kscheduler.config.coscheduling import schedules_by_label
from kscheduler.config.metric_policy_profiles import metric_policy_args
from kscheduler.config.queues import keeps_queues
from kscheduler.config.types import SchedulerConfig
from kscheduler.gangs.phase_writer import LEASE_NAME, LEASE_NAMESPACE


class Needed(NamedTuple):
    """Rights of one component. Without those to read nothing is scheduled; without the others a status is not kept."""

    to_read: tuple[Right, ...]
    to_write: tuple[Right, ...]


class _Kind(NamedTuple):
    component: str  # the folder of deploy/
    group: str
    plural: str
    is_followed: Callable[[SchedulerConfig], bool]
    status_is_written: bool = False


def _follows_policies(config: SchedulerConfig) -> bool:
    return any(args.policy_objects for profile in config.profiles if (args := metric_policy_args(profile)))


def _follows_tas_policies(config: SchedulerConfig) -> bool:
    return any(args.tas_policies for profile in config.profiles if (args := metric_policy_args(profile)))


KINDS: tuple[_Kind, ...] = (
    _Kind("gangs", "scheduling.x-k8s.io", "podgroups", schedules_by_label, True),
    _Kind("gangs", "scheduling.k8s.io", "podgroups", lambda config: config.release.schedules_pod_groups, True),
    _Kind("gangs", "scheduling.k8s.io", "compositepodgroups", lambda config: config.release.nests_pod_groups),
    _Kind("quotas", "scheduling.x-k8s.io", "elasticquotas", keeps_quotas, True),
    _Kind("queues", "kscheduler.io", "queues", keeps_queues, True),
    _Kind("queues", "scheduling.run.ai", "queues", keeps_queues),
    _Kind("metric-policies", "kscheduler.io", "metricpolicies", _follows_policies, True),
    _Kind("metric-policies", "telemetry.intel.com", "taspolicies", _follows_tas_policies),
)


def rights_of_components(config: SchedulerConfig) -> dict[str, Needed]:
    """Return the rights that the configuration needs besides those of deploy/base: component -> rights."""
    return rights_to([kind for kind in KINDS if kind.is_followed(config)])


def rights_to(kinds: Sequence[_Kind]) -> dict[str, Needed]:
    """Return component -> the rights to those of its kinds that are among `kinds`."""
    by_component: Mapping[str, list[_Kind]] = defaultdict(list)
    for kind in kinds:
        by_component[kind.component].append(kind)
    return {component: _needed(those) for component, those in by_component.items()}


def _needed(kinds: Sequence[_Kind]) -> Needed:
    to_read = tuple(Right(kind.group, kind.plural, verb) for kind in kinds for verb in ("list", "watch"))
    written = [kind for kind in kinds if kind.status_is_written]
    to_write = [Right(kind.group, f"{kind.plural}/status", "patch") for kind in written]
    if any(kind.is_followed is schedules_by_label for kind in kinds):
        to_write.append(Right("coordination.k8s.io", "leases", "get", LEASE_NAMESPACE, LEASE_NAME))
    return Needed(to_read, tuple(to_write))
