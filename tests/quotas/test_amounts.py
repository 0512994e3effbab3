"""Resource lists become integers, by kube-scheduler's rules for which resources count."""

from __future__ import annotations

import pytest

from kscheduler._fast import add_amounts
from kscheduler.errors import DecodeError
from kscheduler.quotas.amounts import ResourcePlaces, at, parse_amounts, sum_of


def test_cpu_is_in_thousandths_and_the_rest_in_units() -> None:
    amounts = parse_amounts({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 4, "pods": "10"}, "spec.min")
    assert amounts == {
        "cpu": 1500,
        "memory": 1 << 30,
        "ephemeral-storage": 0,
        "pods": 10,
        "nvidia.com/gpu": 4,
    }


def test_what_kube_scheduler_does_not_count_is_ignored() -> None:
    assert set(parse_amounts({"requests.cpu": 1, "widgets": 2}, "spec.max")) == {
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
    }


@pytest.mark.parametrize(
    ("quantities", "message"),
    [
        ({"cpu": "many"}, 'spec.max[cpu]: expected a quantity such as "100m" or "2Gi", got "many"'),
        ({"memory": "-1Gi"}, "spec.max[memory]: expected an amount of at least 0, got -1Gi"),
    ],
)
def test_a_bad_amount_is_named_with_its_field(quantities: dict[str, str], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        parse_amounts(dict(quantities), "spec.max")
    assert str(caught.value) == message


def test_a_resource_keeps_its_place() -> None:
    places = ResourcePlaces()
    assert places.request({"nvidia.com/gpu": 0, "memory": 5}) == ((1, 5), (4, 0))
    assert places.of("example.com/x") == 5
    assert places.of("nvidia.com/gpu") == 4
    assert places.named([7, 0, 0, 0, 2]) == {"cpu": 7, "nvidia.com/gpu": 2}


def test_a_sum_names_every_resource_that_is_named() -> None:
    assert sum_of([((0, 1), (4, 0)), ((0, 2),)]) == ((0, 3), (4, 0))
    assert sum_of([]) == ()


def test_vectors_grow_as_needed() -> None:
    vector: list[int] = []
    add_amounts(vector, ((2, 5),), -1)
    assert vector == [0, 0, -5]
    assert at(vector, 9) == 0
