"""Added nodes are like those of the cluster, or like those that the simulator generates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kscheduler.api.objects import Node
from kscheduler.errors import ConfigError
from kscheduler.simulator.workload import DEFAULT_NODE_SHAPES
from kscheduler.testing import make_node
from kscheduler.whatif.shapes import Shapes
from tests.whatif.scenarios import ZONE, names, small


def shapes(*nodes: Node) -> Shapes:
    return Shapes([small("n0"), small("n1", "b"), *nodes], DEFAULT_NODE_SHAPES)


def labels_of(node: Node) -> dict[str, str]:
    return dict(node.metadata.labels or {})


def zones_of(made: Iterable[Node]) -> list[str]:
    return [labels_of(node)[ZONE] for node in made]


def test_nodes_of_a_shape_of_the_cluster_are_spread_over_its_zones() -> None:
    added = list(shapes().make("small", 3))
    assert [each.model for each in added] == ["n0", "n1", "n0"]
    made = [each.node for each in added]
    assert names(made) == ["added-small-0", "added-small-1", "added-small-2"]
    assert zones_of(made) == ["a", "b", "a"]
    assert made[0].status.allocatable == small("n0").status.allocatable
    assert labels_of(made[0])["kubernetes.io/hostname"] == "added-small-0"


def test_a_generated_shape_is_spread_over_the_zones_of_the_cluster() -> None:
    added = list(shapes().make("general-32", 3))
    assert {each.model for each in added} == {""}
    made = [each.node for each in added]
    assert zones_of(made) == ["a", "b", "a"]
    assert (made[0].status.allocatable or {})["cpu"] == "32"


@pytest.mark.parametrize("shape", ["small", "general-32", "n1"])
def test_fewer_nodes_are_the_first_of_more(shape: str) -> None:
    assert list(shapes().make(shape, 7))[:3] == list(shapes().make(shape, 3))


def test_a_node_is_a_shape_but_for_the_condition_it_is_in() -> None:
    sick = (
        make_node("sick")
        .capacity(cpu="8")
        .taint("node.kubernetes.io/not-ready", effect="NoExecute")
        .taint("dedicated", "batch", effect="NoSchedule")
        .unschedulable()
        .obj()
    )
    made = next(shapes(sick).make("sick", 1)).node
    assert [taint.key for taint in made.spec.taints or ()] == ["dedicated"]
    assert not made.spec.unschedulable
    assert made.metadata.name == "added-sick-0"


def test_names_that_are_taken_are_left_out() -> None:
    added = shapes(small("added-small-1")).make("small", 2)
    assert names(each.node for each in added) == ["added-small-0", "added-small-2"]


@pytest.mark.parametrize(
    ("shape", "hint"), [("smal", 'did you mean "small"?'), ("genral-32", 'did you mean "general-32"?'), ("x", "small,")]
)
def test_an_unknown_shape_is_refused_with_the_nearest_one(shape: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        shapes().check("--add-nodes", shape)
    assert f'--add-nodes: unknown shape "{shape}"' in str(raised.value)
    assert hint in str(raised.value)
