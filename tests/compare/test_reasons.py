"""The first plugin that says why, from what two attempts found out about both nodes."""

from __future__ import annotations

from kscheduler.compare.attempts import Attempt, Fit, NodeView, Score
from kscheduler.compare.reasons import EXTENDERS, UNKNOWN, Margin, Why, why


def fits(total: int | None = None, **scores: tuple[int, int]) -> NodeView:
    """A feasible node with (normalised score, weight) by plugin."""
    by_plugin = {plugin: Score(*score) for plugin, score in scores.items()}
    return NodeView(
        Fit.FITS,
        scores=by_plugin,
        total=sum(score.weighted for score in by_plugin.values()) if total is None else total,
    )


def attempt(node: str, **nodes: NodeView) -> Attempt:
    return Attempt(0.0, 1, node, nodes, "" if node else "0/2 nodes are available")


OUT = NodeView(Fit.FILTERED, "TaintToleration", "node(s) had untolerated taint(s)")


def test_the_filter_of_the_node_of_a_comes_first() -> None:
    a, b = attempt("x", x=fits(), y=OUT), attempt("y", x=OUT, y=fits())
    assert why(a, b, "x", "y") == Why("filter", OUT.plugin, "B", "x", OUT.message)


def test_the_filter_of_the_node_of_b_comes_next() -> None:
    a, b = attempt("x", x=fits(), y=OUT), attempt("y", x=fits(), y=fits())
    assert why(a, b, "x", "y") == Why("filter", OUT.plugin, "A", "y", OUT.message)


def test_scores_are_compared_by_the_margin_between_the_nodes_in_the_order_of_the_configuration() -> None:
    a = attempt("x", x=fits(One=(50, 1), Two=(9, 2), Three=(9, 1)), y=fits(One=(40, 1), Two=(8, 2), Three=(8, 1)))
    # The first plugin gives both nodes 20 more; the second and the third prefer the other node.
    b = attempt("y", x=fits(One=(70, 1), Two=(8, 2), Three=(8, 9)), y=fits(One=(60, 1), Two=(19, 2), Three=(9, 9)))
    found = why(a, b, "x", "y")
    assert (found.kind, found.plugin) == ("score", "Two")
    assert found.scores == [
        Margin("One", (50, 40), (70, 60)),
        Margin("Two", (18, 16), (16, 38)),
        Margin("Three", (9, 8), (72, 81)),
    ]


def test_a_plugin_that_only_one_side_has_counts_as_zero_in_the_other() -> None:
    a = attempt("x", x=fits(One=(5, 1)), y=fits(One=(5, 1)))
    b = attempt("y", x=fits(One=(5, 1), New=(0, 1)), y=fits(One=(5, 1), New=(7, 1)))
    found = why(a, b, "x", "y")
    assert (found.plugin, found.scores[1]) == ("New", Margin("New", (0, 0), (0, 7)))


def test_equal_scores_are_a_tie() -> None:
    same = {"x": fits(One=(5, 1)), "y": fits(One=(5, 1))}
    assert why(attempt("x", **same), attempt("y", **same), "x", "y").kind == "tie"


def test_equal_scores_that_prefer_one_of_the_nodes_did_not_decide() -> None:
    same = {"x": fits(One=(5, 1)), "y": fits(One=(6, 1))}
    assert why(attempt("x", **same), attempt("y", **same), "x", "y").kind == "other"


def test_scores_of_extenders_are_what_is_left_of_the_total() -> None:
    a = attempt("x", x=fits(15, One=(5, 1)), y=fits(5, One=(5, 1)))
    b = attempt("y", x=fits(5, One=(5, 1)), y=fits(15, One=(5, 1)))
    assert why(a, b, "x", "y").plugin == EXTENDERS


def test_a_node_that_was_not_there_or_not_examined_is_named() -> None:
    a = attempt("x", x=fits(), y=NodeView(Fit.ABSENT))
    assert why(a, attempt("y", x=fits(), y=fits()), "x", "y") == Why("absent", run="A", node="y")
    b = attempt("y", x=NodeView(Fit.NOT_EXAMINED), y=fits())
    assert why(a, b, "x", "y") == Why("not examined", run="B", node="x")


def test_a_pod_without_a_node_names_the_filter_or_else_the_message() -> None:
    assert why(attempt("", y=OUT), attempt("y", y=fits()), "", "y").plugin == OUT.plugin
    assert why(attempt("", y=fits()), attempt("y", y=fits()), "", "y") == Why(
        "not scheduled", run="A", message="0/2 nodes are available"
    )
    assert why(None, None, "x", "") == Why("not scheduled", run="B")


def test_without_both_attempts_scores_cannot_be_compared() -> None:
    a = attempt("x", x=fits(One=(5, 1)), y=fits(One=(6, 1)))
    assert why(a, None, "x", "y") == UNKNOWN
    assert why(a, attempt("y", x=NodeView(Fit.UNKNOWN), y=NodeView(Fit.UNKNOWN)), "x", "y") == UNKNOWN
    assert why(attempt("x"), attempt("y"), "x", "y") == UNKNOWN
