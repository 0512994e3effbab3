"""A program with the cluster in memory and our scheduler on it, in real time, controlled by requests on its input.

A line of input is a `Request`, a line of output a `Reply`; one with id 0 reports pods that were created or bound. No
latency is simulated. The program ends when its input is closed, so that it cannot outlive its parent process.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from msgspec.structs import replace

from kscheduler.api.decode import convert_object, decode_object
from kscheduler.api.defaults import node_with_defaults
from kscheduler.api.objects import Pod
from kscheduler.client.kinds import DEVICES, GROUPS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, STORAGE, Resource
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.client.protocol import Event
from kscheduler.clock import SystemClock
from kscheduler.config.gate_settings import with_settings
from kscheduler.config.load import parse_config
from kscheduler.config.releases import DEFAULT_RELEASE, RELEASES, Release, release_of
from kscheduler.errors import APIError, KSchedulerError
from kscheduler.scheduler import Options
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.real_scheduler import RealScheduler

CHUNK = 64  # objects created before the scheduler has its turn: as many as the load on a control plane has in flight
REPORT_PERIOD_S = 0.05
LINE_LIMIT = 1 << 30

_POD_GROUPS: list[Resource[Any]] = [pod_groups(release) for release in RELEASES.values()]
KINDS: tuple[Resource[Any], ...] = (PODS, NODES, *GROUPS, *STORAGE, *DEVICES, RESOURCE_CLAIM_TEMPLATES, *_POD_GROUPS)
PATH = re.compile(r"/(?:api/(v1)|apis/([^/]+/[^/]+))(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?(?:/status)?")


class Request(msgspec.Struct, omit_defaults=True):
    id: int
    method: str  # GET, LIST, POST, PUT, DELETE, BATCH, START, STOP, EVENTS, USAGE
    path: str = ""
    body: Any = None


class Reply(msgspec.Struct, omit_defaults=True):
    id: int  # that of the request; 0: a report
    body: Any = None
    status: int = 200
    reason: str = ""
    message: str = ""


class _Batch(msgspec.Struct):
    path: str
    templates: list[dict[str, Any]]
    count: int
    first: int = 0
    rate_per_s: float | None = None


class _Where(msgspec.Struct, frozen=True):
    """The resource, namespace and name that an API path refers to."""

    resource: Resource[Any]
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.resource.namespaced else self.name


class RecordingCluster(Cluster):
    """A cluster that keeps all Scheduled Events, not only recent ones, and reports when pods are created and bound."""

    def __init__(self, release: Release = DEFAULT_RELEASE) -> None:
        super().__init__(SystemClock(), release=release)
        self.scheduled: list[Event] = []
        self.news: list[tuple[str, float, bool]] = []  # of pods: key, when, has a node
        self._finalized: set[str] = set()  # keys of pods that somebody else has to let go
        self._names = 0
        self.store(PODS).subscribe(self._pod_changed)

    def create_event(self, event: Event) -> None:
        super().create_event(event)
        if event.reason == "Scheduled":
            self.scheduled.append(event)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            return
        is_bound = bool(after.spec.node_name)
        if before is None or (is_bound and not before.spec.node_name):
            self.news.append((after.key, time.monotonic(), is_bound))

    # --- any object, in the words of the API ---

    def add(self, where: _Where, document: dict[str, Any]) -> Any:
        metadata = dict(document.get("metadata") or {})
        if where.resource.namespaced:
            metadata["namespace"] = where.namespace
        if "name" not in metadata:
            self._names += 1
            metadata["name"] = f"{metadata.get('generateName', '')}{self._names}"
        if where.resource is PODS and metadata.get("finalizers"):
            self._finalized.add(f"{where.namespace}/{metadata['name']}")
        return self.add_object(where.resource, convert_object({**document, "metadata": metadata}, where.resource.type))

    def add_object(self, resource: Resource[Any], item: Any) -> Any:
        if resource is PODS:
            return self.create_pod(item)
        if resource is NODES:
            return self.create_node(item)
        return self.create_object(item, resource)

    def put(self, where: _Where, document: dict[str, Any]) -> Any:
        item = convert_object(document, where.resource.type)
        if where.resource is PODS:
            current = self.get_pod(where.namespace, item.metadata.name)
            metadata = replace(item.metadata, namespace=where.namespace)
            spec = replace(item.spec, node_name=current.spec.node_name)
            return self.update_pod(replace(item, metadata=metadata, spec=spec, status=current.status))
        if where.resource is NODES:
            return self.update_node(node_with_defaults(item))
        if where.resource in GROUPS:
            raise APIError(f"{where.resource.plural} cannot be changed here", status=405, reason="MethodNotAllowed")
        return self.update_object(item)

    def remove(self, where: _Where, *, at_once: bool) -> None:
        if where.resource is PODS:
            for key in [where.key] if where.name else [pod.key for pod in self.objects(where)]:
                if key in self._finalized:
                    self.delete_pod(key, gracefully=True)
                elif at_once:
                    self.delete_pod(key)
                else:
                    self.terminate_pod(key)
        elif where.resource is NODES:
            self.delete_node(where.name)
        else:
            self.delete_object(where.resource, where.key)

    def objects(self, where: _Where) -> list[Any]:
        """A collection, of one namespace if the path says so."""
        found = list(self.store(where.resource).objects.values())
        return [item for item in found if not where.namespace or item.metadata.namespace == where.namespace]


class EmbeddedCluster:
    """The cluster and its scheduler, with the handlers of all requests."""

    def __init__(self, release: Release = DEFAULT_RELEASE) -> None:
        self._release = release
        self.cluster = RecordingCluster(release)
        self._scheduling: asyncio.Future[None] | None = None
        self._load_cpu_s = 0.0  # spent on creating objects and on claims, which is not the scheduler's
        ClaimController(self.cluster, self._soon)

    def _soon(self, work: Callable[[], None]) -> None:
        """Do a controller's work soon, at the cost of the load."""

        def done() -> None:
            before = time.thread_time()
            work()
            self._load_cpu_s += time.thread_time() - before

        asyncio.get_running_loop().call_soon(done)

    async def answer(self, request: Request) -> Reply:
        try:
            return Reply(request.id, await self._carried_out(request))
        except APIError as error:
            return Reply(request.id, status=error.status, reason=error.reason, message=str(error))
        except KSchedulerError as error:
            return Reply(request.id, status=422, reason="Invalid", message=str(error))
        except Exception as error:  # who asked must not wait for ever
            return Reply(request.id, status=500, reason="InternalError", message=repr(error))

    async def call(self, method: str, path: str = "", body: object = None) -> None:
        """Carry out a request of this process. Raises RuntimeError if it fails."""
        reply = await self.answer(Request(1, method, path, body))
        if reply.status >= 400:
            raise RuntimeError(f"{method} {path}: {reply.status} {reply.message}")

    async def create(self, path: str, templates: Sequence[dict[str, Any]], count: int) -> None:
        """Create so many objects, made from the templates in turn. Raises RuntimeError if that fails."""
        await self.call("BATCH", body={"path": path, "templates": [*templates], "count": count})

    async def _carried_out(self, request: Request) -> Any:
        method, path, body = request.method, request.path, request.body
        if method == "START":
            return await self._start(body)
        if method == "STOP":
            return await self._stop()
        if method == "USAGE":
            return {"cpu_s": time.process_time() - self._load_cpu_s, "peak_memory_bytes": _peak_memory_bytes()}
        if method == "EVENTS":
            return [_event_document(event) for event in self.cluster.scheduled]
        if method == "BATCH":
            return await self._create_all(msgspec.convert(body, _Batch))
        if method == "GET":  # of a group and version: which kinds there are
            return {"resources": _discovery(path)}
        path, _, query = path.partition("?")
        where = _where(path)
        if method == "LIST":
            return [msgspec.to_builtins(item) for item in self.cluster.objects(where)]
        if method == "POST":
            return msgspec.to_builtins(self.cluster.add(where, body))
        if method == "PUT":
            return msgspec.to_builtins(self.cluster.put(where, body))
        if method == "DELETE":
            return self.cluster.remove(where, at_once="gracePeriodSeconds=0" in query)
        raise APIError(f"{method} {path} is not understood", status=405, reason="MethodNotAllowed")

    async def _start(self, configuration: str) -> None:
        """Watch and schedule from here on."""
        config = parse_config(configuration, release=self._release)
        clock = SystemClock()
        scheduler = RealScheduler(self.cluster.client(), clock, random.Random(), config, Options())
        self._scheduling = asyncio.ensure_future(scheduler.run())
        self._scheduling.add_done_callback(_end_with_it)
        await scheduler.wait_for_sync()

    async def _stop(self) -> None:
        if self._scheduling is not None:
            self._scheduling.cancel()
            await asyncio.gather(self._scheduling, return_exceptions=True)

    async def _create_all(self, batch: _Batch) -> Any:
        """All of a batch, in pieces or at its rate; the objects are made before the time that counts."""
        where, left = _prepared(batch)
        started_s, started_unix_s = time.monotonic(), time.time()
        done = 0
        while left:
            if batch.rate_per_s is not None:
                await asyncio.sleep(started_s + done / batch.rate_per_s - time.monotonic())
            before = time.thread_time()
            # At a rate, what is due by now: a timer may come late.
            due = CHUNK
            if batch.rate_per_s is not None:
                due = max(1, int((time.monotonic() - started_s) * batch.rate_per_s) + 1 - done)
            for _ in range(min(due, len(left))):
                _create_one(self.cluster, where, left.popleft())
                done += 1
            self._load_cpu_s += time.thread_time() - before
            await asyncio.sleep(0)
        return {"count": batch.count, "seconds": time.monotonic() - started_s, "started_unix_s": started_unix_s}


