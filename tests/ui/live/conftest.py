"""The live page at an address of this machine, fed with readings, for browsers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from aiohttp import web

from kscheduler.serving.live.loop_thread import LoopThread
from kscheduler.serving.live.readings import Reading
from kscheduler.testing.controlplane.patience import CEILING_S
from tests.ui.live.fixture import PLACED, now_reading
from tests.ui.live.stage import Stage
from tests.ui.reports import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")


class LiveServer:
    """The page in a thread of its own, since a browser's test occupies this one."""

    def __init__(self) -> None:
        self._thread = LoopThread("live-page")
        self._thread.start()
        self._second = 0
        self.stage = self.run(self._build())
        self.url = self.run(self._listen())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._thread.loop).result()

    async def _build(self) -> Stage:
        stage = Stage()
        stage.explained["shop/placed"] = PLACED
        for pod in ("bank/second", *(f"shop/{name}" for name in HOSTILE)):
            stage.explained[pod] = stage.explained["shop/web-1"]
        return stage

    async def _listen(self) -> str:
        self._runner = web.AppRunner(self.stage.app(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/ui/"

    def feed(self, *readings: Reading) -> None:
        """Have the page show these readings; without any, one more second of the fixture."""
        for each in readings or (now_reading(self._second),):
            self.run(self._deliver(each))
        self._second += 1

    async def _deliver(self, reading: Reading) -> None:
        self.stage.taken.clear()
        self.stage.hub.deliver(reading)
        await self.stage.taken.wait()

    def end_streams(self) -> None:
        """Have the page end its streams, as a scheduler that stops does."""

        async def close() -> None:
            self.stage.hub.close()

        self.run(close())

    def close(self) -> None:
        async def end() -> None:
            self.stage.hub.close()
            await self._runner.cleanup()

        self.run(end())
        self._thread.end()


@pytest.fixture
def live() -> Iterator[LiveServer]:
    server = LiveServer()
    yield server
    server.close()


@pytest.fixture
def allowed() -> list[str]:
    """Statuses of answers that the test provokes; Chromium reports each as an error."""
    return []


@pytest.fixture
def live_page(browser: Browser, allowed: list[str]) -> Iterator[Page]:
    """A page whose test fails if it logs an error, throws one, or breaks its own policy."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(CEILING_S * 1000)  # of a wait in vain; a slow machine takes its time
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    broken = page.evaluate("window.broken")
    context.close()
    assert [fault for fault in faults if not any(f"status of {status}" in fault for status in allowed)] == []
    assert broken is None
