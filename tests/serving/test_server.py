"""The endpoints over a real socket: answers, refusals, limits, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from kscheduler.client.protocol import Client as KubeAPI
from kscheduler.client.reviews import AccessReview, User
from kscheduler.config.dump import to_v1
from kscheduler.config.load import default_config, parse_config
from kscheduler.errors import ConfigError, InternalError
from kscheduler.observability.metrics import Metrics
from kscheduler.serving.authentication import ANONYMOUS, DelegatedAuthenticator, Shown
from kscheduler.serving.authorization import ALLOWED, ALWAYS_ALLOWED, AllowedPaths, Decision, DelegatedAuthorizer
from kscheduler.serving.certificates import self_signed, server_context
from kscheduler.serving.client_tls import ClientAskingContext
from kscheduler.serving.endpoints import Endpoints
from kscheduler.serving.health import Health
from kscheduler.serving.options import AuthenticationOptions, RequestHeaderOptions
from kscheduler.serving.server import Listen, Server
from kscheduler.serving.tls_policy import TlsPolicy
from kscheduler.serving.trust import EndpointTrust
from kscheduler.testing.controlplane.patience import ended
from tests.serving.authority import DAY, SERVER, Authority, Issued, trusting
from tests.support.clocks import ManualClock


class OneToken:
    """Knows the bearer of "good" and nobody else."""

    async def authenticate(self, shown: Shown) -> User | None:
        if shown.token is None:
            return ANONYMOUS
        return User("good") if shown.token == "good" else None


class OneUser:
    """Lets "good" in everywhere, and anonymous to the open paths."""

    def __init__(self, *open_paths: str) -> None:
        self.open_paths = AllowedPaths(open_paths)
        self.asked: list[tuple[str, str, str]] = []

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        self.asked.append((user.name, verb, path))
        if user.name == "good" or path in self.open_paths:
            return ALLOWED
        return Decision(403, f'forbidden: User "{user.name}" cannot {verb} path "{path}"')


def open_server(listen: Listen, health: Health) -> Server:
    open_to = OneUser(*ALWAYS_ALLOWED)
    return Server(listen, metrics=Metrics(process=False), health=health, authenticator=OneToken(), authorizer=open_to)


class Client:
    """Asks one server, and returns status, headers and text."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def get(self, path: str, token: str | None = "good", method: str = "GET", **kwargs: Any) -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.session.request(method, self.base + path, headers=headers, **kwargs) as response:
            self.headers = response.headers
            return response.status, await response.text()


async def broken(request: web.Request) -> web.StreamResponse:
    raise RuntimeError("secret detail")


async def echo(request: web.Request) -> web.StreamResponse:
    return web.Response(text=await request.text())


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def authorizer() -> OneUser:
    return OneUser(*ALWAYS_ALLOWED)


@pytest.fixture
def server(health: Health, authorizer: OneUser) -> Server:
    server = Server(
        Listen("127.0.0.1", 0),
        metrics=Metrics(process=False),
        health=health,
        config=lambda: {"componentconfig": to_v1(default_config())},
        authenticator=OneToken(),
        authorizer=authorizer,
    )
    server.add_handler("/broken", broken)
    server.app.router.add_put("/echo", echo)
    return server


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Client(session, f"http://127.0.0.1:{server.port}")
    await server.stop()


