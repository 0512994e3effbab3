"""Pods and bindings for the simulated cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kscheduler.api.objects import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kscheduler.client.protocol import Binding, WatchEvent


def make_pod(name: str, namespace: str = "default", cpu: str = "100m", **spec: Any) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(containers=[container], **spec),
    )


def binding(pod: Pod, node: str = "n0") -> Binding:
    return Binding(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node)


def brief(batch: list[WatchEvent[Any]]) -> list[tuple[str, str]]:
    return [(event.type.value, event.object.metadata.name if event.object else "") for event in batch]


async def next_batch(events: AsyncIterator[list[WatchEvent[Any]]]) -> list[tuple[str, str]]:
    return brief(await events.__anext__())


def pod(name: str, cpu: str = "1", **spec: Any) -> Pod:
    return make_pod(name, cpu=cpu, **spec)
