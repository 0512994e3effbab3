"""A comparison as text: what differs comes first, and every sentence names nodes, plugins and runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.compare.comparing import Comparison, compare
from kscheduler.compare.text import to_text
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import LEAST, MOST, arriving, nodes, simulated, small_pods
from tests.simulator.objects import pod


@pytest.fixture(scope="module")
def packed() -> Comparison:
    scenario = Scenario(nodes(2), arriving(*small_pods(3), pod("large", cpu="4")))
    return compare(simulated("least.yaml", scenario, LEAST), simulated("most.yaml", scenario, MOST))


def test_the_pods_that_landed_elsewhere_are_a_table(packed: Comparison) -> None:
    lines = [" ".join(line.split()) for line in to_text(packed).splitlines()]
    assert lines[:4] == [
        "A: least.yaml (simulated)",
        "B: most.yaml (simulated)",
        "configuration: least.yaml | most.yaml",
        "",
    ]
    assert lines[4].startswith("4 pods in both: 1 on another node, 0 placed only in A, 1 only in B; ")
    assert lines[4].endswith("; 2 on the same node, 0 without a node in both")
    assert lines[7:10] == [
        "pod in A in B why",
        "default/p1 n1 n0 NodeResourcesFit scores n1 : n0 as 174 : 150 in A, 24 : 50 in B the first difference",
        "default/large no node n1 NodeResourcesFit filters out n1 in A: Insufficient cpu follows from default/p1",
    ]
    assert "why, of the 2 listed: 1 NodeResourcesFit (score), 1 NodeResourcesFit (filter)" in lines


def test_figures_are_side_by_side_and_say_which_is_better(packed: Comparison) -> None:
    lines = [" ".join(line.split()) for line in to_text(packed).splitlines()]
    assert "pods that got no node 1 0 -1 better" in lines
    assert "share of the pods that got a node 75.00 % 100.00 % +25.00 % better" in lines
    assert "pods that were preempted 0 0 =" in lines
    paired = "of 3 placed in both: 0 bound sooner in B, 0 later, 3 equally soon; B - A on average +0 s"
    assert f"pod by pod, {paired}" in lines
    bar = "█" * 24
    assert f"up to 5 ms 100.0 % {bar} 100.0 % {bar}" in lines


def test_a_difference_too_small_to_be_shown_is_neither_better_nor_worse(packed: Comparison) -> None:
    [placed] = (each for each in packed.figures if each.name == "placed")
    text = to_text(replace(packed, figures=[replace(placed, a=0.75, b=0.750_01)]))
    assert "share of the pods that got a node  75.00 %  75.00 %      =\n" in text


def test_without_a_difference_it_says_so() -> None:
    scenario = Scenario(nodes(2), arriving(*small_pods(3)))
    text = to_text(compare(simulated("a", scenario), simulated("b", scenario)))
    assert "every pod landed equally in both\n" in text


def test_names_are_text_whatever_is_in_them(packed: Comparison) -> None:
    hostile = "\x1b[2Jsecond\u202e\rline"
    first = replace(packed.differences[0], pod=hostile, because=f"{hostile}\nthird")
    text = to_text(replace(packed, differences=[first], notes=[hostile]))
    assert f"line{chr(10)}third" not in text
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    assert "note: \ufffd[2Jsecond\ufffd\ufffdline\n" in text


def test_pods_that_are_not_listed_are_counted() -> None:
    scenario = Scenario(nodes(8), arriving(*small_pods(8)))
    some, none = (compare(simulated("a", scenario, LEAST), simulated("b", scenario, MOST), limit) for limit in (2, 0))
    assert f"and {some.not_listed} more (--limit)\n" in to_text(some)
    assert f"{none.not_listed} pods landed elsewhere, none is listed (--limit)\n" in to_text(none)
