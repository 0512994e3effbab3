"""The client on the event loop it runs on in production."""

from __future__ import annotations

import uvloop

from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kinds import PODS
from kscheduler.client.kube import KubeClient
from tests.client.fake_apiserver import BINDING, FakeAPIServer, WatchScript, line, pod
from tests.support.clocks import CLOCK


def test_list_watch_and_bind_work_on_uvloop() -> None:
    async def main() -> None:
        async with FakeAPIServer().running() as server:
            client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK)
            server.pods = [pod("a")]
            assert len((await client.list_page(PODS)).items) == 1
            server.watches = [WatchScript([line("ADDED", pod("b", 2))])]
            events = [event async for batch in client.watch(PODS, resource_version="1") for event in batch]
            assert len(events) == 1
            for _ in range(3):
                await client.bind(BINDING)
            await client.close()

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