async def test_health_needs_no_token(client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert await client.get(path, token=None) == (200, "ok")
    assert client.headers["X-Content-Type-Options"] == "nosniff"


async def test_health_lists_its_checks_on_request(client: Client, health: Health) -> None:
    health.add("readyz", "shutdown", lambda: None)
    assert await client.get("/readyz?verbose") == (200, "[+]shutdown ok\nreadyz check passed\n")


async def test_a_failing_check_is_answered_with_500(client: Client, health: Health) -> None:
    health.add("readyz", "informer-sync", lambda: "pods are not listed yet")
    status, text = await client.get("/readyz", token=None)
    assert (status, text.splitlines()[0]) == (500, "[-]informer-sync failed: reason withheld")
    assert await client.get("/readyz?exclude=informer-sync", token=None) == (200, "ok")
    assert await client.get("/readyz/informer-sync") == (500, "internal server error: pods are not listed yet\n")
    assert await client.get("/healthz/ping") == (200, "ok")


async def test_a_single_check_is_not_among_the_free_paths(client: Client) -> None:
    assert (await client.get("/healthz/ping", token=None))[0] == 403


async def test_an_unknown_check_is_not_found(client: Client) -> None:
    status, text = await client.get("/healthz/absent")
    assert status == 404
    assert "there is no check 'absent' in healthz" in text


async def test_metrics_are_prometheus_text(client: Client) -> None:
    status, text = await client.get("/metrics")
    assert status == 200
    assert client.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE scheduler_preemption_attempts_total counter" in text


async def test_configz_shows_a_configuration_that_reads_back(client: Client) -> None:
    status, text = await client.get("/configz")
    assert status == 200
    component = json.loads(text)["componentconfig"]
    assert parse_config(json.dumps(component)) == default_config()


async def test_a_bad_token_is_refused_on_open_paths_too(client: Client) -> None:
    assert (await client.get("/healthz", token="bad"))[0] == 401


async def test_without_a_token_the_answer_is_a_forbidden_status(client: Client, authorizer: OneUser) -> None:
    status, text = await client.get("/metrics", token=None)
    assert status == 403
    assert '"reason": "Forbidden"' in text
    assert 'User \\"system:anonymous\\" cannot get path \\"/metrics\\"' in text
    assert authorizer.asked == [("system:anonymous", "get", "/metrics")]


async def test_a_bad_token_is_unauthorized(client: Client) -> None:
    status, text = await client.get("/metrics", token="bad")
    assert status == 401
    assert client.headers["WWW-Authenticate"] == "Bearer"
    assert '"kind": "Status"' in text


async def test_a_token_may_be_long(client: Client) -> None:
    assert (await client.get("/metrics", token="good " + "x" * 16_000))[0] == 200  # what follows the token is no part


async def test_an_unknown_path_is_refused_before_it_is_not_found(client: Client) -> None:
    assert (await client.get("/absent", token=None))[0] == 403
    status, text = await client.get("/absent")
    assert status == 404
    assert '"reason": "NotFound"' in text


async def test_an_encoded_path_does_not_pass_the_authorizer(client: Client) -> None:
    for path in ("/%6detrics", "//metrics", "/healthz/../metrics", "/healthz%2f..%2fmetrics"):
        assert (await client.get(path, token=None))[0] in (403, 404)


async def test_another_method_is_not_allowed(client: Client, authorizer: OneUser) -> None:
    assert (await client.get("/metrics", method="POST"))[0] == 405
    assert authorizer.asked[-1][1] == "post"


async def test_a_handler_that_fails_is_answered_without_its_details(client: Client) -> None:
    status, text = await client.get("/broken")
    assert status == 500
    assert "secret" not in text


async def test_a_registered_handler_reads_a_body_within_the_limit(client: Client) -> None:
    assert await client.get("/echo", method="PUT", data="x" * 1000) == (200, "x" * 1000)
    assert (await client.get("/echo", method="PUT", data="x" * 100_000))[0] == 413


async def test_a_star_frees_all_paths_that_begin_so(health: Health) -> None:
    server = Server(
        Listen("127.0.0.1", 0),
        metrics=Metrics(process=False),
        health=health,
        authenticator=OneToken(),
        authorizer=OneUser("/healthz*"),
    )
    await server.start()
    async with aiohttp.ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{server.port}")
        assert (await client.get("/healthz/ping", token=None))[0] == 200
        assert (await client.get("/livez", token=None))[0] == 403
    await server.stop()


async def test_https_with_a_certificate_made_here(health: Health) -> None:
    server = open_server(Listen("127.0.0.1", 0, server_context()), health)
    await server.start()
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        client = Client(session, f"https://127.0.0.1:{server.port}")
        assert await client.get("/healthz", token=None) == (200, "ok")
    await server.stop()


async def test_client_certificates_and_front_proxies_authenticate_over_tls(health: Health, tmp_path: Path) -> None:
    ours, proxies, theirs = Authority("clients"), Authority("front proxies"), Authority("clients")
    clients_file, proxies_file = tmp_path / "clients.pem", tmp_path / "proxies.pem"
    clients_file.write_bytes(ours.pem)
    proxies_file.write_bytes(proxies.pem)
    clock = ManualClock(epoch=time.time())

    async def token_review(token: str) -> User | None:
        return User("scraper") if token == "good" else None

    async def access_review(user: User, verb: str, path: str) -> AccessReview:
        return AccessReview(user.name == "scraper" or "scrapers" in user.groups)

    context = ClientAskingContext.under(TlsPolicy())
    server_context(context=context)
    options = AuthenticationOptions(
        client_ca_file=str(clients_file),
        request_header=RequestHeaderOptions(client_ca_file=str(proxies_file), allowed_names=("front-proxy",)),
    )
    nobody = cast(KubeAPI, None)  # all that is needed is in the files
    trust = EndpointTrust(options, nobody, clock, random.Random(1), on_change=context.name_authorities)
    server = Server(
        Listen("127.0.0.1", 0, context),
        metrics=Metrics(process=False),
        health=health,
        authenticator=DelegatedAuthenticator(trust, token_review, clock),
        authorizer=DelegatedAuthorizer(access_review, clock),
    )
    both = Endpoints([trust, server])
    await both.start()

    async def status(issued: Issued | None, path: str = "/metrics", **headers: str) -> int:
        tls = trusting() if issued is None else issued.client_context(tmp_path)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
            session.get(f"https://127.0.0.1:{server.port}{path}", headers=named) as response,
        ):
            return response.status

    proxy = proxies.issue("front-proxy")
    asked = {
        "a user with the right": await status(ours.issue("scraper")),
        "a user of a group with the right": await status(ours.issue("alice", ["scrapers"])),
        "a user without": await status(ours.issue("alice")),
        "a master": await status(ours.issue("admin", ["system:masters"]), "/configz"),
        "nobody": await status(None),
        "nobody, on an open path": await status(None, "/healthz"),
        "an expired certificate": await status(ours.issue("scraper", starts=-2 * DAY, ends=-DAY)),
        "another authority's": await status(theirs.issue("scraper")),
        "another authority's, with a good token": await status(theirs.issue("x"), Authorization="Bearer good"),
        "a certificate for servers": await status(ours.issue("scraper", usages=(SERVER,))),
        "a proxy for a user with the right": await status(proxy, X_Remote_User="scraper"),
        "a proxy for a user without": await status(proxy, X_Remote_User="alice"),
        "a proxy for nobody": await status(proxy),
        "another name than the proxy's": await status(proxies.issue("another"), X_Remote_User="scraper"),
        "forged headers": await status(None, X_Remote_User="scraper", X_Remote_Group="system:masters"),
        "forged headers of a user": await status(ours.issue("alice"), X_Remote_User="scraper"),
    }
    await both.stop()
    assert asked == {
        "a user with the right": 200,
        "a user of a group with the right": 200,
        "a user without": 403,
        "a master": 200,
        "nobody": 403,
        "nobody, on an open path": 200,
        "an expired certificate": 401,
        "another authority's": 401,
        "another authority's, with a good token": 200,
        "a certificate for servers": 401,
        "a proxy for a user with the right": 200,
        "a proxy for a user without": 403,
        "a proxy for nobody": 401,
        "another name than the proxy's": 401,
        "forged headers": 403,
        "forged headers of a user": 403,
    }


