"""The messages about gangs that cannot be tried or placed: ours, and kube-scheduler's about PodGroups."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.preemption.evaluator import POLICY_NEVER as PREEMPTS_NEVER
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Lack, TrackedGang

# kube-scheduler's.
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_ROOM = "pod group is waiting for preemption to complete"
WAITS_FOR_MINIMUM = (  # what the Permit plugin GangScheduling says, and what is added to it
    "waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
CLAIMS_RELEASED = "deallocation and deletion of ResourceClaims completed"  # whether there were any, or not
CLAIMS_UNKNOWN = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'  # its PreFilter was not asked
PREEMPTION = "pod group preemption"
NEVER_PREEMPTS = f"{PREEMPTION}: {PREEMPTS_NEVER}"
NO_VICTIMS = f"{PREEMPTION}: No preemption victims found for incoming preemptor"
GROUP_PREEMPTS = "waiting for the preemption for this pod group to be finished"  # of PreEnqueue
ONGOING = f"{PREEMPTION}: ongoing preemption on nominated nodes"

# Ours, of gangs by label.
POLICY_NEVER = f"preemption: {PREEMPTS_NEVER}"
NOBODY_TO_EVICT = "preemption: no pod of lower priority is where it would help."
IN_VAIN = "preemption: even without all pods of lower priority there would be too little room."
NOT_YET = "preemption: looked for later, since many gangs fit nowhere."
STILL_EVICTING = "preemption: the gang waits until the pods that were evicted for it are gone."


def minimum_out_of_reach(least: int, scheduled: int, remaining: int) -> str:
    """Return kube-scheduler's reason for a group of which fewer than the minimum can be scheduled any more."""
    return f"minCount ({least}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


def preempting(victims: int) -> str:
    """Return kube-scheduler's message about a group for which so many pods are evicted."""
    return f"{PREEMPTION}: found a placement for podgroup, preempting {victims} victims"


def preemption_fault(why: str) -> str:
    """Return kube-scheduler's message about a fault while it looked for victims for a group."""
    return f'error in "DefaultPreemption" PodGroupPostFilter plugins: {PREEMPTION}: {why}'


def other_pod_failed(why: str) -> str:
    """Return kube-scheduler's reason for pods of a group that ends since the search for one of them met a fault."""
    return f"failed to schedule other pod from a pod group: {why}"


def lack(tracked: TrackedGang) -> str:
    """Return why a gang cannot be tried, as a sentence without a full stop; "" if it can."""
    key, why = tracked.key, tracked.lack
    if why is None:
        return ""
    if why is Lack.OBJECT:
        return f"gang {key} waits for its PodGroup of {key.api}, which does not exist"
    if why is Lack.FAULT:
        return f"the PodGroup {key} of {key.api} cannot be used: {tracked.fault}"
    if why is Lack.PARENT:
        parent = "" if tracked.gang is None else tracked.gang.parent
        return f'gang {key} belongs to the composite group "{parent}", and groups of groups are not supported'
    if why is Lack.TOPOLOGY:
        topology = "" if tracked.gang is None else tracked.gang.topology_key
        return f'gang {key} asks for nodes of one "{topology}", and topology constraints are not supported'
    if why is Lack.GATES:
        return f"gang {key} waits for {tracked.gated} gated of its {len(tracked.members)} pods"
    there = tracked.available
    gated = f", {tracked.gated} more gated" if tracked.gated else ""
    return f"gang {key} waits for pods: {there} of at least {tracked.min_members}{gated}"


def not_placed(key: GangKey, missing: int, placed: int, name: str, why: str) -> str:
    """Return why a gang gets no node: how many of its pods would have one, and why the next one has none."""
    return f"gang {key} needs nodes for {missing} pods at once, and {placed} would have one: pod {name}: {why}"


def too_few(key: GangKey, missing: int, members: int) -> str:
    """Return why a gang is not tried of which too few pods are left to be decided, others being terminated."""
    return f"gang {key} needs nodes for {missing} pods at once, and {members} can be tried: others are terminating"


def not_permitted(key: GangKey, missing: int, permitted: int) -> str:
    """Return why a gang gets no node although enough of its pods would have one."""
    return f"gang {key} needs nodes for {missing} pods at once, and Reserve and Permit plugins allow {permitted}"


def two_gangs(name: str, apis: Sequence[str], key: GangKey) -> str:
    """Return what is wrong with a pod that names a gang by more than one API."""
    return f"pod {key.namespace}/{name} names a group of {' and one of '.join(apis)}: expected one"


def evicting(victims: int, members: int) -> str:
    """Return what preemption does for a gang: it evicts so many pods, after which so many members have a node."""
    room = "1 pod of the gang" if members == 1 else f"{members} pods of the gang"
    if not victims:
        return f"preemption: nobody is evicted, and room for {room} is kept."
    return f"preemption: {victims} {'pod is' if victims == 1 else 'pods are'} evicted, and room for {room} is kept."


def placed_text(tracked: TrackedGang) -> str:
    """Return how many pods of a gang have a node, after its minimum was reached."""
    waiting = len(tracked.members) + tracked.succeeded - tracked.placed
    rest = f", {waiting} more wait" if waiting > 0 else ""
    pods, have = ("pod", "has") if tracked.placed == 1 else ("pods", "have")
    return f"{tracked.placed} {pods} of gang {tracked.key} {have} a node, of at least {tracked.min_members}{rest}"


def stale_text(tracked: TrackedGang, seconds: float) -> str:
    """Return the message about a gang that has been broken for so long."""
    return f"only {placed_text(tracked)}, for {seconds:.0f} s"
