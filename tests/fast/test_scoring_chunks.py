"""Scores of large tables: both forms agree where rows are scored many at once, and where one amount prevents that."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import NodeSpec, make_columns, raws, start
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
pytestmark = pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)

BATCH = 256  # rows that are scored at once
ROWS = BATCH + 50
RESOURCES = 6  # more than are scored by chunks
LARGE = 1 << 50  # no double holds a hundred times that

Score = Callable[[Any, "Scene"], None]


class Scene:
    """A table with full, empty and dead rows, some lacking a resource; in the first chunk amounts may be large."""

    def __init__(self, fast: Any, seed: int, has_large: bool) -> None:
        rng = random.Random(seed)
        specs = [
            NodeSpec(
                tuple(
                    rng.choice((0, 1, rng.randrange(1, 100), rng.randrange(1, 1 << 40)))
                    + (LARGE if has_large and row < BATCH and rng.random() < 0.01 else 0)
                    for _ in range(RESOURCES)
                ),
                pods=((tuple(some(rng)), rng.randrange(1 << 20), rng.randrange(1 << 40)),),
                alive=rng.random() < 0.95,
            )
            for row in range(ROWS)
        ]
        self.columns = make_columns(fast, specs, RESOURCES)
        self.request = fast.PodRequest(some(rng), rng.randrange(1 << 20), rng.randrange(1 << 40))
        self.resources = [(resource, rng.randrange(1, 5)) for resource in range(rng.randrange(RESOURCES + 1))]
        self.verdicts, self.scores = start(fast, self.columns)
        self.verdicts.reject_rows(sorted(rng.sample(range(ROWS), 50)), 1)
        for row in range(ROWS):
            self.scores.set_raw(row, rng.randrange(1000))


def some(rng: random.Random) -> list[tuple[int, int]]:
    """An amount of each resource."""
    return [(resource, rng.randrange(1, 1 << rng.randrange(2, 40))) for resource in range(RESOURCES)]


def fit(name: str) -> Score:
    def score(fast: Any, scene: Scene) -> None:
        kernel = getattr(fast, name)
        kernel(scene.columns, scene.verdicts, scene.scores, scene.request, scene.resources)

    return score


def ratio(fast: Any, scene: Scene) -> None:
    curve = [(10, 1), (50, 9), (90, 2)]
    fast.score_requested_to_capacity_ratio(
        scene.columns, scene.verdicts, scene.scores, scene.request, scene.resources, curve
    )


def balanced(fast: Any, scene: Scene) -> None:
    names = [resource for resource, _ in scene.resources]
    fast.score_balanced(scene.columns, scene.verdicts, scene.scores, scene.request, names)


def normalized(reverse: bool) -> Score:
    return lambda fast, scene: fast.normalize(scene.verdicts, scene.scores, reverse)


def normalized_with_one(raw: int) -> Score:
    def score(fast: Any, scene: Scene) -> None:
        scene.scores.set_raw(scene.verdicts.feasible_rows()[7], raw)
        fast.normalize(scene.verdicts, scene.scores, True)

    return score


def images(high: int) -> Score:
    def score(fast: Any, scene: Scene) -> None:
        scene.scores.set_raw(scene.verdicts.feasible_rows()[7], high)
        fast.score_images(scene.verdicts, scene.scores, 20, high)

    return score


@pytest.mark.parametrize(
    "score",
    [
        pytest.param(fit("score_least_allocated"), id="least allocated"),
        pytest.param(fit("score_most_allocated"), id="most allocated"),
        pytest.param(ratio, id="ratio"),
        pytest.param(balanced, id="balanced"),
        pytest.param(normalized(False), id="normalized"),
        pytest.param(normalized(True), id="normalized in reverse"),
        pytest.param(normalized_with_one(-5), id="normalized with a negative"),
        pytest.param(normalized_with_one(reference.MAX_RAW), id="normalized with a large one"),
        pytest.param(images(700), id="images"),
        pytest.param(images(reference.MAX_RAW), id="images, large"),
    ],
)
@settings(max_examples=8)
@given(seed=st.integers(0, 1 << 30), has_large=st.booleans())
def test_scores_are_those_of_the_plain_form(score: Score, seed: int, has_large: bool) -> None:
    assert COMPILED is not None
    found, expected = scored(COMPILED, score, seed, has_large), scored(reference, score, seed, has_large)
    assert found == expected


def scored(fast: ModuleType, score: Score, seed: int, has_large: bool) -> list[int]:
    scene = Scene(fast, seed, has_large)
    score(fast, scene)
    return raws(scene.scores)
