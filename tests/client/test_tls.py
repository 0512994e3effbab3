from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
import yaml

from kscheduler.client.connections import ConnectionPool
from kscheduler.client.credentials import Credentials, in_cluster, load_credentials
from kscheduler.client.kinds import PODS
from kscheduler.client.kube import KubeClient
from kscheduler.errors import ConfigError, Unreachable
from tests.client.fake_apiserver import BINDING, FakeAPIServer
from tests.support.certificates import Authority, write_kubeconfig
from tests.support.clocks import CLOCK, ManualClock


async def test_a_client_certificate_beside_the_kubeconfig_is_presented(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path, "me")
    async with FakeAPIServer().running(authority.server_context(tmp_path)) as server:
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        path = write_kubeconfig(tmp_path, server.url, authority, user)
        client = await KubeClient.connect(CLOCK, kubeconfig=path)
        await client.bind(BINDING)
        assert server.url.startswith("https://")
        assert len(server.requests) == 1
        await client.close()


async def test_a_server_of_another_authority_is_unreachable(tmp_path: Path) -> None:
    async with FakeAPIServer().running(Authority().server_context(tmp_path)) as server:
        client = await KubeClient.connect(
            CLOCK, kubeconfig=write_kubeconfig(tmp_path, server.url, Authority(), {"token": "t"})
        )
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.bind(BINDING)
        await client.close()


async def test_a_key_that_does_not_belong_to_its_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path, "me")
    authority.issue(tmp_path, "you")
    user = {"client-certificate": "me.crt", "client-key": "you.key"}
    path = write_kubeconfig(tmp_path, "https://127.0.0.1:1", authority, user)
    with pytest.raises(ConfigError, match=r"users\[x\].user.client-certificate: certificate and key cannot be loaded"):
        await KubeClient.connect(CLOCK, kubeconfig=path)


async def answers(credentials: Credentials) -> bool:
    """Whether a new connection to the apiserver is trusted, of both kinds that the client has."""
    client = KubeClient(credentials, CLOCK, qps=-1)
    try:
        await client.bind(BINDING)
        await client.list_page(PODS)
    except Unreachable as error:
        if "CERTIFICATE_VERIFY_FAILED" not in str(error):
            raise
        return False
    finally:
        await client.close()
    return True


def show(context: ssl.SSLContext, authority: Authority, directory: Path) -> None:
    """Have the apiserver show a certificate of this authority from now on."""
    context.load_cert_chain(*authority.issue(directory, "server"))


def with_authority_file(directory: Path, server: str) -> str:
    """A kubeconfig whose authorities are in the file ca.crt."""
    path = write_kubeconfig(directory, server, Authority(), {"token": "t"})
    document = yaml.safe_load(Path(path).read_text())
    document["clusters"][0]["cluster"] = {"server": server, "certificate-authority": "ca.crt"}
    Path(path).write_text(yaml.safe_dump(document))
    return path


async def test_an_authority_that_is_rotated_needs_no_restart_and_one_that_is_taken_out_is_trusted_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = Authority("before"), Authority("after")
    file = tmp_path / "ca.crt"
    file.write_text(before.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(context, before, tmp_path)
    async with FakeAPIServer().running(context) as server:
        credentials = await load_credentials(CLOCK, kubeconfig=with_authority_file(tmp_path, server.url))
        assert await answers(credentials)
        show(context, after, tmp_path)
        assert not await answers(credentials)
        file.write_text(before.pem + after.pem)
        assert await answers(credentials)
        file.write_text("-----BEGIN CERTIFICATE-----\nhalf of it")
        assert await answers(credentials)
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
            "changed certificates cannot be used; those known are kept"
        ]
        file.unlink()
        assert await answers(credentials)
        file.write_text(before.pem)
        assert not await answers(credentials)


async def test_the_authority_of_a_pods_service_account_is_followed_where_it_is_rotated_by_a_link(
    tmp_path: Path,
) -> None:
    before, after = Authority("before"), Authority("after")
    for name, authority in (("before", before), ("after", after)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ca.crt").write_text(authority.pem)
        (tmp_path / name / "token").write_text("t")
    account = tmp_path / "account"
    account.symlink_to(tmp_path / "before")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(context, before, tmp_path)
    async with FakeAPIServer().running(context) as server:
        host, _, port = server.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        credentials = await in_cluster(CLOCK, environ=environ, directory=account)
        assert await answers(credentials)
        show(context, after, tmp_path)
        assert not await answers(credentials)
        account.unlink()
        account.symlink_to(tmp_path / "after")
        assert await answers(credentials)


async def test_a_client_certificate_whose_key_has_not_come_yet_leaves_the_old_pair_in_use(tmp_path: Path) -> None:
    authority, clock = Authority(), ManualClock()
    authority.issue(tmp_path, "me")
    async with FakeAPIServer().running(authority.server_context(tmp_path)) as server:
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        credentials = await load_credentials(clock, kubeconfig=write_kubeconfig(tmp_path, server.url, authority, user))
        certificate, key = authority.issue(tmp_path, "new")
        (tmp_path / "me.crt").write_bytes(certificate.read_bytes())
        clock.advance(61)
        await credentials.authorization()
        assert await answers(credentials)
        (tmp_path / "me.key").write_bytes(key.read_bytes())
        clock.advance(61)
        await credentials.authorization()
        assert await answers(credentials)


async def test_connections_of_an_old_client_certificate_are_not_kept(tmp_path: Path) -> None:
    authority, clock = Authority(), ManualClock()
    authority.issue(tmp_path, "me")
    opened = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=authority.server_context(tmp_path))
    server = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    credentials = await load_credentials(clock, kubeconfig=write_kubeconfig(tmp_path, server, authority, user))
    pool = ConnectionPool(credentials.endpoint, connect_timeout_s=5.0, keep_alive_s=60.0)

    async def opened_after_a_minute() -> int:
        clock.advance(61)
        await credentials.authorization()
        await pool.warm_up()
        await pool.exchange(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 5.0)
        return opened

    assert await opened_after_a_minute() == 1
    assert await opened_after_a_minute() == 1  # the same certificate, read again
    certificate, key = authority.issue(tmp_path, "new")
    (tmp_path / "me.crt").write_bytes(certificate.read_bytes())
    assert await opened_after_a_minute() == 1  # its key has not come yet
    (tmp_path / "me.key").write_bytes(key.read_bytes())
    assert await opened_after_a_minute() == 2
    assert await opened_after_a_minute() == 2
    await pool.close()
    listening.close()