async def test_a_renewed_certificate_is_served_to_the_next_connection(
    health: Health, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.serving.server.RELOAD_S", 0.0)
    tls = server_context(cert_dir=str(tmp_path))
    server = open_server(Listen("127.0.0.1", 0, tls), health)
    await server.start()
    old = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port))
    pair = self_signed()
    (tmp_path / "kube-scheduler.crt").write_bytes(pair.certificate)
    (tmp_path / "kube-scheduler.key").write_bytes(pair.key)
    new = old
    while new == old:  # each connection lets the server's own task run
        new = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port))
    await server.stop()
    assert new.strip() == pair.certificate.decode().strip()


async def test_nothing_listens_after_stop(server: Server) -> None:
    await server.start()
    port = server.port
    await server.stop()
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_idle_connection_does_not_hold_up_stop(server: Server) -> None:
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await ended(server.stop(), "the server stops")
    writer.close()


async def test_a_client_that_never_ends_its_request_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.serving.idle.SWEEP_S", 0.0)
    monkeypatch.setattr(server.idle, "_limit_s", 0.0)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
        answer = await reader.read()  # ends only when the server closes
    assert answer == b""
    writer.close()
    await server.stop()


async def test_a_taken_port_is_refused_with_the_flags_that_name_it(health: Health) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = open_server(Listen("127.0.0.1", port), health)
        with pytest.raises(ConfigError, match=rf"^--bind-address 127\.0\.0\.1, --secure-port {port}: cannot listen: "):
            await server.start()


async def test_the_port_is_known_only_while_listening(server: Server) -> None:
    with pytest.raises(InternalError, match="not listening"):
        _ = server.port
