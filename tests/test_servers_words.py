"""A server that repeats what it was asked with, wherever HTTP lets it: that becomes the text of no client's error."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kscheduler.client.kinds import PODS
from kscheduler.client.kube import KubeClient
from kscheduler.command.cli import main
from kscheduler.config.metric_policy import Endpoint, Metric, Source
from kscheduler.config.types import Extender
from kscheduler.errors import KSchedulerError
from kscheduler.extenders.webhook import Webhook
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.simulator.blocking_webhook import BlockingWebhook
from kscheduler.telemetry.limits import AnswerLimits
from kscheduler.telemetry.sources.load_watcher import LoadWatcherSource
from kscheduler.telemetry.sources.prometheus import PrometheusSource
from kscheduler.wasm.loading.download import download
from kscheduler.wasm.loading.fetch import Fetcher
from kscheduler.wasm.loading.source import HTTPSource, SourceError
from tests.support.canaries import RAW, Canaries, WebServer, web_server
from tests.support.clocks import ManualClock

Ask = Callable[[str, Canaries, Path], Awaitable[str]]  # an address, ... -> all that the client says of it


async def as_extender(address: str, canaries: Canaries, _: Path) -> str:
    webhook = Webhook(Extender(url_prefix=SecretURL(canaries.url("urlPrefix", address))), "extenders[0]")
    try:
        await webhook.ask("filter", b"{}")
    finally:
        await webhook.close()
    return ""


async def as_extender_of_a_simulation(address: str, canaries: Canaries, _: Path) -> str:
    url = SecretURL(canaries.url("urlPrefix", address))
    await BlockingWebhook(Extender(url_prefix=url), "extenders[0]").ask("filter", b"{}")
    return ""


async def as_guest(address: str, canaries: Canaries, _: Path) -> str:
    await Fetcher(SecretURL(canaries.url("guestURL", address))).fetch()
    return ""


async def as_download(address: str, canaries: Canaries, _: Path) -> str:
    await download(HTTPSource(SecretURL(canaries.url("guestURL", address))))
    return ""


async def as_prometheus(address: str, canaries: Canaries, directory: Path) -> str:
    token = directory / "token"
    token.write_text(canaries.new("bearerTokenFile"))
    headers = {"X-Key": Secret(canaries.new("headers"))}
    endpoint = Endpoint(url=SecretURL(address), bearer_token_file=str(token), headers=headers)
    source = PrometheusSource(Source(name="s", prometheus=endpoint), AnswerLimits(lambda: 1))
    try:
        readings = await source.fetch([Metric(name="m", source="s", query="up")])
    finally:
        await source.close()
    # Of a success the names of nodes are data, which are looked up and never shown.
    return repr(readings.failed) + "".join(reading.nameless for reading in readings.by_metric.values())


async def as_load_watcher(address: str, canaries: Canaries, directory: Path) -> str:
    password = directory / "password"
    password.write_text(canaries.new("passwordFile"))
    user = Secret(canaries.new("username"))
    endpoint = Endpoint(url=SecretURL(address), username=user, password_file=str(password))
    source = LoadWatcherSource(Source(name="s", load_watcher=endpoint), AnswerLimits(lambda: 1))
    try:
        readings = await source.fetch([Metric(name="m", source="s", metric="CPU")])
    finally:
        await source.close()
    return repr(readings.failed)


async def as_apiserver(address: str, canaries: Canaries, directory: Path) -> str:
    return await asked_of_apiserver(address, {"token": canaries.new("token")}, directory)


async def as_apiserver_with_a_user(address: str, canaries: Canaries, directory: Path) -> str:
    return await asked_of_apiserver(canaries.login("server", address), {}, directory)


async def asked_of_apiserver(address: str, user: dict[str, str], directory: Path) -> str:
    path = directory / "kubeconfig"
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": user}],
    }
    path.write_text(json.dumps(document))
    client = await KubeClient.connect(ManualClock(), kubeconfig=str(path))
    recorded = []
    try:
        for ask in (client.get_pod("d", "p"), client.get_aggregated("/apis/x", limit_bytes=1000), watched(client)):
            try:
                await ask
            except KSchedulerError as error:
                recorded.append("".join(traceback.format_exception(error)))
    finally:
        await client.close()
    return "".join(recorded)


async def watched(client: KubeClient) -> None:
    async for _ in client.watch(PODS, resource_version="1"):
        pass


CLIENTS: dict[str, Ask] = {
    "extender": as_extender,
    "extender of a simulation": as_extender_of_a_simulation,
    "guest": as_guest,
    "download of a guest": as_download,
    "Prometheus": as_prometheus,
    "load watcher": as_load_watcher,
    "apiserver": as_apiserver,
    "apiserver with a user": as_apiserver_with_a_user,
}


@pytest.mark.parametrize("kind", [*RAW, "elsewhere"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_what_a_server_repeats_is_in_no_error(client: str, kind: str, tmp_path: Path) -> None:
    canaries = Canaries()
    with web_server() as server:
        server.as_apiserver = kind
        text = await output_about(client, f"{server.url}/{kind}", canaries, tmp_path)
        check(text, canaries, server)


async def output_about(client: str, address: str, canaries: Canaries, directory: Path) -> str:
    try:
        return await CLIENTS[client](address, canaries, directory)
    except (KSchedulerError, SourceError) as error:
        return "".join(traceback.format_exception(error))


def check(text: str, canaries: Canaries, server: WebServer) -> None:
    assert any(server.logins)  # it was shown something
    assert not canaries.seen_in(text), text
    assert not server.repeated_in(text), text


@pytest.mark.parametrize("kind", RAW)
def test_what_a_server_repeats_is_in_no_answer_of_explain(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    token = tmp_path / "token"
    token.write_text(canaries.new("token"))
    with web_server() as server:
        main(["explain", "p", "--server", f"{server.url}/{kind}", "--token-file", str(token)])
        check("".join(capsys.readouterr()), canaries, server)


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_words_of_a_server_would_be_shown_if_nobody_looked(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So each of these tests fails once a client no longer hides what servers answer: their words do arrive."""
    for module in HIDING:
        monkeypatch.setattr(f"kscheduler.{module}.hide_parts", lambda text, parts: text, raising=False)
    monkeypatch.setattr(SecretURL, "hide_in", lambda self, text: text)
    shown = []
    for kind in RAW:
        canaries = Canaries()
        with web_server() as server:
            text = await output_about(client, f"{server.url}/{kind}", canaries, tmp_path)
            shown += [kind] if server.repeated_in(text) else []
    assert shown, "nothing that a server says is in an error of this client: nothing is tested"


HIDING = ("client.credentials", "telemetry.endpoint", "input.redaction")