def _prepared(batch: _Batch) -> tuple[_Where, deque[Any]]:
    """The objects of a batch, decoded as from the wire where nothing else has to be known of them."""
    where = _where(batch.path)
    encoded = [msgspec.json.encode(template) for template in batch.templates]
    bodies = (
        encoded[number % len(encoded)].replace(b"{index}", str(batch.first + number).encode())
        for number in range(batch.count)
    )
    if where.resource is PODS and not any(b'"finalizers"' in template for template in encoded):
        pods: Iterable[Pod] = (decode_object(body, Pod) for body in bodies)
        return where, deque(replace(pod, metadata=replace(pod.metadata, namespace=where.namespace)) for pod in pods)
    return where, deque(msgspec.json.decode(body) for body in bodies)


def _create_one(cluster: RecordingCluster, where: _Where, item: Any) -> None:
    if isinstance(item, Pod):
        cluster.add_object(PODS, item)
    else:
        cluster.add(where, item)


def _where(path: str) -> _Where:
    match = PATH.fullmatch(path)
    if match is not None:
        core, group, namespace, plural, name = match.groups()
        for resource in KINDS:
            if (resource.group_version, resource.plural) == (core or group, plural):
                return _Where(resource, namespace or "", name or "")
    raise APIError(f"the cluster in memory has no {path}", status=404, reason="NotFound")


