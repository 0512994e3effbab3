"""What a run of preemption cases has covered, by the oracle's answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import itemgetter

from kscheduler.framework.preemption.candidates import PRIORITY_SHIFT
from kscheduler.framework.preemption.evaluator import POLICY_NEVER, VICTIM_ENDING
from tests.parity.case import Case, Object
from tests.parity.oracle import Answer, Preempted, Tried

RULES = (  # of the choice, in their order
    "fewest violations",
    "lowest highest priority",
    "lowest sum of priorities",
    "fewest victims",
    "latest start",
)
GONE = "not found"  # of the preemptor
ANY = "any of equals"
LEAVABLE = (  # plugins whose objections pods that leave can lift
    "InterPodAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "VolumeRestrictions",
)
WANTED = (
    *(f"decides: {rule}" for rule in (*RULES, ANY)),
    *(f"{plugin} had turned the node down, and yields" for plugin in LEAVABLE),
    *(f"{plugin} turns the node down also then" for plugin in LEAVABLE),
    f"says: {POLICY_NEVER}",
    f"says: {VICTIM_ENDING}",
    f"says: {GONE}",
    "the pod fits",
    "the pod fits where it is nominated",
    "the pod fits nowhere and nobody has to go",
    "the pod is nominated, and preempts elsewhere",
    "a nomination is cleared",
    "nobody less important on a node",
    "victims of several priorities",
    "victims violate budgets",
    "less important pods come back, perhaps for a budget",
    "pods come back",
    "all of lower priority leave",
    "victims that are ending already",
    "nominated pods are yielded to, and there is room",
    "nominated pods are yielded to, and there is no room",
    "nominations are taken back",
    "the search ends early",
    "the search goes on for a candidate without violations",
)


class PreemptionCoverage:
    def __init__(self) -> None:
        self.cases = 0
        self.attempts = 0  # pods that fit nowhere
        self.met: Counter[str] = Counter()

    def add(self, case: Case, answer: Answer) -> None:
        self.cases += 1
        pods = {pod["metadata"]["uid"]: pod for pod in case.cluster["pods"]}
        for preemptor, found in zip(case.pending, answer.preempted or (), strict=True):
            self.attempts += bool(found.code)
            self.met.update(_of_pod(preemptor, found))
            self.met.update(_of_choice(found, pods))
            for tried in found.tried:
                self.met.update(_of_node(tried, preemptor, case, pods))

    def missing(self) -> list[str]:
        """What a run that is long enough should have met, and this one has not."""
        return [wanted for wanted in WANTED if not self.met[wanted]]


def priority_of(pod: Object) -> int:
    priority: int = pod["spec"].get("priority", 0)
    return priority


def _of_pod(preemptor: Object, found: Preempted) -> Iterator[str]:
    nominated = preemptor.get("status", {}).get("nominatedNodeName", "")
    if found.host:
        yield "the pod fits"
        if found.host == nominated:
            yield "the pod fits where it is nominated"
        return
    for reason in (POLICY_NEVER, VICTIM_ENDING, GONE):
        if reason in found.message:
            yield f"says: {reason}"
    if found.code == "Unschedulable" and found.tried:
        yield "the pod fits nowhere and nobody has to go"
    if nominated and found.chosen and found.chosen != nominated:
        yield "the pod is nominated, and preempts elsewhere"
    if nominated and found.nomination == "":
        yield "a nomination is cleared"
    if found.cleared:
        yield "nominations are taken back"
    if found.wanted and len(found.tried) < found.promising:
        yield "the search ends early"
    helpful = [tried for tried in found.tried if tried.status is None]
    if found.wanted and len(helpful) > found.wanted:
        yield "the search goes on for a candidate without violations"


def _of_choice(found: Preempted, pods: Mapping[str, Object]) -> Iterator[str]:
    candidates = [tried for tried in found.tried if tried.node in found.candidates]
    victims = [uid for tried in candidates if tried.node == found.chosen for uid in tried.victims]
    if len(found.ended) < len(victims):
        yield "victims that are ending already"
    costs = [_cost(tried, pods) for tried in candidates]
    for place, rule in enumerate(RULES):
        if len(costs) < 2:
            return
        least = min(map(itemgetter(place), costs))
        costs = [cost for cost in costs if cost[place] == least]
        if len(costs) == 1:
            yield f"decides: {rule}"
            return
    if costs:
        yield f"decides: {ANY}"


def _of_node(tried: Tried, preemptor: Object, case: Case, pods: Mapping[str, Object]) -> Iterator[str]:
    own = priority_of(preemptor)
    lower = {uid for uid, pod in pods.items() if pod["spec"]["nodeName"] == tried.node and priority_of(pod) < own}
    yielded = any(
        pod["status"]["nominatedNodeName"] == tried.node and priority_of(pod) >= own
        for pod in case.cluster.get("nominated", ())
    )
    if not lower:
        yield "nobody less important on a node"
        return
    if tried.status is not None:
        yield f"{tried.status.plugin} turns the node down also then"
        if yielded:
            yield "nominated pods are yielded to, and there is no room"
        return
    yield f"{tried.rejector} had turned the node down, and yields"
    if yielded:
        yield "nominated pods are yielded to, and there is room"
    yield "pods come back" if len(tried.victims) < len(lower) else "all of lower priority leave"
    if len({priority_of(pods[uid]) for uid in tried.victims}) > 1:
        yield "victims of several priorities"
    if tried.violations:
        yield "victims violate budgets"
    first = priority_of(pods[tried.victims[0]])
    spared = lower.difference(tried.victims)
    if case.cluster["podDisruptionBudgets"] and any(priority_of(pods[uid]) < first for uid in spared):
        yield "less important pods come back, perhaps for a budget"


def _cost(tried: Tried, pods: Mapping[str, Object]) -> tuple[float, ...]:
    """Of a candidate, by each of `RULES`; the lowest wins."""
    victims = [pods[uid] for uid in tried.victims]
    priorities = [priority_of(victim) for victim in victims]
    first = max(priorities)
    started = min(_started(victim) for victim in victims if priority_of(victim) == first)
    total = sum(priority + PRIORITY_SHIFT for priority in priorities)
    return tried.violations, first, total, len(victims), -started


def _started(pod: Object) -> float:
    """Such that later is more; a pod that has not been started starts now."""
    text = pod["status"].get("startTime")
    return math.inf if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
