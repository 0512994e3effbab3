"""Devices that are equal in what an expression reads share its answer, which is that of an evaluation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.cel import expressions
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.environment import KUBERNETES_1_36, KUBERNETES_1_37, Environment
from kscheduler.cel.expressions import Selector, _checked
from kscheduler.cel.faults import SelectorError
from kscheduler.cel.reads import attributes_read

DRIVER = "gpu.example.com"
GPU, NET = 'device.attributes["gpu.example.com"]', 'device.attributes["net.example.com"]'


@pytest.mark.parametrize(
    ("expression", "read"),
    [
        ("true", set()),
        (f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations', set()),
        (f'{GPU}.model == "a"', {"model"}),
        (f'.{GPU}.model == "a"', {"model"}),
        (f'{GPU}["model"] == "a" || has({NET}.zone)', {"model", "zone"}),
        (f'{GPU}.?model.orValue("") == "a"', {"model"}),
        (f"{GPU}.model == {NET}.zone", {"model", "zone"}),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi"))', set()),
        ('device.capacity["gpu.example.com"].size() == 1', set()),
        # Here attributes are read whose names are not known before.
        (f"{GPU}.size() == 1", None),
        (f'"model" in {GPU}', None),
        (f'{GPU}.exists(name, name == "model")', None),
        (f"{GPU}[device.driver] == 1", None),
        ('device.attributes[device.driver].model == "a"', None),
        (f'device.attributes.exists(domain, domain == "{DRIVER}")', None),
        (f'cel.bind(gpu, {GPU}, gpu.model == "a")', None),
        ('cel.bind(it, device, it.driver == "x")', None),
        ('[device].exists(it, it.driver == "x")', None),
        ('cel.bind(it, .device, it.driver == "x")', None),
    ],
)
def test_what_an_expression_reads_of_attributes_is_found_or_all_are_taken(
    expression: str, read: set[str] | None
) -> None:
    assert attributes_read(_checked(expression, KUBERNETES_1_36)) == read


ATTRIBUTES = st.sampled_from(
    [
        DeviceAttribute(string="a"),
        DeviceAttribute(string="b"),
        DeviceAttribute(string=""),
        DeviceAttribute(int_value=0),
        DeviceAttribute(int_value=1),
        DeviceAttribute(bool_value=False),
        DeviceAttribute(bool_value=True),
        DeviceAttribute(version="1.2.3"),
        DeviceAttribute(version="1.3.0"),
        DeviceAttribute(version="none"),
        DeviceAttribute(strings=["a", "b"]),
        DeviceAttribute(versions=["1.2.3"]),
        DeviceAttribute(string="a", versions=["none"]),
        DeviceAttribute(),
    ]
)
NAMES = st.sampled_from(["model", "zone", "serial", f"{DRIVER}/model", "net.example.com/model", "net.example.com/zone"])
VIEWS = st.builds(
    DeviceView,
    st.sampled_from([DRIVER, "net.example.com"]),
    st.dictionaries(NAMES, ATTRIBUTES, max_size=4),
    st.dictionaries(
        st.sampled_from(["memory", f"{DRIVER}/memory"]),
        st.sampled_from(["1Gi", "1024Mi", "2", "much"]).map(lambda text: DeviceCapacity(value=text)),
        max_size=2,
    ),
    st.booleans(),
)
READS = st.sampled_from(
    [
        f'{GPU}.model == "a"',
        f'{NET}.model == "a"',
        f"{GPU}.model == 1",
        f"{GPU}.model",
        f"has({GPU}.zone)",
        f'{GPU}.?zone.orValue("b") == "b"',
        f'{NET}["zone"] == "b"',
        f'{GPU}.model.isLessThan(semver("1.3.0"))',
        f"{NET}.size() > 1",
        f'{NET}.exists(name, name == "zone")',
        f'device.driver == "{DRIVER}"',
        "device.allowMultipleAllocations",
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("1Gi")) >= 0',
        'has(device.capacity["net.example.com"].memory)',
    ]
)
EXPRESSIONS = st.recursive(
    READS,
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["&&", "||"]), parts).map(lambda each: f"({each[0]} {each[1]} {each[2]})"),
        parts.map(lambda each: f"!({each})"),
    ),
    max_leaves=3,
)


def answer(selector: Selector, view: DeviceView) -> bool | str:
    try:
        return selector.matches(view)
    except SelectorError as error:
        return str(error)


def evaluated(selector: Selector, view: DeviceView) -> bool | str:
    try:
        return selector.evaluate(view)[0]
    except SelectorError as error:
        return str(error)


@settings(max_examples=150)
@given(EXPRESSIONS, st.lists(VIEWS, min_size=1, max_size=25), st.sampled_from([KUBERNETES_1_36, KUBERNETES_1_37]))
def test_each_device_gets_the_answer_of_an_evaluation(
    expression: str, views: list[DeviceView], environment: Environment
) -> None:
    selector = Selector(expression, environment)
    for view in views:
        assert answer(selector, view) == evaluated(selector, view), view


@pytest.mark.parametrize("odd", [DeviceAttribute(int_value=1 << 70), DeviceAttribute(string="\ud800")])
def test_values_that_no_apiserver_stores_are_evaluated(odd: DeviceAttribute) -> None:
    selector = Selector(f'{GPU}.model == {GPU}.model && device.driver == "{DRIVER}"')
    view = DeviceView(DRIVER, {"model": odd}, {}, False)
    assert answer(selector, view) == evaluated(selector, view)
    assert selector._answers == {}


def gpu(serial: int, model: str = "a") -> DeviceView:
    attributes = {"model": DeviceAttribute(string=model), "serial": DeviceAttribute(string=str(serial))}
    return DeviceView(DRIVER, attributes, {"memory": DeviceCapacity(value="1Gi")}, False)


def test_devices_that_differ_in_what_is_not_read_are_not_evaluated() -> None:
    selector = Selector(f'{GPU}.model == "a"')
    views = [gpu(serial, "ab"[serial % 2]) for serial in range(10)]
    assert [selector.matches(view) for view in views] == [True, False] * 5
    assert [view.prepared[0] is None for view in views] == [False, False] + [True] * 8


def test_answers_are_bounded_and_given_up_where_devices_share_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MAX_ANSWERS", 4)
    selector = Selector(f'{GPU}.serial == "3"')
    assert [selector.matches(gpu(serial)) for serial in range(20)] == [serial == 3 for serial in range(20)]
    assert selector._answers is None
    shared = Selector(f'{GPU}.serial == "3"')
    for serial in range(20):
        for _ in range(4):
            assert shared.matches(gpu(serial)) is (serial == 3)
    assert shared._answers is not None
    assert len(shared._answers) <= 4
