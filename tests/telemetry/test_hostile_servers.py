"""A Prometheus that turns bad in mid-run, over real connections: what was known stays until it is too old.

Each step of the source's task is taken by hand and the clock moved by hand, so nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Breaker, Endpoint, Freshness, Metric, Source
from kscheduler.input.redaction import SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.live_metrics import source_maker
from kscheduler.telemetry.telemetry import LiveTelemetry
from kscheduler.testing.wrappers import make_node
from tests.support.clocks import ManualClock
from tests.telemetry.fakes import measurements, no_policies
from tests.telemetry.http_server import (
    Request,
    Serve,
    answering,
    dripping,
    flooding,
    hanging,
    http_server,
    saying,
    vanishing,
)
from tests.telemetry.sources.fake_api import FakeAPI

MINUTE = Freshness(max_age=Duration.of_seconds(60))


class Desk:
    """Telemetry over nodes a and b with one Prometheus, asked when the test says so."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        table = NodeTable()
        for name in ("a", "b"):
            table.set_node(make_node(name).obj())
        config = Source(
            name="p",
            prometheus=Endpoint(url=SecretURL(url)),
            timeout=Duration.of_seconds(1),
            breaker=Breaker(failures=2, open_for=Duration.of_seconds(30)),
        )
        self._source = source_maker(FakeAPI(), table, self.clock)(config)
        self.telemetry = LiveTelemetry(
            table,
            [config],
            [Metric(name="load", source="p", query="node_load1")],
            lambda config: self._source,
            clock=self.clock,
            rng=random.Random(1),
            policies=no_policies(),
            observer=measurements(),
            record_for_pod=lambda pod, reason, note: None,
        )
        self.poller = self.telemetry.pollers["p"]
        self.column = self.telemetry.column("load", MINUTE)

    def answer(self, at: float | None = None, **values: Any) -> Serve:
        """Of a server that works: evaluated when it is asked, or at some second of our clock."""

        async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
            wall = self.clock.wall() if at is None else self.clock.wall() - self.clock.now() + at
            result = [{"metric": {"node": node}, "value": [wall, value]} for node, value in values.items()]
            await answering({"status": "success", "data": {"resultType": "vector", "result": result}})(request, writer)

        return serve

    @property
    def values(self) -> list[float | None]:
        return [None if math.isnan(value) else value for value in self.column.values]

    async def poll(self, after_s: float = 15.0) -> list[float | None]:
        self.clock.advance(after_s)
        await self.poller.poll()
        self.column.refresh(self.clock.now())
        return self.values

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._source.close()


async def many_series(request: Request, writer: asyncio.StreamWriter) -> None:
    result = [{"metric": {"node": f"n{number}"}, "value": [0, "1"]} for number in range(100_000)]
    await answering({"status": "success", "data": {"resultType": "vector", "result": result}})(request, writer)


HOSTILE: dict[str, Serve] = {
    "hangs": hanging,
    "drips": dripping,
    "floods": flooding,
    "vanishes": vanishing,
    "garbage": answering(b"\0\xff<html>"),
    "error": answering({"status": "error", "errorType": "internal", "error": "out of memory"}, 500),
    "redirect": answering(b"", 302, "Location: http://169.254.169.254/\r\n"),
    "huge number": answering(b"[" + b"9" * 1_000_000 + b"]"),
    "deep": answering(b'{"data":' * 50_000),
    "no http": saying(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "100,000 series": many_series,
}


@pytest.mark.slow  # two of them use up their time, twice
@pytest.mark.parametrize("serve", HOSTILE.values(), ids=HOSTILE)
async def test_a_server_that_turns_bad_takes_nothing_away_until_its_time_is_over(serve: Serve) -> None:
    async with http_server(hanging) as server, Desk(server.url) as desk:
        # 1. It works.
        server.serve = desk.answer(a="1", b="2")
        assert await desk.poll() == [1.0, 2.0]
        # 2. It turns bad, and is left alone.
        server.serve = serve
        assert await desk.poll() == [1.0, 2.0]
        assert desk.telemetry.failures("load") == 1
        assert await desk.poll() == [1.0, 2.0]
        assert desk.poller.breaker.wait_s(desk.clock.now()) == 30.0
        requests = len(server.requests)
        assert await desk.poll() == [1.0, 2.0]
        assert len(server.requests) == requests
        # 3. Its values become too old.
        assert await desk.poll() == [None, None]
        # 4. It works again.
        server.serve = desk.answer(a="3", b="4")
        assert await desk.poll(30.0) == [3.0, 4.0]
        assert desk.telemetry.failures("load") == 0


LIES: dict[str, tuple[dict[str, Any], list[float | None]]] = {
    "nan": ({"a": "NaN", "b": "5"}, [1.0, 5.0]),
    "infinite": ({"a": "+Inf", "b": "-Inf"}, [1.0, 2.0]),
    "no numbers": ({"a": None, "b": {"c": 1}}, [1.0, 2.0]),
    "absent": ({"b": "5"}, [1.0, 5.0]),
    "nobody": ({}, [1.0, 2.0]),
    "other nodes": ({"c": "5"}, [1.0, 2.0]),
    "negative": ({"a": "-5", "b": "5"}, [-5.0, 5.0]),  # a temperature may be; `clamp` is for what may not
}


@pytest.mark.parametrize(("recorded", "seen"), LIES.values(), ids=LIES)
async def test_values_that_are_lies_replace_nothing(recorded: dict[str, Any], seen: list[float | None]) -> None:
    async with http_server(hanging) as server, Desk(server.url) as desk:
        server.serve = desk.answer(a="1", b="2")
        await desk.poll()
        server.serve = desk.answer(**recorded)
        assert await desk.poll() == seen


async def test_a_server_that_stands_still_is_found_out_by_its_times() -> None:
    async with http_server(hanging) as server, Desk(server.url) as desk:
        server.serve = desk.answer(at=15.0, a="1", b="2")
        seen = [await desk.poll() for _ in range(6)]
        assert seen == [[1.0, 2.0]] * 4 + [[None, None]] * 2
        assert desk.telemetry.failures("load") == 2


async def test_nothing_is_left_of_a_hundred_failures() -> None:
    async with http_server(vanishing) as server, Desk(server.url) as desk:
        for _ in range(100):
            await desk.poll(31.0)
        assert desk.telemetry.failures("load") == 100
        assert len(asyncio.all_tasks()) <= 2  # this test, and a connection of the server's that is just ending
