"""Two programs' preemptions for one pod, side by side: every difference in words, or none.

Compared are the texts, the nodes that are tried with what was found there, the candidates, whom the choice may take,
the pods that are ended in their order, and the nominations and claims that are taken back. What is random there is not
compared: where the search begins, which candidate is taken among equals, which of several claims (it has to be one that
either may take), and the order of one node's reasons. The text of a fault of devices is compared for the first pod,
whose search begins at the first node; and what takes too long is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS
from tests.parity.case import Case
from tests.parity.compare import OF_DEVICES, in_every_form
from tests.parity.devices.compare import comparable_text
from tests.parity.generate_gangs import GangCase
from tests.parity.oracle import Answer, Preempted, Status, Tried
from tests.parity.ours_devices import TIMED_OUT
from tests.parity.ours_preemption import PreemptionWorld, forms

NO_NODES = "no nodes available to schedule pods"  # there the text of a fault, with us like any other


def all_differences(case: Case, answer: Answer) -> list[tuple[int, str]]:
    """(position of the pod, what differs), in all forms of dry runs; an exception of ours is a difference as well."""
    return in_every_form(case, answer, forms(), differences)


def differences(case: Case, answer: Answer, form: str) -> Iterator[tuple[int, str]]:
    world = PreemptionWorld(case, form)
    has_nominated, has_moved = bool(case.cluster.get("nominated")), False
    for position, (pod, theirs) in enumerate(zip(case.pending, answer.preempted or (), strict=True)):
        ours = world.preempt(pod, theirs)
        if isinstance(case, GangCase):
            theirs, ours = _without_order(theirs), _without_order(ours)
        if any(TIMED_OUT in text for found in (theirs, ours) for text in (found.fault, found.failure)):
            has_moved = True
            continue
        for difference in _of_preemptions(theirs, ours, has_nominated=has_nominated, has_moved=has_moved):
            yield position, f"by {form}: {difference}"
        has_moved = True
        yield from ((position, f"by {form}: {text}") for text in _of_claims(theirs, ours))
    world.check()


def _of_preemptions(
    theirs: Preempted, ours: Preempted, *, has_nominated: bool, has_moved: bool = False
) -> Iterator[str]:
    if theirs.fault == NO_NODES and theirs.fault in ours.failure:
        return
    if theirs.fault or ours.fault:
        # On a node with nominated pods we may meet a fault that kube-scheduler does not: it filters with them first.
        if not ours.fault or not (theirs.fault or has_nominated):
            yield f"fault: expected {theirs.fault!r}, got {ours.fault!r}"
        elif has_moved or OF_DEVICES not in theirs.fault:
            return
        elif comparable_text(theirs.fault) != comparable_text(ours.fault):
            yield f"fault of devices: expected {theirs.fault!r}, got {ours.fault!r}"
        return
    if bool(theirs.host) != bool(ours.host):
        yield f"fits: expected {theirs.host!r}, got {ours.host!r}"
        return
    if ours.wanted or not _is_in_vain(theirs):
        yield from _of_dry_runs(theirs, ours)
    if theirs.chosen == ours.chosen:
        yield from _different("pods ended", theirs.ended, ours.ended)
        yield from _different("nominations taken back", theirs.cleared, ours.cleared)
    yield from _different("code", theirs.code, ours.code)
    for what in ("message", "failure"):
        yield from _different(what, *(comparable_text(_without_choice(found, what)) for found in (theirs, ours)))
    if theirs.chosen == ours.chosen:
        yield from _different("nomination", theirs.nomination, ours.nomination)


def _without_order(found: Preempted) -> Preempted:
    """Leave the order of victims out: that of the pods of a group is by chance."""
    tried = [replace(each, victims=sorted(each.victims)) for each in found.tried]
    return replace(found, tried=tried, ended=sorted(found.ended))


def _of_claims(theirs: Preempted, ours: Preempted) -> Iterator[str]:
    """Of the claims that are taken back; of several that may be, either program takes any one."""
    yield from _different("claims that may be taken back", theirs.taken_back, ours.taken_back)
    if len(theirs.taken_back) < 2:
        yield from _different("claims deallocated", theirs.deallocated, ours.deallocated)
        yield from _different("claims deleted", theirs.deleted, ours.deleted)
        return
    taken = [*ours.deallocated, *ours.deleted]
    if len(taken) != 1 or taken[0] not in theirs.taken_back:
        yield f"claims taken back: expected one of {theirs.taken_back}, got {taken}"


def _without_choice(found: Preempted, what: str) -> str:
    """Return a text without the name of the node that was taken among equals."""
    text: str = getattr(found, what)
    return text.replace(f" on node {found.chosen}, preempting", " on node ..., preempting") if found.chosen else text


def _is_in_vain(theirs: Preempted) -> bool:
    """Is nobody less important anywhere? Then we try no node."""
    return all(tried.status is not None and tried.status.reasons == list(NO_VICTIMS.reasons) for tried in theirs.tried)


def _of_dry_runs(theirs: Preempted, ours: Preempted) -> Iterator[str]:
    yield from _different("promising nodes", theirs.promising, ours.promising)
    yield from _different("candidates wanted", theirs.wanted, ours.wanted)
    yield from _of_nodes(theirs, ours)
    yield from _different("candidates", theirs.candidates, ours.candidates)
    yield from _different("best candidates", sorted(theirs.equals), sorted(ours.equals))


def _of_nodes(theirs: Preempted, ours: Preempted) -> Iterator[str]:
    """Candidates beyond those that are kept are not compared."""
    kept = {tried.node: tried for tried in theirs.tried if tried.status is not None or tried.node in theirs.candidates}
    got = {tried.node: tried for tried in ours.tried}
    for node in sorted(kept.keys() | got.keys()):
        yield from _of_tries(node, kept.get(node), got.get(node))


def _of_tries(node: str, theirs: Tried | None, ours: Tried | None) -> Iterator[str]:
    if theirs is None or ours is None:
        yield f"node {node}: expected {theirs}, got {ours}"
    elif theirs.status is None or ours.status is None:
        for what in ("status", "victims", "violations"):
            yield from _different(f"node {node}, {what}", getattr(theirs, what), getattr(ours, what))
    elif _key(theirs.status) != _key(ours.status):
        yield f"node {node}: expected {theirs.status}, got {ours.status}"


def _key(status: Status) -> tuple[str, list[str]]:
    code, reasons = status.key()
    return code, [comparable_text(reason) for reason in reasons]


def _different(what: str, expected: object, got: object) -> Iterator[str]:
    if expected != got:
        yield f"{what}: expected {expected}, got {got}"
