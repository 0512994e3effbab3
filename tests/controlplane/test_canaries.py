"""A whole process on a real control plane, with a secret wherever one can be: none is in what it emits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.process import Process
from kscheduler.testing.controlplane.workspace import Workspace
from tests.input.wrong_urls import WAYS, is_valid, written
from tests.support.canaries import MARK, Canaries, web_server
from tests.wasm.hostile_guests import TRAP, batch_guest, scores

PAGES = ("/configz", "/metrics", "/healthz?verbose", "/readyz?verbose")
METRICS = ("m", "second", "watched", "custom", "external")
READER = "kscheduler-canary-reader"


def may_read_pages(workspace: Workspace) -> str:
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": READER}}
    workspace.api.apply(
        {**head, "kind": "ClusterRole", "rules": [{"nonResourceURLs": ["*"], "verbs": ["get"]}]},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": workspace.namespace}],
        },
    )
    return workspace.control_plane.service_account_token(workspace.namespace, "reader")


def configuration(canaries: Canaries, url: str, directory: Path) -> dict[str, Any]:
    token, password = directory / "source-token", directory / "source-password"
    token.write_text(canaries.new("bearerTokenFile"))
    password.write_text(canaries.new("passwordFile"))
    first = {
        "url": f"{url}/echo",
        "bearerTokenFile": str(token),
        "headers": {"X-Key": canaries.new("headers")},
    }
    second = {"url": f"{url}/failing", "username": canaries.new("username"), "passwordFile": str(password)}
    watcher = {"url": f"{url}/reason", "username": canaries.new("username"), "passwordFile": str(password)}
    args = {
        "sources": [
            {"name": "l", "loadWatcher": watcher, "interval": "1s"},
            {"name": "c", "customMetrics": {}, "interval": "1s"},
            {"name": "e", "externalMetrics": {}, "interval": "1s"},
            {"name": "p", "prometheus": first, "interval": "1s"},
            {"name": "w", "prometheus": second, "interval": "1s"},
        ],
        "metrics": [
            {"name": "m", "source": "p", "query": "up"},
            {"name": "second", "source": "w", "query": "up"},
            {"name": "watched", "source": "l", "metric": "CPU"},
            {"name": "custom", "source": "c", "metric": "temperature"},
            {"name": "external", "source": "e", "metric": "price", "namespace": "default"},
        ],
        "policies": [{"name": "d", "score": [{"metric": each} for each in METRICS]}],
        "defaultPolicy": "d",
    }
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy"}]}},
        "pluginConfig": [{"name": "MetricPolicy", "args": args}],
    }
    common = {"filterVerb": "filter", "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "5s"}
    extenders = [
        {"urlPrefix": canaries.url(kind, address), **common}
        for kind, address in (
            ("failing", f"{url}/failing"),
            ("garbage", f"{url}/garbage"),
            ("cut", f"{url}/cut"),
            ("nobody", "http://127.0.0.1:1/x"),
            ("proxied", "http://extender.invalid/x"),
            ("last", f"{url}/ok"),
        )
    ]
    return {"profiles": [profile], "extenders": extenders}


def test_a_running_scheduler_emits_no_secret(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = Canaries()
    with web_server() as server:
        token = may_read_pages(workspace)
        canaries.made[token] = "the token that reads the pages"
        config = configuration(canaries, server.url, tmp_path)
        with monkeypatch.context() as environment:  # of the scheduler, not of this test
            environment.setenv("HTTPS_PROXY", canaries.login("HTTPS_PROXY", "http://127.0.0.1:1"))
            environment.setenv("HTTP_PROXY", canaries.login("HTTP_PROXY", server.url))
            environment.setenv("NO_PROXY", "127.0.0.1")
            flags = ("-v=10",)
            scheduler = KScheduler(
                workspace.control_plane, configuration=config, extra_flags=flags, name="canaries", wait=False
            )
        scheduler.wait_ready()
        workspace.create_nodes(2)
        workspace.create_pod("p")

        def is_explained() -> bool:
            conditions = workspace.pod("p")["status"].get("conditions", [])
            return any("asked as" in each.get("message", "") for each in conditions)

        eventually(is_explained, "the pod's condition says why")
        path = f"/api/v1/namespaces/{workspace.namespace}/events"
        eventually(lambda: bool(workspace.api.get(path)["items"]), "the pod has an Event")
        eventually(lambda: "extender.invalid" in scheduler.process.log_text(), "all extenders were asked")
        eventually(lambda: any(login.startswith("Bearer ") for login in server.logins), "a metric source was asked")
        failing = ("load watcher, got HTTP status 500", "custom.metrics.k8s.io", "external.metrics.k8s.io")
        eventually(lambda: all(each in scheduler.process.log_text() for each in failing), "all sources were asked")
        scheduler.process.signal(signal.SIGUSR2)
        emitted = {page: scheduler.get(page, token) for page in PAGES}
        emitted["pod"] = json.dumps(workspace.pod("p"))
        emitted["events"] = json.dumps(workspace.api.get(path))
        (tmp_path / "token").write_text(token)
        command = [sys.executable, "-m", "kscheduler", "explain", "p", "--namespace", workspace.namespace]
        where = ["--server", scheduler.url, "--token-file", str(tmp_path / "token"), "--output=json"]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
        emitted["explain"] = done.stdout + done.stderr
        scheduler.stop()
        emitted["log"] = scheduler.process.log_text()
    assert "<hidden>" in emitted["/configz"]
    assert "<hidden>" in emitted["events"]
    assert {name: canaries.seen_in(text) for name, text in emitted.items() if canaries.seen_in(text)} == {}
    for login in {login.partition(" ")[2] for login in server.logins if login}:
        assert not [name for name, text in emitted.items() if login in text]


def emissions(workspace: Workspace, scheduler: KScheduler) -> dict[str, str]:
    """All that a scheduler lets people see, by where; it is stopped then."""
    scheduler.process.signal(signal.SIGUSR2)
    found = {page: scheduler.get(page) for page in ("/configz", "/metrics")}
    found["events"] = json.dumps(workspace.api.list_all("/apis/events.k8s.io/v1/events"))
    found["pods"] = json.dumps(workspace.api.list_all(f"/api/v1/namespaces/{workspace.namespace}/pods"))
    scheduler.stop()
    found["log"] = scheduler.process.log_text()
    return found


def condition(workspace: Workspace, pod: str) -> str:
    conditions = workspace.pod(pod)["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


FATAL = [way for way in WAYS if is_valid("config.extenders[].urlPrefix", way)]
ANSWERS = ("failing", "echo", "garbage", "cut", "status-line", "reason", "location", "page")


def test_fatal_extenders_give_no_secret_away(workspace: Workspace) -> None:
    """Each is asked for one pod alone, by a resource of its own: the pod's condition and Event hold its error."""
    canaries = Canaries()
    with web_server() as server:
        urls = [written(way, canaries) for way in FATAL]
        urls += [canaries.url(kind, f"{server.url}/{kind}") for kind in ANSWERS]
        extenders = [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "nodeCacheCapable": True,
                "httpTimeout": "5s",
                "managedResources": [{"name": f"canary.io/r{number}", "ignoredByScheduler": True}],
            }
            for number, url in enumerate(urls)
        ]
        scheduler = KScheduler(
            workspace.control_plane, configuration={"extenders": extenders}, extra_flags=("-v=10",), name="fatal"
        )
        workspace.create_nodes(2)
        pods = [
            workspace.create_pod(f"p{number}", requests={f"canary.io/r{number}": "1"}) for number in range(len(urls))
        ]
        eventually(lambda: all(condition(workspace, pod) for pod in pods), "each pod has a condition that says why")
        emitted = emissions(workspace, scheduler)
        assert emitted["events"].count("extender at URL") >= len(FATAL)
        assert {name: seen for name, text in emitted.items() if (seen := canaries.seen_in(text))} == {}
        assert {name: seen for name, text in emitted.items() if (seen := server.repeated_in(text))} == {}