def _discovery(path: str) -> list[dict[str, Any]]:
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return [
        {"name": resource.plural, "kind": resource.kind, "namespaced": resource.namespaced}
        for resource in KINDS
        if resource.group_version == version
    ]


def _event_document(event: Event) -> dict[str, Any]:
    """As v1 shows it, with what is judged."""
    involved = {"uid": event.regarding.uid, "namespace": event.regarding.namespace, "name": event.regarding.name}
    return {"involvedObject": involved, "message": event.note, "count": 1}


def _peak_memory_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _end_with_it(scheduling: asyncio.Future[None]) -> None:
    """A scheduler that ends by itself ends the program, and its fault is on the standard error."""
    if not scheduling.cancelled():
        error = scheduling.exception()
        print(f"the scheduler ended by itself: {error!r}", file=sys.stderr, flush=True)
        asyncio.get_running_loop().stop()


def _write(reply: Reply) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
    sys.stdout.buffer.flush()


async def _report(cluster: RecordingCluster) -> None:
    while True:
        await asyncio.sleep(REPORT_PERIOD_S)
        if cluster.news:
            news, cluster.news = cluster.news, []
            _write(Reply(0, news))


async def main() -> None:
    """Until the input ends. The argument is a JSON array: the release of Kubernetes, and its feature gates."""
    version, gates = msgspec.json.decode(sys.argv[1], type=tuple[str, dict[str, bool]])
    embedded = EmbeddedCluster(with_settings(release_of(version), gates)[0])
    lines = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    reporting = asyncio.ensure_future(_report(embedded.cluster))
    answering: set[asyncio.Task[None]] = set()  # a batch takes its time, and others are answered meanwhile
    decode = msgspec.json.Decoder(Request).decode

    async def answer(request: Request) -> None:
        _write(await embedded.answer(request))

    while line := await lines.readline():
        task = asyncio.ensure_future(answer(decode(line)))
        answering.add(task)
        task.add_done_callback(answering.discard)
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)


if __name__ == "__main__":
    uvloop.run(main())
