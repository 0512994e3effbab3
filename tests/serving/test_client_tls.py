"""The TLS context that asks clients for certificates: real sockets, on both event loops that serve with it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509

from kscheduler.errors import ConfigError
from kscheduler.serving.authorities import common_name
from kscheduler.serving.certificates import self_signed, server_context
from kscheduler.serving.client_tls import ClientAskingContext
from kscheduler.serving.options import NamedPair
from kscheduler.serving.tls_policy import (
    INSECURE_SUITES,
    PREFERRED_SUITES,
    TLS_1_3,
    TLS_1_3_SUITES,
    TlsPolicy,
    tls_policy,
)
from tests.serving.authority import DAY, SERVER, Authority, trusting

OURS = Authority("ours")

Loops = Callable[[], asyncio.AbstractEventLoop]


def context_of(policy: TlsPolicy | None = None) -> ClientAskingContext:
    context = ClientAskingContext.under(policy or TlsPolicy())
    server_context(context=context)
    return context


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on a loop of each kind."""

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        loop = request.param()
        try:
            loop.run_until_complete(coroutine)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run


@contextlib.asynccontextmanager
async def naming_server(context: ssl.SSLContext) -> AsyncIterator[int]:
    """A server that answers each line with the clients' certificates, and echoes "big" times 100,000."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown = writer.get_extra_info("ssl_object").peer_certificates()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while line := await reader.readline():
                names = ",".join(one.subject.rfc4514_string() for one in shown)
                writer.write(line * 100_000 if line == b"big\n" else f"{names}\n".encode())
                await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def ask(port: int, client: ssl.SSLContext, line: bytes = b"who\n", answer_size: int = 0) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    writer.write(line)
    answer = await (reader.readexactly(answer_size) if answer_size else reader.readline())
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()


def test_a_client_need_not_show_a_certificate(run: Any) -> None:
    async def check() -> None:
        async with naming_server(context_of()) as port:
            assert await ask(port, trusting()) == ""

    run(check())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_whatever_a_client_shows_is_taken_and_handed_on(run: Any, tmp_path: Path, version: ssl.TLSVersion) -> None:
    async def check() -> None:
        async with naming_server(context_of()) as port:
            for issued, names in (
                (OURS.issue("alice"), "CN=alice"),
                (OURS.issue("late", starts=-2 * DAY, ends=-DAY), "CN=late"),
                (Authority("middle", parent=OURS).issue("bob"), "CN=bob,CN=middle"),
            ):
                client = issued.client_context(tmp_path)
                client.minimum_version = client.maximum_version = version
                assert await ask(port, client) == names

    run(check())


def test_long_answers_come_through(run: Any) -> None:
    async def check() -> None:
        async with naming_server(context_of()) as port:
            assert await ask(port, trusting(), b"big\n", 400_000) == ("big\n" * 100_000).strip()

    run(check())


def test_bytes_that_are_no_tls_end_the_connection_alone(run: Any) -> None:
    async def check() -> None:
        async with naming_server(context_of()) as port:
            for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 1000, b""):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(nonsense)
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert await ask(port, trusting()) == ""

    run(check())


def test_a_client_that_goes_without_a_farewell_is_no_fault(run: Any) -> None:
    async def check() -> None:
        async with naming_server(context_of()) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
            writer.transport.abort()
            assert await ask(port, trusting()) == ""

    run(check())


def test_a_renewed_certificate_is_served_to_the_next_connection(run: Any, tmp_path: Path) -> None:
    async def served(port: int) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return certificate

    async def check() -> None:
        context = ClientAskingContext.under(TlsPolicy())
        server_context(cert_dir=str(tmp_path), context=context)
        async with naming_server(context) as port:
            first = await served(port)
            pair = self_signed()
            (tmp_path / "kube-scheduler.crt").write_bytes(pair.certificate)
            (tmp_path / "kube-scheduler.key").write_bytes(pair.key)
            assert context.reload_if_changed()
            second = await served(port)
            assert second == ssl.PEM_cert_to_DER_cert(pair.certificate.decode()) != first
            (tmp_path / "kube-scheduler.key").write_bytes(self_signed().key)  # another certificate's
            with pytest.raises(ConfigError):
                context.reload_if_changed()
            assert await served(port) == second

    run(check())


def test_faults_have_what_event_loops_look_at() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context_of().wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError) as more:
        server.do_handshake()
    assert (more.value.errno, more.value.library) == (ssl.SSL_ERROR_WANT_READ, "SSL")
    incoming.write(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ssl.SSLError) as refused:
        server.do_handshake()
    assert refused.value.reason == "HTTP_REQUEST"


def test_the_handshake_names_the_authorities_that_count() -> None:
    context = context_of()
    context.name_authorities([OURS.certificate, Authority("theirs").certificate])
    assert context._context is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing)
    assert [name.CN for name in server._tls.get_client_ca_list()] == ["ours", "theirs"]


# --- certificates by name ---


async def served_to(port: int, name: str) -> str:
    """The common name of the certificate that a client gets which asks for the name."""
    client = trusting()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return common_name(x509.load_der_x509_certificate(der))


async def test_a_client_gets_the_certificate_of_the_name_it_asks_for(tmp_path: Path) -> None:
    def pair(name: str, *names: str) -> NamedPair:
        path = str(OURS.issue(name, usages=(SERVER,)).write(tmp_path / name.replace("*", "any")))
        return NamedPair(path, path, names)

    context = ClientAskingContext.under(
        TlsPolicy(),
        [
            pair("first.example"),
            pair("second", "first.example", "*.second.example"),
            pair("third", "*.second.example"),
            pair("*.fourth.example"),
        ],
    )
    server_context(cert_dir=str(tmp_path / "own"), context=context)
    own = common_name(x509.load_pem_x509_certificate((tmp_path / "own" / "kube-scheduler.crt").read_bytes()))
    async with naming_server(context) as port:
        asked = ("first.example", "a.second.example", "a.b.second.example", "A.Fourth.Example", "else.example", "")
        names = [await served_to(port, name) for name in asked]
        assert names == ["second", "second", own, "*.fourth.example", own, own]
        # A named one is renewed as the other is, and clients are asked for certificates with either.
        OURS.issue("renewed", usages=(SERVER,)).write(tmp_path / "second")
        assert context.reload_if_changed()
        assert not context.reload_if_changed()
        assert await served_to(port, "first.example") == "renewed"
        client = OURS.issue("alice").client_context(tmp_path)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="first.example")
        writer.write(b"who\n")
        assert await reader.readline() == b"CN=alice\n"
        writer.close()
        await writer.wait_closed()


def test_a_named_pair_that_cannot_be_used_is_refused_with_its_flag(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    with pytest.raises(ConfigError, match=f"^--tls-sni-cert-key: {absent}: expected a readable PEM file"):
        ClientAskingContext.under(TlsPolicy(), [NamedPair(absent, absent)])


# --- versions and cipher suites ---


async def connected(policy: TlsPolicy, client: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher suite that both sides agree on; raises if there is none."""
    async with naming_server(context_of(policy)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        tls = writer.get_extra_info("ssl_object")
        found = tls.version(), tls.cipher()[0]
        writer.close()
        await writer.wait_closed()
        return found


def speaking(version: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> ssl.SSLContext:
    client = trusting()
    client.set_ciphers(ciphers)
    with (
        pytest.warns(DeprecationWarning, match="TLS") if version < ssl.TLSVersion.TLSv1_2 else contextlib.nullcontext()
    ):
        client.minimum_version = version
        client.maximum_version = version
    return client


@pytest.mark.parametrize(
    ("flag", "refused", "taken"),
    [
        ("", ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2),
        ("VersionTLS12", ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_3),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ("VersionTLS11", ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1),
    ],
)
async def test_versions_below_the_lowest_are_refused(flag: str, refused: ssl.TLSVersion, taken: ssl.TLSVersion) -> None:
    policy = tls_policy(flag)
    assert (await connected(policy, speaking(taken)))[0] == taken.name.replace("_", ".")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connected(policy, speaking(refused))


@pytest.mark.parametrize("name", [*PREFERRED_SUITES, *INSECURE_SUITES])
async def test_without_a_flag_the_suites_are_those_of_go(name: str) -> None:
    suite = {**PREFERRED_SUITES, **INSECURE_SUITES}[name]
    if "ECDSA" not in suite or "RC4" in suite:  # the certificate is of this kind, and OpenSSL has no RC4
        assert (suite in TlsPolicy().ciphers.split(":")) == (name in PREFERRED_SUITES)
        return
    client = speaking(ssl.TLSVersion.TLSv1_2, f"{suite}:@SECLEVEL=0")
    if name in PREFERRED_SUITES:
        assert await connected(TlsPolicy(), client) == ("TLSv1.2", suite)
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connected(TlsPolicy(), client)


@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA384"])
@pytest.mark.parametrize("version", ["", "VersionTLS11"])
async def test_suites_of_cbc_that_go_does_not_serve_are_not_served(suite: str, version: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connected(tls_policy(version), speaking(ssl.TLSVersion.TLSv1_2, f"{suite}:@SECLEVEL=0"))


async def test_the_suites_of_the_flag_alone_are_spoken() -> None:
    policy = tls_policy("", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])
    two = ssl.TLSVersion.TLSv1_2
    assert await connected(policy, speaking(two)) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connected(policy, speaking(two, "ECDHE-ECDSA-AES128-GCM-SHA256"))
    assert (await connected(policy, speaking(ssl.TLSVersion.TLSv1_3)))[0] == "TLSv1.3"


async def test_the_order_of_the_flag_means_nothing() -> None:
    names = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    for order in (names, names[::-1]):
        spoken = await connected(tls_policy("", order), speaking(ssl.TLSVersion.TLSv1_2))
        assert spoken == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")


async def test_suites_of_tls_1_3_alone_leave_tls_1_3_alone() -> None:
    policy = tls_policy("", TLS_1_3_SUITES)
    assert policy.minimum == TLS_1_3
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connected(policy, speaking(ssl.TLSVersion.TLSv1_2))


@pytest.mark.parametrize("name", [*PREFERRED_SUITES])
def test_openssl_has_each_preferred_suite(name: str) -> None:
    context_of(tls_policy("", [name]))


@pytest.mark.parametrize("name", [*INSECURE_SUITES])
def test_an_insecure_suite_is_taken_with_kube_schedulers_warning_or_is_not_there(name: str) -> None:
    policy = tls_policy("", [name])
    assert policy.warnings == (f"Use of insecure cipher '{name}' detected.",)
    if "RC4" in name or "3DES" in name:
        with pytest.raises(ConfigError, match=r"^--tls-cipher-suites: OpenSSL has none"):
            ClientAskingContext.under(policy)
    else:
        ClientAskingContext.under(policy)


def test_unknown_names_are_refused_in_kube_schedulers_words() -> None:
    with pytest.raises(ConfigError, match=r"^Cipher suite TLS_X not supported or doesn't exist$"):
        tls_policy("", ["TLS_AES_128_GCM_SHA256", "TLS_X"])
    with pytest.raises(ConfigError, match=r'^unknown tls version "VersionTLS9"$'):
        tls_policy("VersionTLS9")
