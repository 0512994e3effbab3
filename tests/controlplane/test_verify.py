"""The judge of placements: what it counts, and what it calls wrong."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.verify import overcommitted, pod_request, quantity, wrong_events

GI = Fraction(1024**3)


def bound(name: str, node: str, **options: Any) -> dict[str, Any]:
    pod = workload.pod(name, **options)
    pod["metadata"] |= {"namespace": "default", "uid": name}
    pod["spec"]["nodeName"] = node
    return pod


def scheduled(pod: str, node: str, **fields: object) -> dict[str, Any]:
    return {
        "involvedObject": {"uid": pod},
        "message": f"Successfully assigned default/{pod} to {node}",
        "count": 1,
        **fields,
    }


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", 3 * GI / 2),
        ("2e3", Fraction(2000)),
        ("5", Fraction(5)),
        ("1k", Fraction(1000)),
    ],
)
def test_quantities_are_exact(text: str, amount: Fraction) -> None:
    assert quantity(text) == amount


def test_request_is_the_larger_of_init_steps_and_running_containers() -> None:
    def container(cpu: str, **fields: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}

    pod = workload.pod(
        spec={
            "containers": [container("1"), container("2")],
            "initContainers": [container("500m", restartPolicy="Always"), container("4")],
            "overhead": {"cpu": "250m"},
        }
    )
    assert pod_request(pod) == {"cpu": Fraction("4.75")}
    del pod["spec"]["initContainers"][1]
    assert pod_request(pod) == {"cpu": Fraction("3.75")}


def test_pod_level_requests_replace_the_sums() -> None:
    pod = workload.pod(spec={"resources": {"requests": {"cpu": "3"}}})
    assert pod_request(pod) == {"cpu": Fraction(3), "memory": quantity("500Mi")}


def test_full_node_is_not_overcommitted_and_one_pod_more_is() -> None:
    nodes = [workload.node("a", capacity={"cpu": "200m", "memory": "32Gi", "pods": "3"})]
    pods = [bound("one", "a"), bound("two", "a")]
    assert overcommitted(nodes, pods) == []
    assert overcommitted(nodes, [*pods, bound("three", "a")]) == [
        "node a is overcommitted in cpu: 0.3 requested, 0.2 allocatable"
    ]


def test_pods_and_extended_resources_count() -> None:
    nodes = [workload.node("a", capacity={"cpu": "4", "memory": "32Gi", "pods": "1"})]
    pods = [bound("one", "a", requests={"example.com/gpu": "1"}), bound("two", "a")]
    assert overcommitted(nodes, pods) == [
        "node a is overcommitted in example.com/gpu: 1.0 requested, 0.0 allocatable",
        "node a is overcommitted in pods: 2.0 requested, 1.0 allocatable",
    ]


def test_pod_on_an_unknown_node_is_reported() -> None:
    assert overcommitted([], [bound("one", "gone")]) == ["pods are bound to node gone, which does not exist"]


def test_each_bound_pod_needs_exactly_one_scheduled_event_of_its_node() -> None:
    pods = [bound(name, "a") for name in ("good", "silent", "twice", "series", "elsewhere")] + [bound("early", "")]
    events = [
        scheduled("good", "a"),
        *[scheduled("twice", "a")] * 2,
        scheduled("series", "a", count=None, series={"count": 3}),
        scheduled("elsewhere", "b"),
        scheduled("early", "a"),
    ]
    assert wrong_events(pods, events) == [
        "default/silent has 0 Scheduled events, expected 1",
        "default/twice has 2 Scheduled events, expected 1",
        "default/series has 3 Scheduled events, expected 1",
        "default/elsewhere is on a, its event says: Successfully assigned default/elsewhere to b",
        "default/early has 1 Scheduled events, expected 0",
    ]
