"""Selectors match devices as Kubernetes' do, say what is wrong with its words, and never hang."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.environment import KUBERNETES_1_36, KUBERNETES_1_37, environment_of
from kscheduler.cel.expressions import Selector
from kscheduler.cel.faults import COST_EXCEEDED, SelectorError
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37


def device(**fields: Any) -> DeviceView:
    """Return a device of the driver gpu.example.com."""
    attributes = {
        "model": DeviceAttribute(string="A100"),
        "index": DeviceAttribute(int_value=3),
        "healthy": DeviceAttribute(bool_value=True),
        "gpu.example.com/version": DeviceAttribute(version="1.2.3"),
        "net.example.com/zone": DeviceAttribute(string="a"),
    }
    capacity = {"memory": DeviceCapacity(value="40Gi")}
    return DeviceView(
        driver=fields.get("driver", "gpu.example.com"),
        attributes=fields.get("attributes", attributes),
        capacity=fields.get("capacity", capacity),
        allow_multiple_allocations=fields.get("allow_multiple_allocations", False),
    )


def fault(expression: str, view: DeviceView | None = None) -> str:
    with pytest.raises(SelectorError) as raised:
        Selector(expression).matches(view or device())
    return str(raised.value)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model == "A100"', True),
        ('device.attributes["gpu.example.com"].model in ["H100", "B200"]', False),
        ('device.attributes["gpu.example.com"].index > 2', True),
        ('device.attributes["gpu.example.com"].healthy', True),
        ('device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.0"))', True),
        ('device.attributes["net.example.com"].zone == "a"', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0', True),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("40Gi"))', False),
        ('has(device.attributes["gpu.example.com"].nothing)', False),
        ('has(device.attributes["gpu.example.com"].model)', True),
        ('has(device.attributes["nowhere"].model)', False),
        ('device.attributes["nowhere"].size() == 0', True),
        ('device.attributes["gpu.example.com"].?nothing.orValue("none") == "none"', True),
        ('cel.bind(gpu, device.attributes["gpu.example.com"], gpu.model == "A100" && gpu.index == 3)', True),
        ('device.attributes["gpu.example.com"].exists(name, name == "model")', True),
        ('device.attributes["gpu.example.com"].model.matches("^[A-Z][0-9]+$")', True),
        ("!device.allowMultipleAllocations", True),
        ('device.attributes["nowhere"].model == "A100" || device.driver == "gpu.example.com"', True),
    ],
)
def test_a_selector_sees_driver_attributes_and_capacity(expression: str, matches: bool) -> None:
    assert Selector(expression).matches(device()) is matches


def test_an_unknown_attribute_is_no_such_key() -> None:
    assert fault('device.attributes["gpu.example.com"].nothing == "x"') == "no such key: nothing"
    assert fault('device.attributes["nowhere"].model == "x"') == "no such key: model"


def test_what_is_no_boolean_matches_nothing() -> None:
    assert fault("device.driver") == ("must evaluate to bool or the unknown type, not string")
    assert fault('device.attributes["gpu.example.com"].model') == (
        "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'"
    )


def test_types_are_checked_when_an_expression_is_compiled() -> None:
    assert fault("device.driver == 1") == (
        "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(string, int)'\n"
        " | device.driver == 1\n"
        " | ..............^"
    )


def test_a_driver_with_an_attribute_that_is_nothing_fails_the_selector() -> None:
    assert fault("true", device(attributes={"odd": DeviceAttribute()})) == (
        "attribute odd: unsupported attribute value"
    )
    assert fault("true", device(attributes={"odd": DeviceAttribute(version="1")})) == (
        "attribute odd: parse semantic version: No Major.Minor.Patch elements found"
    )
    assert "capacity odd" in fault("true", device(capacity={"odd": DeviceCapacity(value="much")}))


def test_in_1_37_an_attribute_may_be_looped_over() -> None:
    expression = 'device.attributes["gpu.example.com"].model.all(x, true)'
    assert "cannot be range of a comprehension" in fault(expression)
    with pytest.raises(SelectorError, match="expected iterable type"):
        Selector(expression, KUBERNETES_1_37).matches(device())


def test_in_1_37_an_attribute_may_have_several_values() -> None:
    several = device(
        attributes={"modes": DeviceAttribute(strings=["a", "b"]), "v": DeviceAttribute(versions=["1.0.0"])}
    )
    modes = 'device.attributes["gpu.example.com"].modes'
    assert Selector(f'{modes}.includes("b") && {modes}[0] == "a"', KUBERNETES_1_37).matches(several)
    assert Selector(f'{modes}.exists(m, m == "b")', KUBERNETES_1_37).matches(several)
    assert fault("true", several) == "attribute modes: unsupported attribute value"


def test_a_release_has_its_environment() -> None:
    assert environment_of(RELEASE_1_36) is KUBERNETES_1_36
    assert environment_of(RELEASE_1_37) is KUBERNETES_1_37


def test_compiled_selectors_are_kept_until_others_are_used_more() -> None:
    selectors = Selectors(kept=2)
    first = selectors.get("true")
    selectors.get("false")
    assert selectors.get("true") is first
    selectors.get("1 == 1")  # in place of the one that was not asked for again
    assert selectors.get("true") is first
    with pytest.raises(SelectorError):
        selectors.get("1")


def test_costs_are_those_of_kubernetes() -> None:
    costs = {
        'device.driver == "gpu.example.com"': 4,
        'device.attributes["gpu.example.com"].model == "A100"': 5,
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("10Gi")) >= 0': 7,
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6]": 44,
        "[1, 2].all(x, x > 0)": 11,
    }
    assert {text: Selector(text).evaluate(device(), count=True)[1] for text in costs} == costs


_LOOP = "lists.range(1000).all(x{0}, {1})"
_NUMBERS = "[" + ", ".join("1" for _ in range(100)) + "]"


@pytest.mark.parametrize(
    "expression",
    [
        _LOOP.format(1, _LOOP.format(2, _LOOP.format(3, "true"))),
        f"{_NUMBERS}.all(a, {_NUMBERS}.all(b, {_NUMBERS}.all(c, {_NUMBERS}.all(d, true))))",
        "lists.range(1000000000).size() > 0",
        "lists.range(100000).distinct().size() > 0",
        "lists.range(100000).sort().size() > 0",
        "sets.contains(lists.range(100000), lists.range(100000))",
        "cel.bind(a, 'aaaaaaaaaa'," + "".join(f"cel.bind(a{i}, a.replace('a', a)," for i in range(4))
        + "a0.replace('a', a1).replace('a', a2).replace('a', a3).replace('a', a0).size() > 0" + ")" * 5,
        "cel.bind(v0, [1, 2]," + "".join(f"cel.bind(v{i + 1}, v{i} + v{i}," for i in range(60)) + "v60.size() > 0"
        + ")" * 61,
        "cel.bind(v0, [1, 2]," + "".join(f"cel.bind(v{i + 1}, [dyn(v{i}), dyn(v{i})]," for i in range(60))
        + "v60 == v60" + ")" * 61,
        "cel.bind(v0, [1, 2]," + "".join(f"cel.bind(v{i + 1}, [dyn(v{i}), dyn(v{i})]," for i in range(60))
        + "'%s'.format([v60]) == ''" + ")" * 61,
    ],
)  # fmt: skip
def test_endless_work_ends_with_the_words_of_the_cost_limit(expression: str) -> None:
    assert fault(expression) == COST_EXCEEDED


def test_a_pattern_that_would_backtrack_without_end_is_matched_at_once() -> None:
    assert not Selector(f"'{'a' * 3000}'.matches('(a*)*b')").matches(device())


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000,
        "[" * 5000,
        "!" * 10000,
        "a" + ".b" * 5000,
        "1" + "+1" * 5000,
        "optional.of(1)" + ".optMap(v, v)" * 200 + ".hasValue()",
        "x(" * 200,
        '"' + "\\" * 9999,
        "\x00",
        "１ == 1",
    ],
)
def test_strange_texts_are_refused(expression: str) -> None:
    assert fault(expression)


def test_deep_expressions_are_evaluated_whatever_the_stack_is() -> None:
    deep = "(true && " * 240 + "true" + ")" * 240
    limit = sys.getrecursionlimit()
    assert Selector(deep).matches(device())
    assert sys.getrecursionlimit() == limit


def test_a_long_chain_is_not_nested() -> None:
    assert Selector("true" + " && true" * 1000).matches(device())


def test_a_fault_of_ours_is_a_selector_error_too() -> None:
    broken = DeviceView("x", {}, {}, False)
    Selector("device.driver.size() > 0").matches(broken)
    prepared = broken.prepared[0]
    assert prepared is not None
    prepared.value.entries.clear()  # as no device is
    with pytest.raises(SelectorError, match="internal error: KeyError"):
        Selector("device.driver.size() > 0").matches(broken)
