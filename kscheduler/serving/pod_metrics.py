"""The requests and limits of all unfinished pods as metrics, for /metrics/resources.

There are several samples for each pod, so they are no part of /metrics and are computed when they are asked for, a few
pods at a time, so that decisions do not wait for them. Source: pkg/scheduler/metrics/resources.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

from kscheduler.api.objects import Pod
from kscheduler.api.resources import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    stated_resources,
)
from kscheduler.errors import DecodeError

log = logging.getLogger(__name__)

PODS_A_TURN = 100  # about a millisecond of the event loop
_BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_FINISHED = frozenset({"Succeeded", "Failed"})
_HELP = (
    "[STABLE] Resources {} on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet "
    "expect per pod for resources along with the unit for the resource if any."
)
_FAMILIES = (
    ("kube_pod_resource_limit", _HELP.format("limit for workloads")),
    ("kube_pod_resource_request", _HELP.format("requested by workloads")),
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_order = attrgetter("metadata.namespace", "spec.node_name", "metadata.name")
_parts_of = attrgetter("spec.containers", "spec.init_containers", "spec.overhead", "spec.resources")

_Samples = tuple[tuple[str, str, str], ...]  # resource, unit, value as text


class PodResourceMetrics:
    """The handler of /metrics/resources. `pods`: unfinished pods by key, read on the scheduler's event loop."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._one_at_a_time = asyncio.Lock()  # an answer takes a kilobyte a pod

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with the samples of the pods that there are now."""
        async with self._one_at_a_time:
            body = await self._exposition()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _exposition(self) -> bytes:
        pods = [pod for pod in self._pods.values() if not pod.spec.node_name or pod.status.phase not in _FINISHED]
        pods.sort(key=_order)
        known: dict[tuple[int, ...], tuple[_Samples, _Samples]] = {}  # addresses of what amounts follow from -> samples
        pieces: list[bytes] = []
        for family, (name, description) in enumerate(_FAMILIES):
            pieces.append(f"# HELP {name} {description}\n# TYPE {name} gauge\n".encode())
            for first in range(0, len(pods), PODS_A_TURN):
                some = pods[first : first + PODS_A_TURN]
                pieces.append("".join(_lines(name, some, known, family)).encode())
                await asyncio.sleep(0)
        return b"".join(pieces)


def _lines(
    name: str, pods: Iterable[Pod], known: dict[tuple[int, ...], tuple[_Samples, _Samples]], family: int
) -> Iterator[str]:
    for pod in pods:
        # Pods of one template share these parts; all of them exist as long as `known` does.
        key = tuple(map(id, _parts_of(pod)))
        samples = known.get(key)
        if samples is None:
            samples = known[key] = _samples(pod)
        meta, spec = pod.metadata, pod.spec
        priority = "" if spec.priority is None else spec.priority
        front = f'{name}{{namespace="{meta.namespace}",node="{spec.node_name}",pod="{meta.name}",priority="{priority}"'
        scheduler = spec.scheduler_name.translate(_ESCAPES)
        for resource, unit, value in samples[family]:
            yield f'{front},resource="{resource}",scheduler="{scheduler}",unit="{unit}"}} {value}\n'


def _samples(pod: Pod) -> tuple[_Samples, _Samples]:
    """Return the samples of a pod's limits and requests; none of a pod whose amounts cannot be read."""
    try:
        requests, limits = stated_resources(pod)
    except DecodeError as error:
        log.debug("a pod has no metrics of its resources", extra={"pod": pod.key, "err": str(error)})
        return (), ()
    return _of_amounts(limits), _of_amounts(requests)


def _of_amounts(amounts: Mapping[str, int]) -> _Samples:
    return tuple(
        (name.translate(_ESCAPES), _unit(name), _text(milli)) for name, milli in sorted(amounts.items()) if milli
    )


def _text(milli: int) -> str:
    text: str = floatToGoString(milli / 1000)  # type: ignore[no-untyped-call]
    return text


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or resource.startswith(HUGEPAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith(ATTACHABLE_VOLUMES_PREFIX) else ""
