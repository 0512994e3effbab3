"""The plan of a campaign is a function of its seed alone."""

from __future__ import annotations

from collections import Counter

from tests.campaign.plan import OTHER_FAULTS, PROXY_FAULTS, plan
from tests.support.faultproxy import Cut, Garble


def test_a_seed_gives_the_same_plan_each_time_and_another_gives_another() -> None:
    assert plan(7, 60, 100, 2) == plan(7, 60, 100, 2)
    assert plan(7, 60, 100, 2) != plan(8, 60, 100, 2)


def test_a_plan_has_so_many_faults_in_order_within_its_time() -> None:
    planned = plan(1, 90, 100, 2)
    assert len(planned) == 150
    assert planned == sorted(planned, key=lambda fault: fault.at_s)
    assert all(0 <= fault.at_s <= 90 and fault.for_s >= 0 for fault in planned)


def test_every_kind_of_fault_comes_and_hits_every_replica() -> None:
    planned = [fault for seed in range(20) for fault in plan(seed, 90, 100, 2)]
    assert len(planned) == 3000
    assert Counter(fault.kind for fault in planned).keys() == {*PROXY_FAULTS, *OTHER_FAULTS}
    assert {fault.replica for fault in planned} == {0, 1}


def test_a_plan_may_be_of_some_kinds_alone() -> None:
    assert {fault.kind for fault in plan(1, 60, 100, 2, ["kill", "freeze"])} == {"kill", "freeze"}


def test_a_replica_that_cannot_watch_pods_is_not_expected_to_bind_those_that_come() -> None:
    planned = [fault for seed in range(20) for fault in plan(seed, 90, 100, 2, ["cut", "garble"])]
    hiding = [isinstance(each.fault, Cut | Garble) and each.fault.resource != "nodes" for each in planned]
    assert [each.blocks for each in planned] == hiding
    assert {True, False} == set(hiding)


def test_a_planned_fault_says_what_it_is() -> None:
    for fault in plan(3, 60, 300, 2):
        assert fault.kind in str(fault) or type(fault.fault).__name__ in str(fault)
