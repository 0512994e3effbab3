"""The webhook over a real socket."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from msgspec.structs import replace

from kscheduler.errors import ConfigError
from kscheduler.serving.certificates import self_signed
from kscheduler.serving.routing.rules import Router
from kscheduler.serving.routing.webhook import RoutingWebhook
from kscheduler.testing.controlplane.patience import Patience
from tests.support.routing import HEAD, parse_routing, review

RULES = "rules: [{name: all, schedulerName: fast}]"


def write_pair(directory: Path) -> bytes:
    pair = self_signed()
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    return pair.certificate


def webhook_of(directory: Path, routed: list[str], port: int = 0) -> RoutingWebhook:
    config = replace(
        parse_routing(HEAD + RULES),
        bind_address="127.0.0.1",
        port=port,
        cert_file=str(directory / "tls.crt"),
        key_file=str(directory / "tls.key"),
    )
    return RoutingWebhook(config, Router(config.rules, lambda namespace: None), routed.append)


class Asker:
    def __init__(self, session: aiohttp.ClientSession, webhook: RoutingWebhook, routed: list[str]) -> None:
        self._session = session
        self._url = f"https://127.0.0.1:{webhook.port}"
        self.routed = routed

    async def post(self, body: bytes, path: str = "/mutate") -> tuple[int, str]:
        async with self._session.post(self._url + path, data=body) as response:
            return response.status, await response.text()

    async def ask(self, **changes: Any) -> dict[str, Any]:
        status, text = await self.post(json.dumps(review(**changes)).encode())
        assert status == 200
        found: dict[str, Any] = json.loads(text)["response"]
        return found


@pytest_asyncio.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    routed: list[str] = []
    trusted = ssl.create_default_context(cadata=write_pair(tmp_path).decode())
    webhook = webhook_of(tmp_path, routed)
    await webhook.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        yield Asker(session, webhook, routed)
    await webhook.stop()


async def test_a_new_pod_is_given_its_scheduler_and_counted(asker: Asker) -> None:
    assert "patch" in await asker.ask()
    assert asker.routed == ["all"]


async def test_a_dry_run_is_answered_and_not_counted(asker: Asker) -> None:
    assert "patch" in await asker.ask(dryRun=True)
    assert asker.routed == []


async def test_what_is_not_routed_is_allowed_as_it_is(asker: Asker) -> None:
    assert await asker.ask(operation="UPDATE") == {"uid": "u1", "allowed": True}
    assert asker.routed == []


async def test_what_cannot_be_read_is_a_bad_request_and_the_next_is_answered(asker: Asker) -> None:
    status, text = await asker.post(b"{}")
    assert (status, text.startswith("expected a request in an AdmissionReview")) == (400, True)
    assert "patch" in await asker.ask()


async def test_there_is_nothing_else_to_ask_for(asker: Asker) -> None:
    assert (await asker.post(b"", "/metrics"))[0] == 404


async def test_without_its_certificate_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt: expected a readable PEM file"):
        webhook_of(tmp_path, [])


async def test_a_port_that_is_taken_is_named_as_it_was_configured(tmp_path: Path) -> None:
    write_pair(tmp_path)
    first = webhook_of(tmp_path, [])
    await first.start()
    second = webhook_of(tmp_path, [], first.port)
    with pytest.raises(ConfigError, match=f"port {first.port} of the routing configuration: cannot listen"):
        await second.start()
    await first.stop()


async def test_a_renewed_certificate_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.serving.routing.webhook.RELOAD_S", 0.0)
    write_pair(tmp_path)
    webhook = webhook_of(tmp_path, [])
    await webhook.start()
    renewed = write_pair(tmp_path).decode().strip()
    served: list[str] = []
    patience = Patience("the renewed certificate is served", lambda: len(set(served)))
    while served[-1:] != [renewed]:
        found = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", webhook.port))
        served.append(found.strip())
        await patience.pause_loop()
    await webhook.stop()
