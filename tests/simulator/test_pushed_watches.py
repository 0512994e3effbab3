"""Watches that call the informer: nothing is lost, however short the history of changes is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import WatchEvent
from kscheduler.errors import Gone
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.simulator.objects import brief, make_pod


def test_a_pushed_watch_gets_more_changes_of_one_instant_than_the_history_holds() -> None:
    async def scenario() -> None:
        cluster = Cluster(LoopClock(asyncio.get_running_loop()), history_limit=4)
        received: list[WatchEvent[Any]] = []
        client = cluster.client(by_events=True)
        watch = asyncio.ensure_future(client.push_watch(PODS, received.extend, resource_version="0"))
        await asyncio.sleep(1)
        for number in range(20):
            cluster.create_pod(make_pod(f"p{number}"))
        await asyncio.sleep(1)
        assert brief(received) == [("ADDED", f"p{number}") for number in range(20)]
        assert not watch.done()
        # What was delivered is forgotten at the next change.
        cluster.create_pod(make_pod("last"))
        with pytest.raises(Gone):
            cluster.store(PODS).position_after(16)
        assert cluster.store(PODS).position_after(17) == 17
        watch.cancel()

    run_virtual(scenario())
