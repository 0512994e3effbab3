"""What hinders several informers is news once, and over when the last of them has left."""

from __future__ import annotations

from kscheduler.client.outages import MOST_CAUSES, Outage, Outages
from tests.support.clocks import ManualClock


def test_a_cause_is_news_once_in_an_outage_whichever_kinds_it_hinders() -> None:
    outages = Outages(ManualClock())
    assert outages.is_news("a", "pods", "refused")
    assert not outages.is_news("b", "nodes", "refused")
    assert outages.is_news("b", "nodes", "timed out")
    assert not outages.is_news("a", "pods", "timed out")


def test_an_outage_ends_with_the_last_kind_and_says_how_many_there_were() -> None:
    clock = ManualClock()
    outages = Outages(clock)
    outages.is_news("a", "pods", "refused")
    clock.advance(5)
    outages.is_news("b", "nodes", "refused")
    assert outages.leave("a") is None
    clock.advance(2)
    assert outages.leave("b") == Outage(kinds=2, seconds=7.0)
    assert outages.leave("b") is None


def test_the_same_cause_is_news_again_in_the_next_outage() -> None:
    outages = Outages(ManualClock())
    outages.is_news("a", "pods", "refused")
    outages.leave("a")
    assert outages.is_news("b", "nodes", "refused")
    assert outages.kinds == 1


def test_an_informer_that_was_stopped_hinders_the_end_of_no_outage() -> None:
    outages = Outages(ManualClock())
    for informer, kind in (("a", "pods"), ("b", "nodes")):
        outages.is_news(informer, kind, "refused")
    outages.forget("a")
    assert not outages.hinders("a")
    assert outages.leave("b") == Outage(kinds=2, seconds=0.0)


def test_causes_that_are_never_the_same_end_up_unsaid() -> None:
    outages = Outages(ManualClock())
    news = [outages.is_news("a", "pods", f"request {number}") for number in range(1000)]
    assert sum(news) == MOST_CAUSES