def test_a_guest_by_url_gives_no_secret_away(workspace: Workspace) -> None:
    """Quarantined, refused, not to be had, and replaced at last."""
    canaries = Canaries()
    with web_server() as server:
        server.guest = batch_guest(before={"ks_call": TRAP})
        args = {
            "guestURL": canaries.url("guestURL", f"{server.url}/guest"),
            "guestConfig": {"token": canaries.new("guestConfig")},
            "args": [canaries.new("args")],
            "reloadInterval": "200ms",
            "deadline": "500ms",
        }
        profile = {
            "schedulerName": "with-guest",
            "plugins": {"multiPoint": {"enabled": [{"name": "Guest", "weight": 100}]}},
            "pluginConfig": [{"name": "Guest", "args": args}],
        }
        scheduler = KScheduler(
            workspace.control_plane, configuration={"profiles": [profile]}, extra_flags=("-v=10",), name="guest"
        )
        workspace.create_nodes(3)  # as many as the guest's answer has scores
        pods = [workspace.create_pod(f"p{number}", scheduler_name="with-guest") for number in range(4)]

        def has_event(reason: str) -> bool:
            return any(event["reason"] == reason for event in workspace.api.list_all("/apis/events.k8s.io/v1/events"))

        eventually(lambda: has_event("PluginQuarantined"), "it is quarantined")
        eventually(lambda: all(condition(workspace, pod) for pod in pods), "the pods have conditions")
        server.guest += b"\0\4\3new"  # a custom section: another version, and no better
        eventually(lambda: has_event("PluginVersionRefused"), "a version is refused")
        server.guest = b""
        text = "the source of a wasm plugin could not be checked"
        eventually(lambda: text in scheduler.process.log_text(), "the server's answer is none")
        emitted_before = json.dumps([workspace.pod(pod) for pod in pods])
        server.guest = batch_guest(scores(0, 0, 100))
        eventually(lambda: set(pods) <= set(workspace.bindings()), "a good version binds them")
        emitted = emissions(workspace, scheduler) | {"waiting pods": emitted_before}
        assert "<hidden>" in emitted["/configz"]
        assert {name: seen for name, text in emitted.items() if (seen := canaries.seen_in(text))} == {}
        assert {name: seen for name, text in emitted.items() if (seen := server.repeated_in(text))} == {}


