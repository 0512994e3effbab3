"""The cluster whose cost is measured is one that an informer can read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kinds import NODES, PODS
from kscheduler.errors import Gone
from perf.listed_cluster import PENDING, write_cluster
from perf.memory import PagesClient, Result


@pytest.mark.parametrize("like", ["real", "large", "benchmark"])
def test_the_pages_hold_every_node_and_pod_once(tmp_path: Path, like: str) -> None:
    async def read(resource: Any) -> list[Any]:
        client, found, token = PagesClient(tmp_path), [], ""
        while True:
            page = await client.list_page(resource, continue_token=token)
            found += page.items
            token = page.continue_token
            if not token:
                return found

    write_cluster(tmp_path, 3, 700, like)
    pods = asyncio.run(read(PODS))
    assert [node.metadata.name for node in asyncio.run(read(NODES))] == ["node-00000", "node-00001", "node-00002"]
    assert len({pod.metadata.uid for pod in pods}) == len({pod.key for pod in pods}) == 700 + PENDING
    assert sum(bool(pod.spec.node_name) for pod in pods) == 700


def test_bytes_of_a_pod_are_those_beyond_the_nodes() -> None:
    without = Result(0, 50.0, 60.0, 60.0, 60.0, 1.0, 1.0, 1.0, 0.0)
    assert Result(1 << 10, 50.0, 61.0, 62.0, 62.0, 1.0, 1.0, 1.0, 0.0).bytes_a_pod(without) == 1 << 10
    assert without.bytes_a_pod(without) == 0.0


async def test_watches_end_once_and_what_is_listed_after_that_is_newer(tmp_path: Path) -> None:
    write_cluster(tmp_path, 1, 0, "real")
    client = PagesClient(tmp_path)
    [before] = (await client.list_page(NODES)).items
    expiring = asyncio.ensure_future(client.expire({"nodes"}))
    with pytest.raises(Gone):
        await anext(client.watch(NODES))
    [after] = (await client.list_page(NODES)).items
    assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
    watching = asyncio.ensure_future(anext(client.watch(NODES)))
    await expiring
    await cancel_and_wait(watching)
