"""Annotations say what is really used; what they leave out is what is requested, and what is wrong is named."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.errors import ConfigError
from kscheduler.simulator.usage import USAGE_CPU, USAGE_MEMORY, USAGE_RAMP, declare_usage, node_usage, pod_usage
from tests.simulator.objects import pod


def annotated(**annotations: str) -> Pod:
    asked = pod("a", "2")
    keys = {"cpu": USAGE_CPU, "memory": USAGE_MEMORY, "ramp": USAGE_RAMP}
    written = {keys[name]: value for name, value in annotations.items()}
    return Pod(ObjectMeta(name="a", namespace="default", annotations=written), asked.spec)


def test_a_pod_that_says_nothing_uses_what_it_requests() -> None:
    assert pod_usage(pod("a", "1500m")) == ((1500, 0), 0.0)


def test_a_pod_uses_what_it_says_and_requests_the_rest() -> None:
    assert pod_usage(annotated(memory="1Mi")) == ((2000, 1 << 20), 0.0)
    assert pod_usage(annotated(cpu="250m", memory="0", ramp="1.5")) == ((250, 0), 1.5)


def test_a_node_that_says_nothing_uses_nothing_itself() -> None:
    assert node_usage(Node(ObjectMeta(name="n"))) == (0, 0)
    assert node_usage(Node(ObjectMeta(name="n", annotations={USAGE_CPU: "0.3"}))) == (300, 0)


def test_other_annotations_declare_no_usage() -> None:
    other = Pod(ObjectMeta(name="a", annotations={"example.com/usage-cpu": "1"}))
    assert not declare_usage([other, pod("b")])
    assert declare_usage([other, annotated(ramp="3")])
    assert declare_usage([Node(ObjectMeta(name="n", annotations={USAGE_MEMORY: "1Gi"}))])


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"cpu": "much"}, r'pod "default/a": annotation kscheduler.io/usage-cpu: expected a quantity .* got "much"'),
        ({"memory": "-1Gi"}, 'annotation kscheduler.io/usage-memory: expected an amount of 0 or more, got "-1Gi"'),
        ({"ramp": "1m"}, 'annotation kscheduler.io/usage-ramp: expected seconds, 0 or more, got "1m"'),
        ({"ramp": "nan"}, "expected seconds, 0 or more"),
        ({"ramp": "inf"}, "expected seconds, 0 or more"),
    ],
)
def test_what_cannot_be_read_is_named_by_pod_and_annotation(annotations: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pod_usage(annotated(**annotations))
