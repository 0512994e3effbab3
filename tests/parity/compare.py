"""Two programs' decisions about one pod, side by side: every difference in words, or none.

Of one node's reasons the order is not compared: kube-scheduler goes through extended resources in random order.
The host need not be the same, but it must be among the best by the oracle's totals; and the oracle's must be the one
that kube-scheduler's heap brings up from our totals. A fault (not a matter of room) is worded differently; that there
is one must agree, and the text if it is of DynamicResources and searches still begin at the first node: one that fails
or leaves out nodes lets kube-scheduler's next one begin behind those that it looked at, where another fault may be met
first. Where nodes share counters of devices, other nodes may be found then: such a decision is left out, as is one for
which devices are searched for too long. Where not all nodes are looked at (a sample, or the node the pod is nominated
to), a pod that fits somewhere has no node statuses on our side. With nominated pods around we may meet a fault on a
node that kube-scheduler has given up by then, since it filters with the nominated pods first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests.parity.case import SEQUENCE, Case
from tests.parity.devices.compare import comparable_text, of_allocations, without_empty
from tests.parity.oracle import Allocated, Answer, Decision, PluginScores, Status
from tests.parity.ours import FORMS, World
from tests.parity.ours_devices import TIMED_OUT

MAPPED = "Capacity key"  # in the text of a fault of one of several devices, in the order of a map
# Of several amounts of a pod that are too small one is named, in the order of a map.
TOO_SMALL = re.compile(r"(?<=pod level )(request|limit) for \S+(?= is insufficient)")
LEFT_OUT = "didn't satisfy plugin(s)"  # the reason of nodes that a PreFilter plugin leaves out
OF_DEVICES = '"DynamicResources"'  # in the text of a fault

CompareForm = Callable[[Case, Answer, str], Iterable[tuple[int, str]]]  # the string names a form


def all_differences(case: Case, answer: Answer) -> list[tuple[int, str]]:
    """(position of the pod, what differs), in both forms; an exception of ours is a difference as well."""
    return in_every_form(case, answer, FORMS, differences)


def in_every_form(case: Case, answer: Answer, forms: Iterable[str], compare: CompareForm) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for form in forms:
        try:
            found += compare(case, answer, form)
        except Exception as error:
            found.append((-1, f"by {form}: crash: {type(error).__name__}: {error}"))
    return found


def differences(case: Case, answer: Answer, form: str) -> Iterator[tuple[int, str]]:
    """(position of the pod, what differs) for all pending pods, our plugins asked in one form."""
    world = World(case, form)
    if (order := world.queue_order(case.pending)) != answer.queue_order:
        yield -1, f"by {form}: order of the queue: expected {answer.queue_order}, got {order}"
    has_nominated, has_moved = bool(case.cluster.get("nominated")), False
    for position, (pod, theirs) in enumerate(zip(case.pending, answer.pods or (), strict=True)):
        ours = world.decide(pod)
        if TIMED_OUT in theirs.failure or TIMED_OUT in ours.failure:
            if case.mode == SEQUENCE and theirs.host:
                return  # where it is, we have found no devices to reserve
            has_moved = True
            continue
        is_sampled = case.is_sampled or "nominatedNodeName" in pod.get("status", ())
        if has_moved and not is_sampled and _hangs_on_the_start(theirs):
            if case.mode == SEQUENCE:
                return
            continue
        for difference in _of_decisions(
            theirs, ours, is_sampled=is_sampled, has_nominated=has_nominated, has_moved=has_moved
        ):
            yield position, f"by {form}: {difference}"
        has_moved |= _is_fault(theirs) or _leaves_out_nodes(theirs, len(case.cluster["nodes"]))
        if case.mode == SEQUENCE and theirs.host:
            world.assume(pod, theirs.host)


def _of_decisions(
    theirs: Decision,
    ours: Decision,
    *,
    is_sampled: bool = False,
    has_nominated: bool = False,
    has_moved: bool = False,
) -> Iterator[str]:
    yield from _status("PreEnqueue", theirs.pre_enqueue, ours.pre_enqueue)
    if _is_fault(theirs) or _is_fault(ours):
        if not (has_nominated and _is_fault(ours)):
            yield from _of_faults(theirs, ours, has_moved=has_moved)
        return
    if theirs.failure != ours.failure and not (TOO_SMALL.search(theirs.failure) and TOO_SMALL.search(ours.failure)):
        yield f"failure: expected {theirs.failure!r}, got {ours.failure!r}"
    yield from _status("PreFilter", theirs.pre_filter, ours.pre_filter)
    if theirs.failure and theirs.is_fit_error and set(theirs.rejected_by or ()) != set(ours.rejected_by or ()):
        yield f"plugins that rejected: expected {theirs.rejected_by}, got {ours.rejected_by}"
    if set(theirs.pending_on or ()) != set(ours.pending_on or ()):
        yield f"pending plugins: expected {theirs.pending_on}, got {ours.pending_on}"
    if not (is_sampled and ours.host):
        yield from _of_nodes(theirs, ours)
    if theirs.evaluated != ours.evaluated:
        yield f"nodes looked at: expected {theirs.evaluated}, got {ours.evaluated}"
    if set(theirs.found) != set(ours.found):
        yield f"nodes found: expected {sorted(theirs.found)}, got {sorted(ours.found)}"
    else:
        yield from _of_scores(theirs, ours)
        yield from _of_hosts(theirs, ours)
        if not is_sampled:
            yield from _of_allocations(theirs, ours)


def _hangs_on_the_start(theirs: Decision) -> bool:
    """Did the scheduler find other nodes than a search that begins at the first node?

    Of counters that pools have in common in 1.36, those count for all nodes that the search meets first.
    """
    return not _is_fault(theirs) and set(theirs.found) != set(theirs.feasible)


def _leaves_out_nodes(theirs: Decision, nodes: int) -> bool:
    """Did the search look at some of the nodes only, so that the next one begins behind them?"""
    if theirs.host:
        return theirs.evaluated != nodes
    return any(LEFT_OUT in reason for status in theirs.statuses.values() for reason in status.reasons or ())


def _of_faults(theirs: Decision, ours: Decision, *, has_moved: bool) -> Iterator[str]:
    expected = theirs.failure or theirs.search_fault
    if _is_fault(theirs) != _is_fault(ours):
        yield f"failure: expected {expected!r}, got {ours.failure!r}"
    elif (
        has_moved
        or not (OF_DEVICES in expected or OF_DEVICES in ours.failure)
        or (MAPPED in expected and MAPPED in ours.failure)
    ):
        return
    elif comparable_text(expected) != comparable_text(ours.failure):
        yield f"fault of devices: expected {expected!r}, got {ours.failure!r}"


def _is_fault(decision: Decision) -> bool:
    if decision.search_fault:
        return True
    return bool(decision.failure) and not decision.is_fit_error and "no nodes available" not in decision.failure


def _status(what: str, theirs: Status | None, ours: Status | None) -> Iterator[str]:
    if theirs is None and ours is None:
        return
    if theirs is None or ours is None or _key(theirs) != _key(ours) or _other_plugin(theirs, ours):
        yield f"{what}: expected {theirs}, got {ours}"


def _key(status: Status) -> tuple[str, tuple[str, ...]]:
    code, reasons = status.key()
    return code, tuple(TOO_SMALL.sub(r"\1", reason) for reason in reasons)


def _other_plugin(theirs: Status, ours: Status) -> bool:
    return bool(theirs.plugin) and theirs.plugin != ours.plugin


def _of_nodes(theirs: Decision, ours: Decision) -> Iterator[str]:
    if set(theirs.feasible) != set(ours.feasible):
        yield f"nodes that fit: expected {sorted(theirs.feasible)}, got {sorted(ours.feasible)}"
    for node in sorted(theirs.statuses.keys() | ours.statuses.keys()):
        yield from _status(f"node {node}", theirs.statuses.get(node), ours.statuses.get(node))


def _of_scores(theirs: Decision, ours: Decision) -> Iterator[str]:
    expected_scores, our_scores = _told_apart(theirs.scores), _told_apart(ours.scores)
    if expected_scores.keys() != our_scores.keys():
        yield f"plugins that score: expected {sorted(expected_scores)}, got {sorted(our_scores)}"
        return
    for plugin, their in expected_scores.items():
        our = our_scores[plugin]
        if their.weight != our.weight:
            yield f"{plugin}: weight: expected {their.weight}, got {our.weight}"
        for what, expected, got in (("raw", their.raw, our.raw), ("normalised", their.normalized, our.normalized)):
            by_node = dict(zip(ours.scored, got, strict=True))
            for node, value in zip(theirs.scored, expected, strict=True):
                if by_node[node] != value:
                    yield f"{plugin}: {what} score of node {node}: expected {value}, got {by_node[node]}"


def _told_apart(scores: Mapping[str, PluginScores]) -> dict[str, PluginScores]:
    """Without plugins that give no node a score: some of kube-scheduler's give 0 where ours are left out."""
    return {plugin: each for plugin, each in scores.items() if any(each.raw) or any(each.normalized)}


