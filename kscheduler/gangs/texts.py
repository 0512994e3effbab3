"""The messages about gangs that cannot be tried or placed: ours, and kube-scheduler's about PodGroups."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.pod_groups import MAX_TREE_DEPTH
from kscheduler.counted import counted
from kscheduler.framework.preemption.evaluator import POLICY_NEVER as PREEMPTS_NEVER
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.tracked_gang import Lack, TrackedGang, TrackedTree

# kube-scheduler's.
GROUP_UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_ROOM = "pod group is waiting for preemption to complete"
WAITS_FOR_MINIMUM = (  # what the Permit plugin GangScheduling says, and what is added to it
    "waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
CLAIMS_RELEASED = "deallocation and deletion of ResourceClaims completed"  # whether there were any, or not
CLAIMS_UNKNOWN = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'  # its PreFilter was not asked
NOBODY_BELOW = "No preemption victims found for incoming preemptor"
PREEMPTION = "pod group preemption"
NEVER_PREEMPTS = f"{PREEMPTION}: {PREEMPTS_NEVER}"
NO_VICTIMS = f"{PREEMPTION}: {NOBODY_BELOW}"
GROUP_PREEMPTS = "waiting for the preemption for this pod group to be finished"  # of PreEnqueue
ONGOING = f"{PREEMPTION}: ongoing preemption on nominated nodes"
NO_PLACEMENTS = "no feasible placements found"
# Why members of a group do not preempt by themselves, as kube-scheduler 1.36 says it: the group has a topology
# constraint, or it preempts as a whole.
PLACED_APART = "not eligible due to placement-based pod group scheduling limitation"
PREEMPTS_TOGETHER = "not eligible due to workload aware preemption enabled"
# Why a group does not preempt, as that release says it.
NOT_WITH_CONSTRAINTS = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_PREEMPTION = "default preemption plugin is not registered, workload aware preemption is disabled"

# Ours, of gangs by label.
POLICY_NEVER = f"preemption: {PREEMPTS_NEVER}"
NOBODY_TO_EVICT = "preemption: no pod of lower priority is where it would help."
IN_VAIN = "preemption: even without all pods of lower priority there would be too little room."
NOBODY_BY_SHARES = (
    "preemption: its queue may not take room of other queues for the gang, "
    "and no pod of lower priority in its own is where it would help."
)
IN_VAIN_BY_SHARES = "preemption: even without all pods whose room its queue may take there would be too little room."
NOT_YET = "preemption: looked for later, since many gangs fit nowhere."
STILL_EVICTING = "preemption: the gang waits until the pods that were evicted for it are gone."


def minimum_out_of_reach(least: int, scheduled: int, remaining: int) -> str:
    """Return kube-scheduler's reason for a group of which fewer than the minimum can be scheduled any more."""
    return f"minCount ({least}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


def no_placement_available(placements: int, first: str) -> str:
    """Return kube-scheduler's reason for a group that none of so many placements holds; `first`: why not the first."""
    return f"0/{placements} placements are available, first placement status: {first}"


def child_failed(why: str) -> str:
    """Return kube-scheduler's message about a composite group of which one group met a fault while it was planned."""
    return f"composite pod group evaluation failed due to child error: {why}"


def domain_unknown(why: str) -> str:
    """Return kube-scheduler's message about a group whose placed pods do not show its domain."""
    return f"cannot determine domain for already scheduled pods: {why}"


def no_domain_of_pod(pod_key: str) -> str:
    return f"no topology domain found for pod {pod_key}"


def several_domains(names: Sequence[str]) -> str:
    """Return what kube-scheduler says of placed pods in several domains, of which it names two."""
    return f"more than 1 domain found for pod group: {names[0]}, {names[1]}"


def preempting(victims: int) -> str:
    """Return kube-scheduler's message about a group for which so many pods are evicted."""
    return f"{PREEMPTION}: found a placement for podgroup, preempting {victims} victims"


def preemption_fault(why: str) -> str:
    """Return kube-scheduler's message about a fault while it looked for victims for a group."""
    return f'error in "DefaultPreemption" PodGroupPostFilter plugins: {PREEMPTION}: {why}'


def claims_fault(why: str) -> str:
    """Return kube-scheduler's message about a fault while it took claims back for a group."""
    return f'error in "DynamicResources" PodGroupPostFilter plugins: {why}'


def other_pod_failed(why: str) -> str:
    """Return kube-scheduler's reason for pods of a group that ends since the search for one of them met a fault."""
    return f"failed to schedule other pod from a pod group: {why}"


