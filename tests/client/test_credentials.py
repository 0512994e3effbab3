from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.client.credentials import (
    Credentials,
    Endpoint,
    checked_server,
    from_kubeconfig,
    in_cluster,
    load_credentials,
)
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL
from tests.support.certificates import Authority
from tests.support.clocks import ManualClock

CLOCK = ManualClock()


def kubeconfig(
    server: str = "http://127.0.0.1:1", user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me"}}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    def write(document: Any) -> str:
        path = tmp_path / "config"
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return str(path)

    return write


Write = Callable[[Any], str]


async def test_a_token_becomes_the_header(write: Write) -> None:
    credentials = await from_kubeconfig(CLOCK, write(kubeconfig()))
    assert await credentials.authorization() == "Bearer secret"
    assert credentials.endpoint == Endpoint("http://127.0.0.1:1", None)
    assert credentials.endpoint.authority == "127.0.0.1:1"
    assert not await credentials.refused("Bearer secret")


async def test_a_name_and_password_become_basic_authentication(write: Write) -> None:
    credentials = await from_kubeconfig(CLOCK, write(kubeconfig(user={"username": "a", "password": "b"})))
    assert credentials.header == "Basic " + base64.b64encode(b"a:b").decode()


async def test_an_anonymous_context_has_no_header(write: Write) -> None:
    document = kubeconfig()
    document["contexts"][0]["context"].pop("user")
    assert (await from_kubeconfig(CLOCK, write(document))).header == ""


async def test_the_first_of_several_files_wins(tmp_path: Path) -> None:
    first, second = kubeconfig(), kubeconfig(server="http://second:1", user={"token": "second"})
    del first["current-context"], first["users"]
    for name, document in (("a", first), ("b", second)):
        (tmp_path / name).write_text(yaml.safe_dump(document))
    paths = os.pathsep.join(str(tmp_path / name) for name in ("missing", "a", "b"))
    credentials = await load_credentials(CLOCK, environ={"KUBECONFIG": paths})
    assert (credentials.endpoint.host, credentials.header) == ("http://127.0.0.1:1", "Bearer second")


async def test_a_context_can_be_chosen(write: Write) -> None:
    document = kubeconfig()
    document["users"].append({"name": "you", "user": {"token": "yours"}})
    document["contexts"].append({"name": "there", "context": {"cluster": "c", "user": "you"}})
    assert (await from_kubeconfig(CLOCK, write(document), "there")).header == "Bearer yours"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("current-context"), "current-context: not set, expected one of here"),
        (lambda d: d.update({"current-context": "x"}), "current-context: 'x' is not in contexts, which has here"),
        (lambda d: d["contexts"][0]["context"].update(cluster="x"), r"contexts\[here\].context.cluster: 'x' is not in"),
        (lambda d: d["contexts"][0]["context"].update(user="x"), r"contexts\[here\].context.user: 'x' is not in users"),
        (lambda d: d["contexts"][0]["context"].pop("cluster"), r"contexts\[here\].context.cluster: not set"),
        (lambda d: d["clusters"][0]["cluster"].pop("server"), r"clusters\[c\].cluster.server: not set"),
        (lambda d: d["clusters"][0]["cluster"].update(server="10.0.0.1:x"), r"cluster.server: expected a URL .* got"),
        (lambda d: d["clusters"][0].pop("name"), r"clusters\[0\].name: not set"),
        (lambda d: d["clusters"][0].update(cluster=7), r"clusters\[c\].cluster: expected a mapping"),
        (lambda d: d.update(users={}), "users: expected a list, got dict"),
        (lambda d: d["users"][0]["user"].update({"client-key-data": "%"}), "user.client-key-data: not base64"),
        (lambda d: d["users"][0]["user"].update({"tokenFile": "no"}), "user.tokenFile: no such file: no"),
        (lambda d: d["users"][0]["user"].update({"client-certificate-data": ""}), "user.client-key: not set"),
        (lambda d: d["clusters"][0]["cluster"].update({"certificate-authority": "no"}), "authority: no such file: no"),
    ],
)
async def test_a_broken_kubeconfig_names_file_and_field(
    write: Write, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    document = kubeconfig()
    change(document)
    path = write(document)
    with pytest.raises(ConfigError, match=message) as caught:
        await from_kubeconfig(CLOCK, path)
    assert str(caught.value).startswith(f"kubeconfig {path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML: line 1, column 5"),
        ("", "expected a mapping .* got nothing"),
        ("- a", "expected a mapping .* got list"),
    ],
)
async def test_a_kubeconfig_that_is_none_is_refused(write: Write, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await from_kubeconfig(CLOCK, write(text))


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}/none: no such file"):
        await load_credentials(CLOCK, kubeconfig=f"{tmp_path}/none")


