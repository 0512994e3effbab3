"""Whose certificates count: files and what the cluster publishes, renewed while serving, and failures of both."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kscheduler.api.objects import ConfigMap, ObjectMeta
from kscheduler.client.protocol import EventType, Page, WatchEvent
from kscheduler.errors import APIError, ConfigError, Forbidden
from kscheduler.serving.options import AuthenticationOptions, RequestHeaderOptions
from kscheduler.serving.request_headers import HeaderNames
from kscheduler.serving.trust import NAME, NAMESPACE, EndpointTrust
from tests.serving.authority import Authority
from tests.support.clocks import ManualClock

FIRST, SECOND = Authority("first"), Authority("second")


def published(version: int, **data: str) -> ConfigMap:
    """The ConfigMap: `client_ca_file` stands for client-ca-file."""
    meta = ObjectMeta(namespace=NAMESPACE, name=NAME, uid="u", resource_version=str(version))
    return ConfigMap(meta, {key.replace("_", "-"): value for key, value in data.items()})


class Cluster:
    """Lists what `config_maps` holds, then hands out what is put into `events`."""

    def __init__(self, *config_maps: ConfigMap) -> None:
        self.config_maps = list(config_maps)
        self.events: asyncio.Queue[WatchEvent[ConfigMap]] = asyncio.Queue()
        self.failure: APIError | None = None
        self.selectors: set[str] = set()

    async def list_page(self, resource: Any, *, field_selector: str = "", **_: Any) -> Page[Any]:
        self.selectors.add(f"{resource.path}?{field_selector}")
        if self.failure is not None:
            raise self.failure
        return Page(self.config_maps, "1", "")

    async def watch(self, resource: Any, **_: Any) -> AsyncIterator[list[WatchEvent[ConfigMap]]]:
        while True:
            yield [await self.events.get()]

    async def change(self, config_map: ConfigMap) -> None:
        self.events.put_nowait(WatchEvent(EventType.MODIFIED, config_map, config_map.metadata.resource_version))
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Announced:
    def __init__(self) -> None:
        self.certificates: list[x509.Certificate] = []

    def __call__(self, certificates: Any) -> None:
        self.certificates = list(certificates)


def trust_of(cluster: Cluster, announced: Announced | None = None, **options: Any) -> EndpointTrust:
    return EndpointTrust(
        AuthenticationOptions(**options),
        cluster,  # type: ignore[arg-type]
        ManualClock(),
        random.Random(1),
        on_change=announced or Announced(),
    )


def counts(trust: EndpointTrust, authority: Authority) -> bool:
    """Does a certificate of this authority count for a client?"""
    if trust.clients is None:
        return False
    try:
        trust.clients.verify(authority.issue("alice").shown, time.time())
    except Exception:
        return False
    return True


HEADERS = {
    "requestheader_username_headers": '["X-Remote-User"]',
    "requestheader_group_headers": '["X-Remote-Group"]',
    "requestheader_extra_headers_prefix": '["X-Remote-Extra-"]',
    "requestheader_allowed_names": '["front-proxy-client"]',
}


async def test_the_cluster_says_whose_certificates_count_and_what_changes(caplog: pytest.LogCaptureFixture) -> None:
    no_names: tuple[str, ...] = ()
    pems = {"client_ca_file": FIRST.pem.decode(), "requestheader_client_ca_file": SECOND.pem.decode()}
    cluster = Cluster(published(1, **pems, **HEADERS))
    announced = Announced()
    trust = trust_of(cluster, announced)
    assert (trust.clients, trust.front_proxies) == (None, None)
    await trust.start()
    await trust.wait_known()
    await settle()
    assert cluster.selectors == {f"/api/v1/namespaces/{NAMESPACE}/configmaps?metadata.name={NAME}"}
    assert counts(trust, FIRST)
    assert trust.front_proxies is not None
    assert trust.front_proxies.allowed_names == ("front-proxy-client",)
    names = HeaderNames(("X-Remote-User",), (), ("X-Remote-Group",), ("X-Remote-Extra-",))
    assert trust.front_proxies.names == names
    assert announced.certificates == [FIRST.certificate, SECOND.certificate]

    await cluster.change(published(2, **{**pems, "client_ca_file": SECOND.pem.decode()}, **HEADERS))
    assert (counts(trust, FIRST), counts(trust, SECOND)) == (False, True)
    assert announced.certificates == [SECOND.certificate, SECOND.certificate]

    # What is broken or missing leaves the last good one in force.
    await cluster.change(published(3, client_ca_file="nonsense", requestheader_username_headers="{"))
    assert counts(trust, SECOND)
    assert trust.front_proxies is not None
    assert trust.front_proxies.names == names
    await cluster.change(published(4, **pems, **{**HEADERS, "requestheader_allowed_names": json.dumps([])}))
    assert trust.front_proxies.allowed_names == no_names
    await trust.stop()


async def test_what_the_config_map_lacks_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(published(1, client_ca_file=FIRST.pem.decode()))
    trust = trust_of(cluster)
    await trust.start()
    await settle()
    await cluster.change(published(2, client_ca_file=FIRST.pem.decode()))
    assert caplog.messages.count("missing content for CA bundle") == 1
    await cluster.change(published(3, client_ca_file=SECOND.pem.decode()))
    assert caplog.messages.count("missing content for CA bundle") == 2
    assert counts(trust, SECOND)
    await trust.stop()


async def test_without_the_config_map_no_certificate_counts() -> None:
    trust = trust_of(Cluster())
    await trust.start()
    await trust.wait_known()
    assert (trust.clients, trust.front_proxies) == (None, None)
    await trust.stop()


async def test_a_lookup_that_fails_is_tolerated_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cluster = Cluster()
    cluster.failure = Forbidden("configmaps is forbidden", status=403)
    trust = trust_of(cluster)
    await trust.start()
    await trust.wait_known()
    await trust.stop()
    assert "--role=extension-apiserver-authentication-reader" in caplog.text
    assert "Error looking up in-cluster authentication configuration" in caplog.text


async def test_a_lookup_that_fails_ends_the_start_if_so_wanted() -> None:
    cluster = Cluster()
    cluster.failure = Forbidden("configmaps is forbidden", status=403)
    trust = trust_of(cluster, tolerate_lookup_failure=False)
    with pytest.raises(ConfigError, match=r"^unable to load configmap based request-header-client-ca-file"):
        await trust.start()
    await trust.stop()


async def test_the_cluster_is_not_asked_for_what_files_say_or_nobody_wants(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(FIRST.pem)
    files = {"client_ca_file": str(path), "request_header": RequestHeaderOptions(client_ca_file=str(path))}
    for options in (files, {"skip_lookup": True}, {"skip_lookup": True, "client_ca_file": str(path)}):
        cluster = Cluster()
        trust = trust_of(cluster, **options)
        await trust.start()
        await trust.wait_known()
        await settle()
        assert cluster.selectors == set()
        assert counts(trust, FIRST) is ("client_ca_file" in options)
        await trust.stop()


async def test_a_file_for_clients_leaves_front_proxies_to_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(FIRST.pem)
    pems = {"client_ca_file": SECOND.pem.decode(), "requestheader_client_ca_file": SECOND.pem.decode()}
    trust = trust_of(Cluster(published(1, **pems)), client_ca_file=str(path))
    await trust.start()
    await trust.wait_known()
    assert (counts(trust, FIRST), counts(trust, SECOND)) == (True, False)
    assert trust.front_proxies is not None
    await trust.stop()


async def test_a_renewed_file_counts_without_a_restart_and_a_broken_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.serving.trust.RELOAD_S", 0.0)
    path = tmp_path / "ca.pem"
    path.write_bytes(FIRST.pem)
    announced = Announced()
    trust = trust_of(Cluster(), announced, client_ca_file=str(path), skip_lookup=True)
    await trust.start()
    assert announced.certificates == [FIRST.certificate]
    path.write_bytes(SECOND.pem)
    while not counts(trust, SECOND):  # each turn lets the task that reads files run
        await settle()
    assert announced.certificates == [SECOND.certificate]
    path.write_bytes(b"nonsense")
    await settle()
    path.unlink()
    await settle()
    assert counts(trust, SECOND)
    await trust.stop()


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), (b"nonsense", "expected PEM certificates")]
)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^--client-ca-file {path}: {message}"):
        trust_of(Cluster(), client_ca_file=str(path))
    with pytest.raises(ConfigError, match=f"^--requestheader-client-ca-file {path}: {message}"):
        trust_of(Cluster(), request_header=RequestHeaderOptions(client_ca_file=str(path)))
