"""How preemptions are compared, and what cases they are compared on: it needs no Go."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.parity.case import Case, Object
from tests.parity.compare_preemption import NO_NODES, _of_claims, _of_preemptions
from tests.parity.coverage_preemption import ANY, RULES, PreemptionCoverage
from tests.parity.generate_preemption import LEAST, generate_preemption, has_equals
from tests.parity.oracle import Answer, Preempted, Status, Tried
from tests.parity.ours_preemption import PreemptionWorld, forms

NO_VICTIMS = Status("UnschedulableAndUnresolvable", "", ["No preemption victims found for incoming pod"])
TOO_SMALL = Status("Unschedulable", "NodeResourcesFit", ["Insufficient cpu", "Too many pods"])


def preempted(**changes: object) -> Preempted:
    """On n0; n1 would do as well, and n2 not."""
    fields: dict[str, object] = {
        "failure": "0/3 nodes are available: 3 Insufficient cpu.",
        "promising": 3,
        "wanted": 3,
        "tried": [Tried("n0", victims=["a", "b"]), Tried("n1", victims=["c", "d"]), Tried("n2", status=TOO_SMALL)],
        "candidates": ["n0", "n1"],
        "chosen": "n0",
        "equals": ["n0", "n1"],
        "ended": ["a", "b"],
        "code": "Success",
        "nomination": "n0",
    }
    return Preempted(**{**fields, **changes})  # type: ignore[arg-type]


def reported(theirs: Preempted, ours: Preempted, *, has_nominated: bool = False) -> list[str]:
    return list(_of_preemptions(theirs, ours, has_nominated=has_nominated))


def test_the_other_of_two_equal_candidates_is_no_difference() -> None:
    assert reported(preempted(), preempted()) == []
    assert reported(preempted(), preempted(chosen="n1", ended=["c", "d"], nomination="n1")) == []


def test_the_order_of_reasons_and_of_nodes_that_are_no_help_is_no_difference() -> None:
    turned = Status("Unschedulable", "NodeResourcesFit", ["Too many pods", "Insufficient cpu"])
    tried = [Tried("n2", status=turned), *preempted().tried[:2]]
    assert reported(preempted(), preempted(tried=tried)) == []


def differing() -> Iterator[tuple[Preempted, str]]:
    first, second, third = preempted().tried
    yield preempted(promising=2), "promising nodes: expected 3, got 2"
    yield preempted(wanted=1), "candidates wanted: expected 3, got 1"
    other = Tried("n0", victims=["b", "a"])
    yield preempted(tried=[other, second, third]), "node n0, victims: expected ['a', 'b'], got ['b', 'a']"
    other = Tried("n0", victims=["a", "b"], violations=1)
    yield preempted(tried=[other, second, third]), "node n0, violations: expected 0, got 1"
    yield preempted(tried=[first, second]), "node n2: expected Tried("
    yield preempted(tried=[first, second, Tried("n2", status=NO_VICTIMS)]), "node n2: expected Status("
    yield preempted(tried=[first, second, Tried("n2", victims=["e"])]), "node n2, status: expected Status("
    yield preempted(candidates=["n1", "n0"]), "candidates: expected ['n0', 'n1'], got ['n1', 'n0']"
    yield preempted(equals=["n0"]), "best candidates: expected ['n0', 'n1'], got ['n0']"
    yield preempted(ended=["b", "a"]), "pods ended: expected ['a', 'b'], got ['b', 'a']"
    yield preempted(cleared=["w"]), "nominations taken back: expected [], got ['w']"
    yield preempted(code="Error"), "code: expected Success, got Error"
    yield preempted(message="no"), "message: expected , got no"
    yield preempted(failure="0/3"), "failure: expected 0/3 nodes are available: 3 Insufficient cpu., got 0/3"
    yield preempted(nomination=None), "nomination: expected n0, got None"
    yield Preempted(host="n0"), "fits: expected '', got 'n0'"
    yield Preempted(fault="crash"), "fault: expected '', got 'crash'"


@pytest.mark.parametrize(("ours", "expected"), list(differing()))
def test_what_differs_is_reported(ours: Preempted, expected: str) -> None:
    assert any(text.startswith(expected) for text in reported(preempted(), ours)), reported(preempted(), ours)


def test_where_nobody_is_less_important_we_need_not_try_a_node() -> None:
    theirs = preempted(tried=[Tried("n0", status=NO_VICTIMS)], candidates=[], equals=[], chosen="", ended=[])
    ours = msgspec.structs.replace(theirs, tried=[], promising=0, wanted=0)
    assert reported(theirs, ours) == []
    theirs.tried.append(Tried("n1", status=TOO_SMALL))
    assert reported(theirs, ours) != []


def test_faults_are_compared_but_for_their_words_and_for_those_that_nominated_pods_hide() -> None:
    assert reported(Preempted(fault="a"), Preempted(fault="b")) == []
    assert reported(Preempted(fault="a"), preempted()) == ["fault: expected 'a', got ''"]
    assert reported(preempted(), Preempted(fault="b"), has_nominated=True) == []
    assert reported(Preempted(fault=NO_NODES), Preempted(failure=f"0/0 nodes are available: {NO_NODES}.")) == []


def test_the_text_of_a_fault_of_devices_is_compared_while_searches_begin_at_the_first_node() -> None:
    theirs, ours = (Preempted(fault=f'running "DynamicResources" filter plugin: {text}') for text in "ab")
    assert [text.partition(":")[0] for text in reported(theirs, ours)] == ["fault of devices"]
    assert list(_of_preemptions(theirs, ours, has_nominated=False, has_moved=True)) == []


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ({"deallocated": ["default/a"]}, ""),
        ({"deallocated": ["default/b"]}, ""),
        ({"deleted": ["default/b"]}, ""),
        ({"deallocated": ["default/c"]}, "claims taken back: expected one of ['default/a', 'default/b'], got ['defa"),
        ({"deallocated": ["default/a", "default/b"]}, "claims taken back: expected one of "),
        ({"taken_back": []}, "claims that may be taken back: expected ['default/a', 'default/b'], got []"),
    ],
)
def test_of_several_claims_any_may_be_taken_back(ours: dict[str, list[str]], expected: str) -> None:
    several = ["default/a", "default/b"]
    theirs = preempted(deallocated=["default/a"], taken_back=several)
    found = list(_of_claims(theirs, preempted(**{"taken_back": several, **ours})))
    assert bool(found) == bool(expected)
    assert all(text.startswith(expected) for text in found[:1])


def test_a_single_claim_has_to_be_taken_back_in_the_same_way() -> None:
    theirs = preempted(deallocated=["default/a"], taken_back=["default/a"])
    assert list(_of_claims(theirs, theirs)) == []
    assert list(_of_claims(theirs, preempted(deleted=["default/a"], taken_back=["default/a"]))) != []
    assert list(_of_claims(theirs, preempted())) != []


# --- cases ---


def test_a_seed_gives_one_case() -> None:
    assert str(generate_preemption(7)) == str(generate_preemption(7))
    assert str(generate_preemption(7)) != str(generate_preemption(8))


def test_pods_without_a_start_are_of_different_importance_and_so_are_many_on_a_node() -> None:
    for seed in range(60):
        case = generate_preemption(seed)
        known: dict[str, list[tuple[int, str | None]]] = {}  # node -> importance of its pods
        for pod in case.cluster["pods"]:
            importance = pod["spec"].get("priority", 0), pod["status"].get("startTime")
            known.setdefault(pod["spec"]["nodeName"], []).append(importance)
        for found in known.values():
            unstarted = [priority for priority, started in found if started is None]
            assert len(set(unstarted)) == len(unstarted)
            assert len(found) <= 12 or len(set(found)) == len(found)
        assert has_equals(case) == any(len(set(found)) < len(found) for found in known.values())


@pytest.mark.slow
def test_all_forms_of_dry_runs_find_the_same_also_where_pods_share_ports() -> None:
    for seed in range(60):
        case = generate_preemption(seed, shares_ports=True)
        found = [
            [world.preempt(pod, Preempted()) for pod in case.pending]
            for world in (PreemptionWorld(case, form) for form in forms())
        ]
        assert found[1:] == found[:-1], f"seed {seed}"


# --- coverage ---


def victim(uid: str, node: str, priority: int, second: int) -> Object:
    return {
        "metadata": {"uid": uid},
        "spec": {"nodeName": node, "priority": priority},
        "status": {"startTime": f"2024-01-01T00:00:{second:02d}Z"},
    }


@pytest.mark.parametrize(
    ("other", "violations", "rule"),
    [
        ([(0, 0)], 1, RULES[0]),
        ([(1, 0)], 0, RULES[1]),
        ([(0, 0), (-5, 0)], 0, RULES[2]),
        ([(0, 0), (LEAST, 0)], 0, RULES[3]),
        ([(0, 1)], 0, RULES[4]),
        ([(0, 0)], 0, ANY),
    ],
)
def test_the_rule_that_decides_is_counted(other: list[tuple[int, int]], violations: int, rule: str) -> None:
    pods = [victim("a", "n0", 0, 0), *(victim(f"b{i}", "n1", *each) for i, each in enumerate(other))]
    uids = [pod["metadata"]["uid"] for pod in pods[1:]]
    tried = [Tried("n0", victims=["a"]), Tried("n1", victims=uids, violations=violations)]
    answer = Answer(preempted=[preempted(tried=tried)])
    coverage = PreemptionCoverage()
    cluster = {"nodes": [], "pods": pods, "podDisruptionBudgets": []}
    coverage.add(Case(1, "preempt", {}, cluster, [{"spec": {"priority": 10}}]), answer)
    assert [met for met in coverage.met if met.startswith("decides: ")] == [f"decides: {rule}"]
    assert f"decides: {rule}" not in coverage.missing()
    assert "the pod fits" in coverage.missing()
