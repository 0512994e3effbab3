"""Every reason is a sentence that names nodes, plugins and runs."""

from __future__ import annotations

import pytest

from kscheduler.compare.reasons import EXTENDERS, Margin, Why
from kscheduler.compare.sentences import state_text, why_text


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (Why("filter", "Fit", "B", "x", "no room"), "Fit filters out x in B: no room"),
        (Why("filter", "", "B", "x", "no room"), "a filter filters out x in B: no room"),
        (Why("score", "S", scores=[Margin("S", (1, 0), (1, 2))]), "S scores x : y as 1 : 0 in A, 1 : 2 in B"),
        (
            Why("score", EXTENDERS, scores=[Margin(EXTENDERS, (1, 0), (1, 2))]),
            "extenders score x : y as 1 : 0 in A, 1 : 2 in B",
        ),
        (Why("tie"), "equal scores; chosen by the tie-break"),
        (Why("absent", run="A", node="y"), "y is not in the cluster in A"),
        (
            Why("not examined", run="A", node="y"),
            "y was not examined in A: the search ended before, or another node was nominated",
        ),
        (
            Why("not scheduled", run="A", message="0/2 nodes are available: 2 Insufficient cpu."),
            "no node in A: Insufficient cpu",
        ),
        (Why("not scheduled", run="A"), "no node in A: not tried, or the reason is not known"),
        (
            Why("other"),
            "the scores are the same in both, and did not decide: another scheduler, sampling, or the order",
        ),
        (Why("unknown"), "not known"),
    ],
)
def test_reasons_are_sentences(why: Why, text: str) -> None:
    assert why_text(why, "x", "y") == text


@pytest.mark.parametrize(
    ("state", "follows_from", "changed", "text"),
    [
        ("equal", "", [], "the first difference"),
        ("different", "d/p", ["d/p", "d/q"], "follows from d/p"),
        ("different", "", ["d/p", "d/q"], "the nodes held other pods: d/p, d/q"),
        ("elsewhere", "", [], "both nodes held the same pods; others were elsewhere"),
        ("not known", "", [], "follows the first difference"),
    ],
)
def test_the_state_of_the_cluster_is_a_few_words(state: str, follows_from: str, changed: list[str], text: str) -> None:
    assert state_text(state, follows_from, changed) == text
