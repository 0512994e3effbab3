"""The way of one pod through the files, traced: from the bytes of its watch event to the bytes of its binding.

ARCHITECTURE.md describes this way; the numbers of files that it states are compared with the trace.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from aiohttp import web

import kscheduler
from kscheduler.client.connections import Connection
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.line_streams import LineConnection
from kscheduler.clock import SystemClock
from kscheduler.config.load import default_config
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from tests.client.fake_apiserver import line, pod, status

PACKAGE = Path(kscheduler.__file__).parent
ARCHITECTURE = PACKAGE.parent / "ARCHITECTURE.md"
MOST_FILES = {"compiled": 45, "general": 65}
# Steps of ARCHITECTURE.md that the traced pod takes, and files named there for other pods.
STEPS = {"compiled": (1, 2, 3, 4, 5, 6, 8, 9), "general": (1, 2, 3, 4, 5, 7, 8, 9)}
FOR_OTHERS = {
    "framework/class_compiler.py",  # the first pod of a class
    "framework/post_filter.py",  # pods that fit nowhere
    "cycle/binding_tasks.py",  # pods with work for plugins after the decision
    "api/sharing.py",  # pods that are decoded, and the first of a template
}
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "node", "uid": "uid-node", "resourceVersion": "1"},
    "spec": {},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
}
NODES_PATH, PODS_PATH = "/api/v1/nodes", "/api/v1/pods"


class OneNodeCluster:
    """An apiserver with one node; pods come by `create`, and their bindings are confirmed by the watch."""

    def __init__(self) -> None:
        self.url = ""
        self._version = 100
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self.bound: asyncio.Queue[str] = asyncio.Queue()
        self.event: asyncio.Queue[None] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[OneNodeCluster]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def create(self, name: str) -> None:
        self._send("ADDED", name)

    def _send(self, kind: str, name: str, **more: Any) -> None:
        self._version += 1
        requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        spec = {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": requests}],
            "volumes": [token],
            **more,
        }
        self._events.put_nowait(line(kind, pod(name, self._version, **spec)))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and request.path.endswith("/binding"):
            name = request.path.split("/")[-2]
            self._send("MODIFIED", name, nodeName="node")
            self.bound.put_nowait(name)
            return status(201, "", "", success=True)
        if request.method == "POST" and request.path.endswith("/events"):
            self.event.put_nowait(None)
        if request.method != "GET":
            return web.json_response({}, status=201)
        if request.query.get("watch") == "true":
            return await self._watch(request)
        items = [NODE] if request.path == NODES_PATH else []
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while request.path == PODS_PATH:
            await response.write(await self._events.get())
        await asyncio.Event().wait()
        return response


class Way:
    """The Python frames of kscheduler that are entered until a connection sends the binding, in order."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []  # (file below kscheduler/, function)
        self._at_begin = LineConnection.buffer_updated.__code__
        self._at_end = Connection.send.__code__

    def start(self) -> None:
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if code is self._at_begin:
            self.steps.clear()
        if PACKAGE in path.parents:
            self.steps.append((path.relative_to(PACKAGE).as_posix(), code.co_name))
            if code is self._at_end:
                sys.setprofile(None)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.steps}


async def trace(*, compiled_lane: bool) -> Way:
    """The way of a pod like others that were bound before it."""
    way = Way()
    async with OneNodeCluster().running() as cluster:
        clock = SystemClock()
        client = KubeClient(Credentials(Endpoint(cluster.url, None), clock), clock, qps=-1)
        scheduler = Scheduler(
            client,
            default_config(),
            clock=clock,
            rng=random.Random(1),
            metrics=Metrics(process=False),
            stopwatch=time.perf_counter,
            options=Options(compiled_lane=compiled_lane),
        )
        tasks = [asyncio.ensure_future(work) for work in (scheduler.observe(), scheduler.schedule())]
        try:
            for name in ("first", "second", "third"):
                cluster.create(name)
                assert await cluster.bound.get() == name
                await cluster.event.get()  # the lane of Events is at rest soon
                while not scheduler.pods.store[f"default/{name}"].spec.node_name:  # noqa: ASYNC110 -- a fake's watch
                    await asyncio.sleep(0.01)
            way.start()
            cluster.create("traced")
            assert await cluster.bound.get() == "traced"
        finally:
            sys.setprofile(None)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
    return way


@pytest.mark.parametrize("lane", ["compiled", "general"])
def test_a_pod_crosses_the_files_that_architecture_md_names(lane: str) -> None:
    way = asyncio.run(trace(compiled_lane=lane == "compiled"))
    text = ARCHITECTURE.read_text(encoding="utf-8")
    reported = re.search(r"^\| files crossed \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert reported is not None
    assert len(way.files) == int(reported[1 if lane == "compiled" else 2]), sorted(way.files)
    assert len(way.files) <= MOST_FILES[lane]
    named = {file for number in STEPS[lane] for file in re.findall(r"`([\w/]+\.py)`", step(text, number))}
    assert named - FOR_OTHERS <= way.files


def step(text: str, number: int) -> str:
    """One numbered step of the way of a pod."""
    way = text.split("## A pod, from the watch to its binding")[1].split("\n## ")[0]
    found = re.search(rf"^{number}\. (.*?)(?=^\d+\. |\Z)", way, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]