_OF_ANCESTORS = {
    Lack.ROOT: "belongs to a composite group that does not exist or cannot be used, or such a one is above that",
    Lack.LOOP: "belongs to composite groups that form a loop",
    Lack.DEPTH: f"belongs to composite groups that are nested deeper than {MAX_TREE_DEPTH} levels",
}


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
    if why in _OF_ANCESTORS:
        return f"gang {key} {_OF_ANCESTORS[why]}"
    if why is Lack.GROUPS:
        have = counted(tracked.min_members, "of its groups has", "of its groups have")
        return f"gang {key} waits until {have} enough pods"
    if why is Lack.TOPOLOGY:
        topology = None if tracked.gang is None else tracked.gang.topology
        label = "" if topology is None else topology.required
        return f'gang {key} asks for nodes of one "{label}", and topology constraints are not supported'
    if why is Lack.GATES:
        return f"gang {key} waits for {tracked.gated:,} gated of its {counted(len(tracked.members), 'pod')}"
    there = tracked.available
    gated = f", {tracked.gated} more gated" if tracked.gated else ""
    return f"gang {key} waits for pods: {there} of at least {tracked.min_members}{gated}"


def not_placed(key: GangKey, missing: int, placed: int, name: str, why: str) -> str:
    """Return why a gang gets no node: how many of its pods would have one, and why the next one has none."""
    return f"{_needs_nodes(key, missing)}, and {placed} would have one: pod {name}: {why}"


def too_few(key: GangKey, missing: int, members: int) -> str:
    """Return why a gang is not tried of which too few pods are left to be decided, others being terminated."""
    return f"{_needs_nodes(key, missing)}, and {members} can be tried: others are terminating"


def not_in_one_domain(key: GangKey, refusal: str, name: str, why: str) -> str:
    """Return why a gang that must be in one domain is in none. `name`: of the pod that `why` is about, or ""."""
    return f"gang {key}: {refusal}: pod {name}: {why}" if name else f"gang {key}: {refusal}"


def no_domain_holds(label: str, domains: int, best: str, holds: int, missing: int) -> str:
    """Return that no domain of a label has room for the missing pods, and how many the best of them has room for."""
    pods = counted(missing, "pod")
    if domains == 1:
        return f"the only {label}, {best}, does not hold {pods}, but {holds}"
    if not holds:
        return f"no {label} holds {pods}; none of {domains} holds any; in {best}"
    return f"no {label} holds {pods}; the best of {domains}, {best}, holds {holds}"


def pinned_domain_holds_fewer(label: str, name: str, placed: int, holds: int, missing: int) -> str:
    """Return that the domain which a gang's placed pods are in has no room for the missing ones."""
    are = counted(placed, "of its pods is", "of its pods are")
    return f"{label} {name}, where {are}, does not hold {missing} more, but {holds}"


def no_domain(keys: Sequence[str]) -> str:
    """Return that no node is in a domain of these labels."""
    if len(keys) == 1:
        return f'no node has the label "{keys[0]}", which its topology requires'
    names = " and ".join(f'"{key}"' for key in keys)
    return f"no node has all the labels {names}, which its topology names"


def without_label(node: str, keys: Sequence[str]) -> str:
    """Return that a placed pod of a gang is on a node without the labels that name domains."""
    return f'one of its pods is on node {node}, which is in no domain of "{keys[-1]}"'


def in_several_domains(label: str, names: Sequence[str]) -> str:
    """Return that placed pods of a gang are in several domains of a label already."""
    return f"its pods are in more than one {label} already: {', '.join(names)}"


def not_permitted(key: GangKey, missing: int, permitted: int) -> str:
    """Return why a gang gets no node although enough of its pods would have one."""
    return f"{_needs_nodes(key, missing)}, and Reserve and Permit plugins allow {permitted}"


def _needs_nodes(key: GangKey, missing: int) -> str:
    return f"gang {key} needs nodes for {counted(missing, 'pod')} at once"


def two_gangs(name: str, apis: Sequence[str], key: GangKey) -> str:
    """Return what is wrong with a pod that names a gang by more than one API."""
    return f"pod {key.namespace}/{name} names a group of {' and one of '.join(apis)}: expected one"


def evicting(victims: int, members: int) -> str:
    """Return what preemption does for a gang: it evicts so many pods, after which so many members have a node."""
    room = f"{counted(members, 'pod')} of the gang"
    if not victims:
        return f"preemption: nobody is evicted, and room for {room} is kept."
    return f"preemption: {counted(victims, 'pod is', 'pods are')} evicted, and room for {room} is kept."


def placed_text(tracked: TrackedGang) -> str:
    """Return how many pods of a gang have a node, after its minimum was reached."""
    return _so_many_have_nodes(tracked, tracked.placed)


def stale_text(tracked: TrackedGang, seconds: float) -> str:
    """Return the message about a gang that has been broken for so long. Pods whose bindings are under way wait."""
    return f"only {_so_many_have_nodes(tracked, tracked.bound)}, for {seconds:.0f} s"


def _so_many_have_nodes(tracked: TrackedGang, number: int) -> str:
    waiting = len(tracked.members) + tracked.succeeded - number
    rest = f", {waiting} more wait" if waiting > 0 else ""
    pods, have = ("pod", "has") if number == 1 else ("pods", "have")
    least = counted(tracked.min_members, "group") if isinstance(tracked, TrackedTree) else str(tracked.min_members)
    return f"{number} {pods} of gang {tracked.key} {have} a node, of at least {least}{rest}"
