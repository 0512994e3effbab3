from __future__ import annotations

import math

import pytest

from kscheduler.telemetry.parsing import finite, float_text, node_of, quantity


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1500m", 1.5), ("12Ki", 12288.0), ("250n", 250e-9), ("-3", -3.0), ("1e3", 1000.0), (80, 80.0), (0.6, 0.6)],
)
def test_quantities_are_read(written: object, meant: float) -> None:
    assert quantity(written) == meant


@pytest.mark.parametrize(
    "written",
    ["", "NaN", "Inf", "+Inf", "1..2", "1e999", "9" * 10_000, "1Zi", None, True, [], {}, math.nan, math.inf, 10**400],
)
def test_what_is_no_quantity_is_nan(written: object) -> None:
    assert math.isnan(quantity(written))


@pytest.mark.parametrize(("written", "meant"), [("1.5", 1.5), ("-2e-7", -2e-7), ("0", 0.0)])
def test_prometheus_writes_numbers_as_text(written: object, meant: float) -> None:
    assert float_text(written) == meant


@pytest.mark.parametrize("written", ["NaN", "+Inf", "-Inf", "", "one", "1" * 65, 1.5, None, [1]])
def test_what_is_no_finite_number_in_text_is_nan(written: object) -> None:
    assert math.isnan(float_text(written))


def test_booleans_are_no_numbers() -> None:
    assert math.isnan(finite(True))


@pytest.mark.parametrize(
    ("labels", "label", "node"),
    [
        ({"node": "a", "instance": "b:9100"}, "", "a"),
        ({"instance": "b:9100"}, "", "b"),
        ({"instance": "b"}, "", "b"),
        ({"node": "", "instance": "b"}, "", "b"),
        ({"host": "c:80"}, "host", "c"),
        ({"node": "a"}, "host", ""),
        ({}, "", ""),
        ({"node": "a:b"}, "", "a:b"),
        ({"instance": "[::1]:9100"}, "", "[::1]:9100"),
        ({"instance": "::1"}, "", "::1"),
    ],
)
def test_a_node_is_named_by_a_label(labels: dict[str, str], label: str, node: str) -> None:
    assert node_of(labels, label) == node
