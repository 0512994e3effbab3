"""What differs between the ways of scheduling gangs: kube-scheduler's of 1.36 and of 1.37, and ours.

Other code asks a field, never which way it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kscheduler.config.coscheduling import schedules_by_label
from kscheduler.config.defaults import PLACEMENTS
from kscheduler.config.types import SchedulerConfig

WORKLOAD_AWARE_PREEMPTION = "WorkloadAwarePreemption"  # a feature gate of 1.36


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRules:
    name: str
    # --- when a gang is complete ---
    counts_gated: bool  # members that a PreEnqueue plugin gates count towards the minimum
    waits_for_gated: bool  # one gated member holds back all others
    counts_succeeded: bool  # members that have succeeded count as placed
    # --- in the queue ---
    keeps_age: bool  # gangs of a priority are tried in the order in which they came; else by their last attempts
    mends: bool  # a gang of which fewer than the minimum are placed comes before others of its priority
    waits_for_events: bool  # a rejected gang waits for an event that may help it; else for its backoff only
    retries_changed: bool  # a rejected gang is tried again when its object changes, or it lacks fewer members
    grows_backoff: bool  # the longest backoff is multiplied with the square root of the number of members
    retries_rest_at_once: bool  # after some members were placed, the others are tried again at once
    # --- placing ---
    heeds_topology: bool  # a gang's topology constraints are heeded; else it is not tried
    heeds_parents: bool = False  # groups of a composite group are placed together; else they are not tried
    # --- preemption ---
    preempts_by_member: bool  # each member preempts by itself, and single pods evict members like other pods
    preempts_together: bool = False  # in place of its members a group preempts, although each is planned by itself
    # --- messages and conditions ---
    follows_kubernetes: bool  # the pods and the condition of a group say what kube-scheduler says, and when it does


UPSTREAM_1_36 = GangRules(
    name="1.36",
    counts_gated=True,
    waits_for_gated=False,
    counts_succeeded=False,
    keeps_age=False,
    mends=False,
    waits_for_events=True,
    retries_changed=False,
    grows_backoff=False,
    retries_rest_at_once=False,
    heeds_topology=False,  # unless its gate is on
    preempts_by_member=True,
    follows_kubernetes=True,
)
UPSTREAM_1_37 = GangRules(
    name="1.37",
    counts_gated=True,
    waits_for_gated=True,
    counts_succeeded=False,
    keeps_age=False,
    mends=False,
    waits_for_events=False,
    retries_changed=False,
    grows_backoff=True,
    retries_rest_at_once=True,
    heeds_topology=False,  # unless its gate is on
    preempts_by_member=False,
    follows_kubernetes=True,
)
WHOLE = GangRules(  # ours
    name="whole",
    counts_gated=False,
    waits_for_gated=False,
    counts_succeeded=True,
    keeps_age=True,
    mends=True,
    waits_for_events=True,
    retries_changed=True,
    grows_backoff=False,
    retries_rest_at_once=False,
    heeds_topology=True,
    preempts_by_member=False,
    follows_kubernetes=False,
)


def rules_of(config: SchedulerConfig) -> GangRules:
    """Return how gangs are scheduled: as by the kube-scheduler that is followed, unless Coscheduling is enabled."""
    release = config.release
    if schedules_by_label(config) or not release.schedules_pod_groups:
        return WHOLE
    if not release.queues_pod_groups:
        return replace(
            UPSTREAM_1_36,
            heeds_topology=release.has(PLACEMENTS),
            preempts_together=release.has(WORKLOAD_AWARE_PREEMPTION),
        )
    return replace(UPSTREAM_1_37, heeds_topology=release.has(PLACEMENTS), heeds_parents=release.nests_pod_groups)
