"""Live telemetry as a whole, in virtual time: what plugins see while a source answers, fails, hangs and lies."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.telemetry import LiveTelemetry
from kscheduler.testing.wrappers import make_node
from tests.telemetry.fakes import FakeSource, telemetry_of

MINUTE = Freshness(max_age=Duration.of_seconds(60))


def table_of(*names: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.set_node(make_node(name).obj())
    return table


def values(telemetry: LiveTelemetry, freshness: Freshness = MINUTE, **how: bool) -> list[float | None]:
    column = telemetry.column("load", freshness, **how)
    return [None if math.isnan(value) else value for value in column.values]


def live(test: Callable[[NodeTable, FakeSource, LiveTelemetry], Awaitable[None]]) -> None:
    """Run it beside a telemetry over two nodes; the source's interval is 15 s."""

    async def main() -> None:
        table, source = table_of("a", "b"), FakeSource()
        source.values = {"load": {"a": 1.0, "b": 3.0}}
        telemetry = telemetry_of(table, source, LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(telemetry.run())
        try:
            await telemetry.wait_for_first_answers()
            await test(table, source, telemetry)
        finally:
            await cancel_and_wait(running)
        assert source.is_closed

    run_virtual(main())


def test_values_are_there_after_the_first_answer() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        column = telemetry.column("load", MINUTE)
        assert values(telemetry) == [1.0, 3.0]
        assert (column.least, column.most) == (1.0, 3.0)

    live(test)