PLUGIN = """#!/bin/sh
here=$(dirname "$0")
if [ -e "$here/failing" ]; then cat "$here/failing" >&2; cat "$here/failing"; exit 3; fi
if [ -e "$here/answer" ]; then cat "$here/answer"; exit 0; fi
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'$1'"}}'
"""


def kubeconfig_of(user: dict[str, Any], server: str, path: Path) -> Path:
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("kind", ["plugin", "file"])
def test_credentials_that_go_bad_are_not_given_away(kind: str, tmp_path: Path) -> None:
    """A plugin whose answer is none, and that fails and says why; a token file that gets a second line."""
    canaries = Canaries()
    plugin, token = tmp_path / "plugin", tmp_path / "token"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    token.write_text(f"{canaries.new('the token file')}\n")
    command = {"command": str(plugin), "args": [canaries.new("the plugin's argument, its token")]}
    cases: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
        "plugin": (
            {"exec": {**command, "apiVersion": "client.authentication.k8s.io/v1"}},
            {"answer": canaries.new("the plugin's answer, no JSON"), "failing": canaries.new("its last words")},
        ),
        "file": (
            {"tokenFile": str(token)},
            {"token": f"{canaries.new('the first line')}\n{canaries.new('the second line')}"},
        ),
    }
    user, spoilt = cases[kind]
    with web_server() as server:
        server.as_apiserver = "unauthorized"
        kubeconfig = kubeconfig_of(user, server.url, tmp_path / "kubeconfig")
        flags = ["--leader-elect=false", "--secure-port=0", "-v=10", f"--kubeconfig={kubeconfig}"]
        process = Process(kind, [sys.executable, "-m", "kscheduler", "run", *flags], log=tmp_path / "log")
        process.start()

        def complains_again(before: int) -> bool:
            return process.log_text().count("cannot be read again") > before

        eventually(lambda: bool(server.logins), "the apiserver was asked", state=process.log_tail)
        for name, text in spoilt.items():
            is_seen = partial(complains_again, process.log_text().count("cannot be read again"))
            (tmp_path / name).write_text(text)
            eventually(is_seen, f"{name} is complained of", state=process.log_tail)
        process.stop()
    assert server.logins[0].startswith(f"Bearer {MARK}")
    assert canaries.seen_in(process.log_text()) == []
    assert server.repeated_in(process.log_text()) == []
