"""The verbosity of the log, changed over a real socket."""

from __future__ import annotations

import aiohttp
import pytest

from kscheduler.client.reviews import User
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authentication import Shown
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.debug_flags import PATH, verbosity_switch
from kscheduler.serving.health import Health
from kscheduler.serving.server import Listen, Server


class Editor:
    """Anybody, who may change what is served, and only that."""

    async def authenticate(self, shown: Shown) -> User | None:
        return User("editor")

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        return ALLOWED if verb == "put" else Decision(403, "forbidden")


async def asked(method: str, text: str) -> tuple[int, str, list[int]]:
    """Status and text of the answer, and what the verbosity was set to."""
    found: list[int] = []
    server = Server(
        Listen("127.0.0.1", 0, None),
        metrics=Metrics(process=False),
        health=Health(),
        authenticator=Editor(),
        authorizer=Editor(),
    )
    server.add_handler(PATH, verbosity_switch(found.append), method="PUT", reads_scheduler=False)
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{server.port}{PATH}", data=text) as answer,
        ):
            return answer.status, await answer.text(), found
    finally:
        await server.stop()


@pytest.mark.parametrize("text", ["4", "0", "10\n"])
async def test_the_verbosity_is_what_the_body_says(text: str) -> None:
    status, answer, found = await asked("PUT", text)
    assert (status, found) == (200, [int(text)])
    assert answer == f"successfully set klog.logging.verbosity to {text.strip()}\n"


@pytest.mark.parametrize("text", ["", "four", "-1", "1.5", str(2**31), "٤"])
async def test_what_is_no_verbosity_is_refused_and_changes_nothing(text: str) -> None:
    status, answer, found = await asked("PUT", text)
    assert (status, found) == (400, [])
    assert "expected a verbosity from 0 to 2147483647" in answer


async def test_who_may_only_read_changes_nothing() -> None:
    status, _, found = await asked("GET", "4")
    assert (status, found) == (403, [])
