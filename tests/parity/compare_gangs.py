"""Differences between what kube-scheduler and this program decide about a group, in words."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any

from msgspec.structs import replace

from kscheduler.testing.controlplane import ensure
from tests.parity.case import Object
from tests.parity.devices.compare import comparable_text, of_allocations
from tests.parity.generate_gang_claims import GROUP_UID
from tests.parity.generate_gangs import GangCase, gates_of
from tests.parity.oracle import Answer, ClaimWrites, Ganged, GroupCondition
from tests.parity.oracle_process import OracleProcess
from tests.parity.ours_gangs import decide_gang


def gang_oracle(release: str, more_gates: Sequence[str] = ()) -> OracleProcess[GangCase, Answer]:
    """The oracle of a release, with the gates of groups on, and more. It is built if it has not been."""
    binary = ensure(["oracle"], release).path("oracle")
    gates = ",".join(f"{name}={str(is_on).lower()}" for name, is_on in gates_of(release, more_gates).items())
    return OracleProcess(binary, Answer, (f"--feature-gates={gates}",))


def gang_differences(case: GangCase, answer: Answer) -> list[tuple[int, str]]:
    """(0, what differs) for all that does."""
    theirs = answer.gang
    assert theirs is not None, "the oracle decides about a group"
    # Of 1.36 the order of equal members is by chance; those that were not tried were reported in it.
    order = list(dict.fromkeys([*(theirs.order or ()), *(theirs.failed or ())]))
    taken, again = _nodes(theirs)
    ours = decide_gang(case, taken, again, order, _chosen(theirs), theirs.tried or ())
    return [(0, text) for text in _differences(case, theirs, ours)]


def _nodes(theirs: Ganged) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """pod -> the nodes that it had in the attempt, and later; with placements one in each."""
    if theirs.tried:
        return theirs.tried[0], theirs.tried[1] if len(theirs.tried) > 1 else {}
    taken, again = theirs.taken or {}, theirs.again or {}
    return {name: [node] for name, node in taken.items()}, {name: [node] for name, node in again.items()}


def _chosen(theirs: Ganged) -> list[dict[str, Counter[str]]]:
    """For the attempt and a trial without victims: pod -> how often it had each node.

    That shows the placement that was chosen: there it had it more often, or has it in the end.
    """
    tried = theirs.tried or [{}]
    chosen = [{name: Counter(nodes) for name, nodes in each.items()} for each in tried]
    for name, found in theirs.pods.items():
        chosen[-1].setdefault(name, Counter())[found.host or found.nomination or ""] += 1
    return chosen


def _differences(case: GangCase, theirs: Ganged, ours: Ganged) -> Iterator[str]:
    if theirs.is_tried is not ours.is_tried:
        yield f"is tried: expected {theirs.is_tried}, got {ours.is_tried}"
        return
    if theirs.pods.keys() != ours.pods.keys():
        yield f"pods with an outcome: expected {sorted(theirs.pods)}, got {sorted(ours.pods)}"
    for name in theirs.pods.keys() & ours.pods.keys():
        expected, got = theirs.pods[name], ours.pods[name]
        if expected.host != got.host:
            yield f"node: pod {name}: expected {expected.host!r}, got {got.host!r}"
        if comparable_text(expected.failure) != comparable_text(got.failure):
            yield f"failure: pod {name}: expected {expected.failure!r}, got {got.failure!r}"
        if expected.is_rejected is not got.is_rejected:
            yield f"is rejected: pod {name}: expected {expected.is_rejected}, got {got.is_rejected}"
        if expected.nomination != got.nomination:
            yield f"nomination: pod {name}: expected {expected.nomination!r}, got {got.nomination!r}"
    if _in_order(case, theirs) != _in_order(case, ours):
        yield f"evicted: expected {theirs.ended}, got {ours.ended}"
    if _by_group(case, theirs) != _by_group(case, ours):
        yield f"order of failures: expected {theirs.failed}, got {ours.failed}"
    if _comparable(theirs.condition) != _comparable(ours.condition):
        yield f"condition: expected {theirs.condition}, got {ours.condition}"
    expected_of, got_of = theirs.conditions or {}, ours.conditions or {}
    for name in sorted(expected_of.keys() | got_of.keys()):
        if expected_of.get(name) != got_of.get(name):
            yield f"condition: group {name}: expected {expected_of.get(name)}, got {got_of.get(name)}"
    if case.has_claims:
        hosts = {name for name, found in theirs.pods.items() if found.host}
        yield from _of_claims(case, theirs.claims or ClaimWrites(), ours.claims or ClaimWrites(), hosts)


def _by_group(case: GangCase, found: Ganged) -> dict[str, list[str]]:
    """Group -> the names of failed pods in order; in which order groups report is by chance."""
    groups = {pod["metadata"]["name"]: pod["spec"]["schedulingGroup"]["podGroupName"] for pod in case.pending}
    failed: dict[str, list[str]] = {}
    for name in found.failed or ():
        failed.setdefault(groups[name], []).append(name)
    return failed


def _comparable(condition: GroupCondition | None) -> GroupCondition | None:
    return None if condition is None else replace(condition, message=comparable_text(condition.message))


def _of_claims(case: GangCase, theirs: ClaimWrites, ours: ClaimWrites, hosts: Set[str]) -> Iterator[str]:
    """Of the claims that are written; of several that may be deallocated either program takes any."""
    if theirs.written.keys() != ours.written.keys():
        yield f"claims written: expected {sorted(theirs.written)}, got {sorted(ours.written)}"
    for position, key in enumerate(sorted(theirs.written.keys() & ours.written.keys())):
        expected, got = theirs.written[key], ours.written[key]
        yield from of_allocations(position, _timeless(expected.allocation), _timeless(got.allocation))
        expected_users, got_users = set(expected.reserved_for or ()), set(got.reserved_for or ())
        if GROUP_UID in got_users:  # a pod that does not name the claim as its group does has it as well then
            expected_users &= got_users
        if expected_users != got_users:
            yield f"reserved: claim {key}: expected {expected.reserved_for}, got {got.reserved_for}"
    if _has_choice(case):
        return
    expected_keys, got_keys = _taken_back(theirs, hosts), _taken_back(ours, hosts)
    if expected_keys != got_keys:
        yield f"taken back: expected {expected_keys}, got {got_keys}"


def _taken_back(found: ClaimWrites, hosts: Set[str]) -> tuple[list[str], list[str]]:
    """The claims that are deallocated, and the reservations that are taken back.

    kube-scheduler takes back those of all members that it has planned, also if they are bound then, and misses them.
    """
    released = [each for each in set(found.released or ()) if each.rpartition(" ")[2] not in hosts]
    return sorted(set(found.deallocated or ())), sorted(released)


def _timeless(allocation: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in allocation.items() if key != "allocationTimestamp"}


def _has_choice(case: GangCase) -> bool:
    """Are there several claims, allocated or shared while they are being allocated, of which one may be taken back?"""
    candidates = 0
    for claim in case.cluster["resourceClaims"]:
        is_listed = claim["spec"]["devices"]["requests"] and len(claim.get("status", {}).get("reservedFor", ())) <= 1
        is_own = claim["metadata"]["name"].startswith("own-")
        candidates += bool(is_listed and ("status" in claim or not is_own))
    return candidates > 1


def _in_order(case: GangCase, found: Ganged) -> list[list[str]]:
    """The uids of evicted pods in order; of a group that is evicted together kube-scheduler's order is by chance."""
    if case.release == "1.36":  # each member evicts by itself, beside the others
        return [sorted(set(found.ended or ()))]
    parents = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): group["spec"].get("parentCompositePodGroupName")
        for group in case.pod_groups
    }

    def unit(pod: Object) -> object:
        group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        if group is None:
            return pod
        return parents.get((pod["metadata"]["namespace"], group)) or pod["spec"]["schedulingGroup"]

    groups = {pod["metadata"]["uid"]: unit(pod) for pod in case.cluster["pods"]}
    return [sorted(run) for _, run in itertools.groupby(found.ended or (), key=groups.__getitem__)]
