"""The endpoint with the page runs in a thread of its own; what reads the scheduler runs on the scheduler's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from kscheduler.client.reviews import User
from kscheduler.errors import ConfigError
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authentication import Shown
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.health import Health
from kscheduler.serving.live.loop_thread import LoopThread, across
from kscheduler.serving.live.server import (
    AuthenticatorAcross,
    AuthorizerAcross,
    PageThread,
    ServerWithPage,
    TrustAcross,
)
from kscheduler.serving.server import Listen
from kscheduler.serving.zpages import folders
from tests.ui.live.fixture import reading
from tests.ui.live.stage import NoAuthorities, Stage
from tests.ui.live.viewer import Stream, bearer


class Guard:
    """Lets everybody in, and notes the threads on which it is asked."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    async def authenticate(self, shown: Shown) -> User | None:
        self.threads.append(threading.get_ident())
        return None if shown.token == "bad" else User("good")

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        self.threads.append(threading.get_ident())
        return ALLOWED if path != "/secret" else Decision(403, "forbidden")


class Endpoint:
    """A server with the page, beside this loop."""

    def __init__(self, port: int = 0) -> None:
        main = asyncio.get_running_loop()
        self.guard = Guard()
        self.thread = LoopThread("page")
        self.health = Health()
        self.server = ServerWithPage(
            Listen("127.0.0.1", port),
            metrics=Metrics(process=False),
            health=self.health,
            config=lambda: {"read_by": threading.get_ident()},
            authenticator=AuthenticatorAcross(self.guard, main),
            authorizer=AuthorizerAcross(self.guard, main),
        )
        self.handlers: list[int] = []
        self.server.add_handler("/mine", self._mine)
        self.server.add_handler("/secret", self._mine)
        self.server.add_handler("/independent", self._mine, reads_scheduler=False)

    async def _mine(self, request: web.Request) -> web.StreamResponse:
        self.handlers.append(threading.get_ident())
        if "missing" in request.query:
            raise web.HTTPNotFound(text="not here")
        return web.Response(text="mine")

    async def build(self) -> PageThread:
        async def build() -> Stage:
            return Stage()

        helper = LoopThread("builds")
        helper.start()
        self.stage = await helper.run(build())
        await helper.stop()
        self.server.page = self.stage.page
        return PageThread(self.thread, self.server, self.stage.hub)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    page = await endpoint.build()
    await page.start()
    yield endpoint
    await page.stop()
    await page.stop()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


async def test_other_endpoints_are_answered_on_the_schedulers_loop(
    endpoint: Endpoint, client: aiohttp.ClientSession
) -> None:
    here = threading.get_ident()
    assert await (await client.get(f"{endpoint.url}/mine")).text() == "mine"
    assert await (await client.get(f"{endpoint.url}/healthz")).text() == "ok"
    assert await (await client.get(f"{endpoint.url}/configz")).json() == {"read_by": here}
    assert "scheduler_" in await (await client.get(f"{endpoint.url}/metrics")).text()
    assert set(endpoint.handlers) == {here}
    assert set(endpoint.guard.threads) == {here}


async def test_a_handler_that_does_not_read_the_scheduler_runs_beside_it(
    endpoint: Endpoint, client: aiohttp.ClientSession
) -> None:
    assert await (await client.get(f"{endpoint.url}/independent")).text() == "mine"
    assert threading.get_ident() not in endpoint.handlers
    assert set(endpoint.guard.threads) == {threading.get_ident()}


async def test_the_page_is_among_the_paths_that_are_served(endpoint: Endpoint) -> None:
    assert "/ui" in folders(endpoint.server.paths)
    assert "/mine" in folders(endpoint.server.paths)


async def test_their_refusals_are_as_without_the_page(endpoint: Endpoint, client: aiohttp.ClientSession) -> None:
    for path, headers, status in (
        ("/mine", bearer("bad"), 401),
        ("/secret", {}, 403),
        ("/absent", {}, 404),
        ("/mine?missing", {}, 404),
    ):
        response = await client.get(f"{endpoint.url}{path}", headers=headers)
        assert (response.status, (await response.json())["kind"]) == (status, "Status")
    assert (await client.post(f"{endpoint.url}/mine")).status == 405


async def test_the_page_is_answered_while_the_schedulers_loop_is_busy(endpoint: Endpoint) -> None:
    """A request that blocks this loop is answered nevertheless, so it is answered by another one."""

    def ask() -> str:
        import urllib.request

        with urllib.request.urlopen(f"{endpoint.url}/ui/", timeout=60) as response:
            return str(response.status)

    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(ask()))
    asking.start()
    asking.join()  # blocks the loop of this test
    assert answers == ["200"]
    assert endpoint.guard.threads == [], "the page's own rules apply to it"


async def test_streams_end_before_the_server_does() -> None:
    endpoint = Endpoint()
    page = await endpoint.build()
    await page.start()
    async with aiohttp.ClientSession() as client:
        response = await client.get(f"{endpoint.url}/ui/api/stream?view=overview", headers=bearer("admin"))
        stream = Stream(response)

        async def deliver() -> None:
            endpoint.stage.hub.deliver(reading())

        await endpoint.thread.run(deliver())
        assert (await stream.event())[0] == "overview"
        await page.stop()
        assert (await stream.event())[1]["reason"] == "stopping"


async def test_an_address_in_use_is_a_clear_error_and_the_thread_ends(endpoint: Endpoint) -> None:
    second = Endpoint(endpoint.server.port)
    page = await second.build()
    with pytest.raises(ConfigError, match="cannot listen"):
        await page.start()
    await page.stop()
    assert not second.thread.is_running


async def test_a_page_that_was_never_started_can_be_stopped() -> None:
    page = await Endpoint().build()
    await page.stop()


async def test_a_call_across_is_cancelled_with_its_caller() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread = LoopThread("caller")
    thread.start()
    call = across(asyncio.get_running_loop(), waits)
    has_begun = across(asyncio.get_running_loop(), began.wait)

    async def give_up() -> None:
        task = asyncio.ensure_future(call())
        await has_begun()  # one that has not begun when it is cancelled has nothing to end
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    await thread.run(give_up())
    await ended.wait()
    await thread.stop()


async def test_authorities_are_read_on_the_schedulers_loop() -> None:
    trust = TrustAcross(NoAuthorities(), asyncio.get_running_loop())
    thread = LoopThread("reads")
    thread.start()
    await thread.run(trust.wait_known())
    assert (trust.clients, trust.front_proxies) == (None, None)
    await thread.stop()