def _of_allocations(theirs: Decision, ours: Decision) -> Iterator[str]:
    """Of what would be allocated on each node that fits."""
    for node in ours.found:
        expected, got = theirs.allocations.get(node), ours.allocations.get(node)
        if expected == Allocated():  # it keeps what allocated devices take of the node, and nothing is allocated
            expected = None
        if expected is None or got is None or len(expected.results or ()) != len(got.results or ()):
            if expected != got:
                yield f"allocations: on {node}: expected {expected}, got {got}"
            continue
        for claim, (their, our) in enumerate(zip(expected.results or (), got.results or (), strict=True)):
            yield from (f"{text} (on {node})" for text in of_allocations(claim, their, our))
        for what in ("requests", "mappings"):
            if without_empty(getattr(expected, what)) != without_empty(getattr(got, what)):
                yield f"{what}: on {node}: expected {getattr(expected, what)}, got {getattr(got, what)}"


def _of_hosts(theirs: Decision, ours: Decision) -> Iterator[str]:
    best = _best(theirs)
    if ours.host and ours.host not in best:
        yield f"node: expected one of {sorted(best)}, got {ours.host}"
    if theirs.host != (expected := _top_of_heap(theirs.found, _totals(ours))):
        yield f"the oracle chose {theirs.host}, its heap would give {expected} from our totals"


def _best(decision: Decision) -> set[str]:
    if decision.totals is None:
        return set(decision.found)
    highest = max(decision.totals)
    return {node for node, total in zip(decision.scored, decision.totals, strict=True) if total == highest}


def _totals(decision: Decision) -> dict[str, int]:
    """Node -> the sum of its weighted scores."""
    totals = dict.fromkeys(decision.found, 0)
    for scores in decision.scores.values():
        for node, value in zip(decision.scored, scores.normalized, strict=True):
            totals[node] += value * scores.weight
    return totals


def _top_of_heap(found: Sequence[str], totals: Mapping[str, int]) -> str:
    """What kube-scheduler takes: the top of a heap built over the nodes in the order it found them in.

    It is built from the last parent to the first; of two equal children the left one rises, if it is better.
    """
    heap = list(found)
    for start in reversed(range(len(heap) // 2)):
        parent = start
        while (child := 2 * parent + 1) < len(heap):
            if child + 1 < len(heap) and totals[heap[child + 1]] > totals[heap[child]]:
                child += 1
            if totals[heap[child]] <= totals[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0] if heap else ""
