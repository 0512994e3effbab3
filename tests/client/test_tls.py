from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.client.kube import KubeClient
from kscheduler.errors import ConfigError, Unreachable
from tests.client.fake_apiserver import BINDING, FakeAPIServer
from tests.support.certificates import Authority, write_kubeconfig
from tests.support.clocks import CLOCK


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
