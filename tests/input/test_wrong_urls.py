"""A URL with credentials that is wrong in another way as well: no message shows more of it than its place.

Every field of every configuration that takes a URL is found by its type, and every flag by its help: one that is added
without a case here fails.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.command.cli import main
from kscheduler.command.flags.commands import _parser
from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import Endpoint, PolicySpec
from kscheduler.config.plugin_args import ALL_ARGS
from kscheduler.config.routing import RoutingConfig
from kscheduler.config.types import Extender, SchedulerConfig
from kscheduler.errors import KSchedulerError
from kscheduler.extenders.webhook import Webhook
from kscheduler.input.redaction import SecretURL
from kscheduler.observability import logs
from kscheduler.telemetry.endpoint import EndpointClient
from kscheduler.telemetry.tas_policies import TASSpec
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.loading.fetch import Fetcher
from tests.input.wrong_urls import FIELDS, HEAD, WAYS, is_valid, written
from tests.support.canaries import Canaries, planted
from tests.support.clocks import ManualClock
from tests.support.emitted import emitted_about_a_pod
from tests.support.world import in_virtual_time

pytestmark = pytest.mark.usefixtures("logging_restored")

# --- every field ----------------------------------------------------------------------------------------------------


def url_fields() -> set[str]:
    """Of all that can be configured."""
    canaries = Canaries()
    kinds: dict[str, type] = {"config": SchedulerConfig, "routing": RoutingConfig, "wasm": WasmArguments, **ALL_ARGS}
    kinds |= {"policy object": PolicySpec, "TAS policy object": TASSpec}
    for name, kind in kinds.items():
        planted(kind, canaries, name)
    return {where.removesuffix(" (user)") for where in canaries.made.values() if where.endswith(" (user)")}


def test_every_field_that_takes_a_url_has_a_case() -> None:
    assert url_fields() == FIELDS.keys()


def emitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    return status, "".join(capsys.readouterr())


def configuration(tmp_path: Path, field: str, url: str) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(json.dumps({**HEAD, "leaderElection": {"leaderElect": False}, **FIELDS[field](url)}))
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("field", FIELDS)
def test_no_command_shows_the_credentials_of_a_url_that_is_wrong(
    field: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    path = str(configuration(tmp_path, field, written(way, canaries)))
    for arguments in (
        ("config", "validate", path),
        ("config", "show", path),
        ("config", "show", path, "--expanded"),
        ("run", "--config", path, "--kubeconfig", str(tmp_path / "none"), "--secure-port=0", "-v=10"),
    ):
        status, text = emitted(capsys, *arguments)
        assert not canaries.seen_in(text), (arguments, text)
        assert "<hidden><hidden>" not in text
    assert status == 2  # of `run`: the URL, or the kubeconfig


@pytest.mark.parametrize("way", [way for way in WAYS if is_valid("config.extenders[].urlPrefix", way)])
def test_an_extender_that_is_taken_and_cannot_be_asked_shows_no_credentials(way: str) -> None:
    canaries, stream = Canaries(), io.StringIO()
    texts: list[str] = []
    config = parse_config(json.dumps({**HEAD, **FIELDS["config.extenders[].urlPrefix"](written(way, canaries))}))

    @in_virtual_time
    async def run() -> None:
        logs.configure(verbosity=10, stream=stream)
        texts.extend(await emitted_about_a_pod(config))

    run()
    text = "\n".join([*texts, stream.getvalue()])
    assert "extender at URL http" in text
    assert not canaries.seen_in(text), text


def test_extenders_with_wrong_urls_are_tried() -> None:
    assert is_valid("config.extenders[].urlPrefix", "a token in the query")


# --- every flag -----------------------------------------------------------------------------------------------------


def url_flags(parser: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    """`command argument` of all that take a URL, as their help says."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for name, child in action.choices.items():
                yield from url_flags(child, f"{path}{name} ")
        elif "URL" in f"{action.metavar} {action.help}":
            yield f"{path}{(*action.option_strings, action.dest)[0]}"


FLAGS: dict[str, Callable[[str, str], tuple[str, ...]]] = {  # -> arguments; a file with a cluster is no kubeconfig
    "run --master": lambda url, cluster: ("run", "--master", url, "--kubeconfig", cluster, "--secure-port=0"),
    "explain --server": lambda url, _: ("explain", "p", "--server", url),
    "record --from": lambda url, cluster: ("record", "--from", url, "--out", f"{cluster}.zst"),
    "plugin inspect file": lambda url, _: ("plugin", "inspect", url),
    "plugin test file": lambda url, cluster: ("plugin", "test", url, "--cluster", cluster, "--pod", cluster),
}


def test_every_flag_that_takes_a_url_has_a_case() -> None:
    found = {flag for command in ("simulate", "sweep") for flag in url_flags(_parser(command))}
    assert found == FLAGS.keys()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flag", FLAGS)
def test_no_command_shows_the_credentials_of_a_wrong_url_on_its_command_line(
    flag: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    url = written(way, canaries)
    if flag.startswith("plugin") and way.startswith("nothing but"):
        return  # the path of a file, which has to be shown
    cluster = tmp_path / "cluster.yaml"
    objects = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Node", "Pod")]
    cluster.write_text("\n---\n".join(map(json.dumps, objects)))
    status, text = emitted(capsys, *FLAGS[flag](url, str(cluster)))
    assert status != 0
    if not (way == "nothing but a token" and flag == "run --master"):  # the name of a host, for all one can see
        assert not canaries.seen_in(text), text


# --- kubeconfigs, and the environment's proxies ---------------------------------------------------------------------


def kubeconfig_of(field: str, url: str) -> dict[str, Any]:
    cluster = {"server": "http://127.0.0.1:1"}
    user: dict[str, Any] = {}
    if field == "idp-issuer-url":
        token = {"id-token": "a.e30.c", "refresh-token": "r", "client-id": "i", field: url}
        user = {"auth-provider": {"name": "oidc", "config": token}}
    else:
        cluster[field] = url
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    return {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [context],
        "users": [{"name": "c", "user": user}],
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("field", ["server", "proxy-url", "idp-issuer-url"])
async def test_a_wrong_url_in_a_kubeconfig_is_shown_without_credentials(field: str, way: str, tmp_path: Path) -> None:
    canaries, stream = Canaries(), io.StringIO()
    logs.configure(verbosity=10, stream=stream)
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_of(field, written(way, canaries))))
    text = ""
    try:
        client = await KubeClient.connect(ManualClock(), kubeconfig=str(path))
        text = client.host
        try:
            await client.get_pod("default", "p")
        finally:
            await client.close()
    except KSchedulerError as error:
        text += str(error)
    assert text
    assert not canaries.seen_in(text + stream.getvalue()), text + stream.getvalue()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", ["extender", "metric source", "guest"])
async def test_a_wrong_proxy_is_shown_without_credentials(
    client: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = Canaries()
    proxy = written(way, canaries)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    url = SecretURL("http://server.invalid/x")
    text = ""
    try:
        if client == "extender":
            webhook = Webhook(Extender(url_prefix=url), "extenders[0]")
            try:
                await webhook.ask("filter", b"{}")
            finally:
                await webhook.close()
        elif client == "metric source":
            source = EndpointClient(Endpoint(url=url), 2.0)
            try:
                await source.ask("/x", {}, 100)
            finally:
                await source.close()
        else:
            await Fetcher(url, allow_insecure=True).fetch()
    except KSchedulerError as error:
        text = str(error)
    assert text
    assert not canaries.seen_in(text), text
