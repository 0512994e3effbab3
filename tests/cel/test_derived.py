"""Derived attributes: which values expressions can have, and the attributes that they are."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import DeviceAttribute
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.faults import SelectorError
from kscheduler.cel.selectors import Selectors, selectors_for
from kscheduler.config.releases import RELEASE_1_37

VIEW = DeviceView("gpu.example.com", {"index": DeviceAttribute(int_value=3)}, {}, allow_multiple_allocations=False)
INDEX = 'device.attributes["gpu.example.com"].index'


@pytest.fixture
def selectors() -> Selectors:
    return selectors_for(RELEASE_1_37)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{INDEX} > 1", DeviceAttribute(bool_value=True)),
        (INDEX, DeviceAttribute(int_value=3)),
        ("device.driver", DeviceAttribute(string="gpu.example.com")),
        ('semver("v1.2", true)', DeviceAttribute(version="1.2.0")),
        ("dyn(optional.of(optional.of(1)))", DeviceAttribute(int_value=1)),
        ("dyn(type(1))", DeviceAttribute(string="int")),
        ("[]", DeviceAttribute(strings=[])),
        ("[true, false]", DeviceAttribute(bools=[True, False])),
        (f"[1, {INDEX} + 0]", DeviceAttribute(ints=[1, 3])),
        ('device.driver.split(".")', DeviceAttribute(strings=["gpu", "example", "com"])),
        ('[semver("1.0.0")]', DeviceAttribute(versions=["1.0.0"])),
    ],
)
def test_a_value_is_an_attribute(selectors: Selectors, expression: str, expected: DeviceAttribute) -> None:
    assert selectors.derived(expression).value(VIEW) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ("dyn(1u)", "unsupported CEL return type: uint64"),
        ("dyn(optional.none())", "unsupported CEL return type: <nil>"),
        ("dyn(optional.of([1]))", "unsupported CEL return type: []int64"),
        ("[dyn([1])]", "unsupported list element type: []int64"),
        ("[dyn(null)]", "unsupported list element type: structpb.NullValue"),
        ("[dyn(true), dyn(1)]", "expected list element at index 1 to be bool, got int64"),
        ("[dyn(1), dyn(true)]", "expected list element at index 1 to be int, got bool"),
        ('[dyn("a"), dyn(1.5)]', "expected list element at index 1 to be string, got float64"),
        ('[dyn(semver("1.0.0")), dyn("a")]', "expected list element at index 1 to be semver, got string"),
        ('device.attributes["gpu.example.com"].model', "no such key: model"),
    ],
)
def test_other_values_are_errors(selectors: Selectors, expression: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        selectors.derived(expression).value(VIEW)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("expression", "shown"),
    [("1.5", "double"), ("null", "null_type"), ("[1u]", "list(uint)"), ("optional.of(1)", "optional_type(int)")],
)
def test_expressions_of_other_types_are_refused(selectors: Selectors, expression: str, shown: str) -> None:
    with pytest.raises(SelectorError) as raised:
        selectors.derived(expression)
    assert str(raised.value) == (
        "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
        f"not {shown}"
    )


def test_a_text_may_be_a_selector_and_a_derived_attribute(selectors: Selectors) -> None:
    assert selectors.derived("true").value(VIEW) == DeviceAttribute(bool_value=True)
    assert selectors.get("true").matches(VIEW)
    assert selectors.derived("true") is selectors.derived("true")


def test_few_expressions_are_kept() -> None:
    selectors = Selectors(kept=2)
    first = selectors.derived("1")
    for expression in ("2", "3"):
        selectors.derived(expression)
    assert selectors.derived("1") is not first