async def test_a_certificate_authority_that_is_no_pem_is_refused(write: Write) -> None:
    authority = {"certificate-authority-data": base64.b64encode(b"hello").decode()}
    with pytest.raises(ConfigError, match=r"clusters\[c\].cluster.certificate-authority: not a PEM"):
        await from_kubeconfig(CLOCK, write(kubeconfig("https://127.0.0.1:1", cluster=authority)))


async def test_tls_settings_are_taken_over(write: Write) -> None:
    settings = {"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"}
    endpoint = (await from_kubeconfig(CLOCK, write(kubeconfig("https://127.0.0.1:1/", cluster=settings)))).endpoint
    assert endpoint.ssl is not None
    assert endpoint.ssl.check_hostname is False
    assert (endpoint.host, endpoint.server_name, endpoint.proxy) == (
        "https://127.0.0.1:1",
        "kubernetes",
        SecretURL("http://proxy:3128"),
    )


async def test_a_token_file_is_read_again_after_a_minute(write: Write, tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "token").write_text("one\n")
    credentials = await from_kubeconfig(clock, write(kubeconfig(user={"tokenFile": "token"})))
    (tmp_path / "token").write_text("two\n")
    assert await credentials.authorization() == "Bearer one"
    clock.advance(61)
    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("content", ["", "\n", " \n\n"])
async def test_a_token_file_that_is_emptied_for_a_moment_leaves_the_old_token_in_use(
    write: Write, tmp_path: Path, content: str
) -> None:
    clock = ManualClock()
    (tmp_path / "token").write_text("one\n")
    credentials = await from_kubeconfig(clock, write(kubeconfig(user={"tokenFile": "token"})))
    (tmp_path / "token").write_text(content)
    clock.advance(61)
    assert await credentials.authorization() == "Bearer one"
    (tmp_path / "token").write_text("two\n")
    assert await credentials.refused("Bearer one")
    assert credentials.header == "Bearer two"


async def test_a_token_file_that_is_away_for_a_moment_leaves_the_old_token_in_use(write: Write, tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "token"
    path.write_text("one\n")
    credentials = await from_kubeconfig(clock, write(kubeconfig(user={"tokenFile": "token"})))
    path.unlink()
    clock.advance(61)
    assert await credentials.authorization() == "Bearer one"
    path.write_text("two\n")
    clock.advance(11)
    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("scheme", ["", "https://"])
def test_a_token_in_the_place_of_the_masters_address_is_not_shown(scheme: str) -> None:
    token = f"eyJhbGciOiJSUzI1NiJ9.{'eyJpc3MiOiJrdWJlcm5ldGVz' * 20}.c2lnbmF0dXJl"
    with pytest.raises(ConfigError, match=r"got a text that is no host's name$"):
        checked_server(f"{scheme}{token}", is_tls=True)


LINES = ["one\nX-Remote-User: admin", "one\r\n\r\nGET / HTTP/1.1", "one\x00", "one\x7f", "t\u00f6ken"]


@pytest.mark.parametrize("token", LINES)
async def test_a_token_that_would_not_stay_in_its_line_is_refused_and_not_shown(
    write: Write, tmp_path: Path, token: str
) -> None:
    (tmp_path / "token").write_text(token)
    with pytest.raises(ConfigError, match=r"context here: the token holds a line end or another") as caught:
        await from_kubeconfig(CLOCK, write(kubeconfig(user={"tokenFile": "token"})))
    assert "one" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"in-cluster credentials in .*/token: the token holds a line end"):
        await in_cluster(CLOCK, environ=service_account(tmp_path, token), directory=tmp_path)


@pytest.mark.parametrize("token", LINES)
async def test_a_token_that_is_spoilt_later_leaves_the_old_one_in_use(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture, token: str
) -> None:
    clock = ManualClock()
    (tmp_path / "token").write_text("0ld")
    credentials = await from_kubeconfig(clock, write(kubeconfig(user={"tokenFile": "token"})))
    (tmp_path / "token").write_text(token)
    clock.advance(61)
    assert await credentials.authorization() == "Bearer 0ld"
    assert "the token holds a line end" in str(caplog.records[0].__dict__["err"])
    assert not await credentials.refused("Bearer 0ld")


PLUGIN = """#!/bin/sh
echo x >> "$(dirname "$0")/calls"
n=$(wc -l < "$(dirname "$0")/calls")
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t'$n'"}}'
"""


def plugin(directory: Path, text: str = PLUGIN) -> dict[str, Any]:
    path = directory / "plugin"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"command": str(path), "apiVersion": "client.authentication.k8s.io/v1"}}


