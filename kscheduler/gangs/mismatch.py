"""Says what keeps the pods of a PodGroup from being decided together, as kube-scheduler validates them.

All of them, those that are scheduled already as well, must have the same scheduler, the priority of their PodGroup, and
the same preemption policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.api.defaults import PREEMPT_LOWER_PRIORITY
from kscheduler.api.objects import Pod
from kscheduler.framework.preemption.evaluator import NEVER
from kscheduler.gangs.tracked_gang import Stage, TrackedGang


def preemption_policy(tracked: TrackedGang, pods: Iterable[Pod], *, is_of_group: bool) -> str:
    """Return the preemption policy of a group. `is_of_group`: its object says it; else the first pod that has one."""
    if is_of_group:
        return NEVER if tracked.gang is not None and tracked.gang.preempts is False else PREEMPT_LOWER_PRIORITY
    return next((pod.spec.preemption_policy for pod in pods if pod.spec.preemption_policy), PREEMPT_LOWER_PRIORITY)


def different_schedulers(members: Sequence[Pod]) -> str:
    """Return what is wrong if pods that are to be decided together name different schedulers; "" if they do not."""
    first, *others = (pod.spec.scheduler_name for pod in members)
    return next((_of_schedulers(each, first) for each in others if each != first), "")


def _of_schedulers(one: str, other: str) -> str:
    return f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{one}" and "{other}"'


def mismatch(tracked: TrackedGang, members: Sequence[Pod], *, is_policy_of_group: bool) -> str:
    """Return what is wrong with the group's pods, in kube-scheduler's words; "" if they agree.

    `members`: those to be decided, at least one, in their order. `is_policy_of_group`: the gate
    PodGroupPreemptionPolicy.
    """
    scheduler = members[0].spec.scheduler_name
    priority = 0 if tracked.gang is None else tracked.gang.priority or 0
    if is_policy_of_group:
        policy, whose = preemption_policy(tracked, (), is_of_group=True), " as the pod group's preemption policy"
    else:
        policy, whose = members[0].spec.preemption_policy or PREEMPT_LOWER_PRIORITY, ""
    scheduled = [each.pod for each in tracked.members.values() if each.stage in (Stage.ASSUMED, Stage.BOUND)]
    for pod in (*members, *scheduled):
        spec = pod.spec
        if spec.scheduler_name != scheduler:
            return _of_schedulers(spec.scheduler_name, scheduler)
        if (spec.priority or 0) != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, "
                f"got {spec.priority or 0} and {priority}"
            )
        if (spec.preemption_policy or PREEMPT_LOWER_PRIORITY) != policy:
            return (
                f"all pods in a single pod group should have the same preemption policy{whose}, "
                f"got {spec.preemption_policy or PREEMPT_LOWER_PRIORITY} and {policy}"
            )
    return ""
