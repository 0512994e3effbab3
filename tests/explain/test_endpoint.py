"""The endpoint over a real socket: authorised, strict about what is asked, and bounded in what it answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from kscheduler.client.reviews import User
from kscheduler.explain.endpoint import ExplainEndpoint
from kscheduler.explain.options import DEFAULT_TOP_NODES, PATH
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.health import Health
from kscheduler.serving.server import Listen, Server
from tests.serving.named_by_token import NamedByToken


class OnePod:
    """Knows default/p, and writes down how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bool, int]] = []

    def explain(
        self, key: str, *, all_nodes: bool = False, top_nodes: int = DEFAULT_TOP_NODES
    ) -> dict[str, Any] | None:
        self.asked.append((all_nodes, top_nodes))
        return {"pod": key} if key == "default/p" else None

    def absence(self, key: str) -> str:
        return f"pod {key} is not known"

    def explain_gang(self, key: str) -> dict[str, Any] | None:
        return {"gangs": [key]} if key == "default/g" else None

    def gang_absence(self, key: str) -> str:
        return f"gang {key} is not known"


class TheGood:
    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        return ALLOWED if (user.name, verb, path) == ("good", "get", PATH) else Decision(403, "forbidden")


@pytest.fixture
def pod() -> OnePod:
    return OnePod()


@pytest_asyncio.fixture
async def base(pod: OnePod) -> AsyncIterator[str]:
    metrics = Metrics(process=False)
    server = Server(
        Listen("127.0.0.1", 0), metrics=metrics, health=Health(), authenticator=NamedByToken(), authorizer=TheGood()
    )
    server.add_handler(PATH, ExplainEndpoint(pod).answer)
    await server.start()
    yield f"http://127.0.0.1:{server.port}{PATH}"
    await server.stop()


async def ask(url: str, token: str = "good", method: str = "GET") -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as response:
        return response.status, json.loads(await response.text())


async def test_a_pod_is_explained_to_those_who_may(base: str, pod: OnePod) -> None:
    assert await ask(f"{base}?pod=default/p") == (200, {"pod": "default/p"})
    assert await ask(f"{base}?pod=default/p&nodes=all&top=3") == (200, {"pod": "default/p"})
    assert pod.asked == [(False, DEFAULT_TOP_NODES), (True, 3)]
    assert (await ask(f"{base}?pod=default/p", token="bad"))[0] == 403


async def test_an_unknown_pod_is_not_found(base: str) -> None:
    status, body = await ask(f"{base}?pod=default/q")
    assert (status, body["reason"], body["message"]) == (404, "NotFound", "pod default/q is not known")


@pytest.mark.parametrize(
    ("query", "recorded"),
    [
        ("", "pod: expected NAMESPACE/NAME, got ''"),
        ("pod=p", "pod: expected NAMESPACE/NAME, got 'p'"),
        ("pod=a/b/c", "pod: expected NAMESPACE/NAME, got 'a/b/c'"),
        ("pod=/p", "pod: expected NAMESPACE/NAME"),
        (f"pod=a/{'b' * 1000}", "pod: expected NAMESPACE/NAME, got 'a/bbb"),
        ("pod=a/b&nodes=some", "nodes: expected top or all, got 'some'"),
        ("pod=a/b&top=-1", "top: expected a number from 0 to 100, got '-1'"),
        ("pod=a/b&top=1e9", "top: expected a number from 0 to 100"),
        ("pod=a/b&top=101", "top: expected a number from 0 to 100"),
    ],
)
async def test_a_wrong_question_is_answered_with_what_was_expected(base: str, query: str, recorded: str) -> None:
    status, body = await ask(f"{base}?{query}")
    assert status == 400
    assert body["message"].startswith(recorded)
    assert len(body["message"]) < 500


async def test_it_is_only_read(base: str) -> None:
    assert (await ask(f"{base}?pod=default/p", method="POST"))[0] in (403, 405)
