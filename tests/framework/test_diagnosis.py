"""The words for a pod that fits nowhere, as kube-scheduler's FitError puts them."""

from __future__ import annotations

from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.status import Code, Status


def test_reasons_are_counted_and_sorted_as_text_not_as_numbers() -> None:
    diagnosis = Diagnosis(15)
    diagnosis.count(Status(Code.UNSCHEDULABLE, ("Insufficient cpu", "Insufficient memory"), "Fit"), 10)
    diagnosis.count(Status(Code.UNSCHEDULABLE, ("Insufficient cpu",), "Fit"), 2)
    diagnosis.count(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) were unschedulable",), "Closed"), 3)
    assert diagnosis.message() == (
        "0/15 nodes are available: 10 Insufficient memory, 12 Insufficient cpu, 3 node(s) were unschedulable."
    )
    assert diagnosis.unschedulable_plugins == {"Fit", "Closed"}


def test_a_pre_filters_words_stand_for_all_nodes() -> None:
    diagnosis = Diagnosis(3, pre_filter_message="pod affinity terms conflict", reasons={"x": 1})
    assert diagnosis.message() == "0/3 nodes are available: pod affinity terms conflict."


def test_a_post_filters_words_come_last() -> None:
    diagnosis = Diagnosis(1, reasons={"x": 1}, post_filter_message="preemption: no victims.")
    assert diagnosis.message() == "0/1 nodes are available: 1 x. preemption: no victims."


def test_without_nodes_there_is_nothing_else_to_say() -> None:
    assert Diagnosis(0, post_filter_message="x").message() == "no nodes available to schedule pods"


def test_without_reasons_the_message_has_the_number_of_nodes() -> None:
    assert Diagnosis(2).message() == "0/2 nodes are available:"


def test_a_pending_status_is_blamed_apart_and_an_unsigned_one_not_at_all() -> None:
    diagnosis = Diagnosis(1)
    diagnosis.blame(Status(Code.PENDING, ("later",), "Claims"))
    diagnosis.blame(Status(Code.UNSCHEDULABLE, ("no",)))
    assert (diagnosis.pending_plugins, diagnosis.unschedulable_plugins) == ({"Claims"}, set())


def test_statuses_by_node_are_worked_out_when_asked_for() -> None:
    assert dict(Diagnosis(1).node_statuses()) == {}