async def test_an_exec_plugin_is_asked_again_only_when_its_token_is_refused(write: Write, tmp_path: Path) -> None:
    clock = ManualClock()
    credentials = await from_kubeconfig(clock, write(kubeconfig(user=plugin(tmp_path))))
    first = credentials.header
    clock.advance(3600)
    assert await credentials.authorization() == first
    assert all(await asyncio.gather(credentials.refused(first), credentials.refused(first)))
    assert (first, credentials.header) == ("Bearer t1", "Bearer t2")


async def test_an_exec_plugin_that_fails_is_a_config_error(write: Write, tmp_path: Path) -> None:
    broken = plugin(tmp_path, "#!/bin/sh\necho no login for t0k3n >&2\nexit 3\n")
    with pytest.raises(ConfigError, match=r"context here: exec: process returned 3; what it wrote to stderr") as caught:
        await from_kubeconfig(CLOCK, write(kubeconfig(user=broken)))
    assert "t0k3n" not in str(caught.value)


@pytest.mark.parametrize("status", ["{}", '{"clientCertificateData": "x"}'])
async def test_an_exec_plugin_without_credentials_is_a_config_error(write: Write, tmp_path: Path, status: str) -> None:
    answer = f'{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'
    with pytest.raises(ConfigError, match=r"context here: exec: the plugin answered without a token, and without"):
        await from_kubeconfig(CLOCK, write(kubeconfig(user=plugin(tmp_path, f"#!/bin/sh\necho '{answer}'\n"))))


async def test_an_exec_plugin_that_fails_later_leaves_the_old_token_and_is_quoted_nowhere(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    credentials = await from_kubeconfig(CLOCK, write(kubeconfig(user=plugin(tmp_path))))
    plugin(tmp_path, "#!/bin/sh\necho no login for t0k3n >&2\nexit 3\n")
    assert not await credentials.refused("Bearer t1")
    assert credentials.header == "Bearer t1"
    assert "exec: process returned 3" in str([record.__dict__ for record in caplog.records])
    assert "t0k3n" not in str([record.__dict__ for record in caplog.records])
    plugin(tmp_path)
    assert await credentials.refused("Bearer t1")
    assert credentials.header == "Bearer t2"


def service_account(directory: Path, token: str = "one") -> dict[str, str]:
    (directory / "ca.crt").write_text(Authority().pem)
    (directory / "token").write_text(token)
    return {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_in_a_pod_the_service_account_is_used_and_its_token_rotates(tmp_path: Path) -> None:
    clock = ManualClock()
    credentials = await in_cluster(clock, environ=service_account(tmp_path), directory=tmp_path)
    assert credentials.endpoint.host == "https://[fd00::1]:443"
    assert credentials.endpoint.ssl is not None
    assert credentials.header == "Bearer one"
    (tmp_path / "token").write_text("two")
    clock.advance(61)
    assert await credentials.authorization() == "Bearer two"
    (tmp_path / "token").unlink()
    clock.advance(61)
    assert await credentials.authorization() == "Bearer two"  # better an old one than none


async def test_a_service_account_without_a_token_is_a_config_error(tmp_path: Path) -> None:
    environ = service_account(tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match=r"in-cluster credentials in .*: Service token file"):
        await in_cluster(CLOCK, environ=environ, directory=tmp_path)


async def test_a_refresh_that_hangs_ends(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("kscheduler.client.credentials.REFRESH_TIMEOUT_S", 0.02)

    async def hang(force: bool) -> str:
        await asyncio.sleep(60)
        return ""

    credentials = Credentials(Endpoint("http://x", None), CLOCK, header="a", reload=hang)
    assert not await credentials.refused("a")
    assert "credentials: no answer within" in str(caplog.records[0].__dict__["err"])


@pytest.mark.slow
def test_the_library_is_loaded_without_its_models() -> None:
    program = (
        "import sys; from kscheduler.client.auth_library import auth_library; auth_library();"
        "assert not [m for m in sys.modules if m.startswith('kubernetes_asyncio')], 'left behind';"
        "print(len(sys.modules)); import kubernetes_asyncio.config, kubernetes_asyncio.client as c; c.CoreV1Api"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 700  # with the models there are 1,260


def test_json_is_yaml(write: Write) -> None:
    """kubectl accepts a kubeconfig in JSON."""
    credentials = asyncio.run(from_kubeconfig(CLOCK, write(json.dumps(kubeconfig()))))
    assert credentials.header == "Bearer secret"


async def test_a_token_file_that_cannot_be_read_is_logged_once_and_so_is_its_recovery(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    token = tmp_path / "token"
    token.write_text("one")
    credentials = await from_kubeconfig(CLOCK, write(kubeconfig(user={"tokenFile": str(token)})))
    token.write_text("no\ntoken")
    for _ in range(3):
        assert not await credentials.refused("Bearer one")
    token.write_text("two")
    assert await credentials.refused("Bearer one")
    assert [record.getMessage() for record in caplog.records] == [
        "credentials were refused and cannot be read again",
        "credentials could be read again",
    ]
