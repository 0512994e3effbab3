"""A whole process on a real control plane, with a secret wherever one can be: none is in what it emits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.canaries import Canaries, web_server
from tests.controlplane.harness.kscheduler import KScheduler
from tests.controlplane.harness.patience import eventually
from tests.controlplane.harness.workspace import Workspace

PAGES = ("/configz", "/metrics", "/healthz?verbose", "/readyz?verbose")
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
    args = {
        "sources": [
            {"name": "p", "prometheus": first, "interval": "1s"},
            {"name": "w", "prometheus": second, "interval": "1s"},
        ],
        "metrics": [{"name": "m", "source": "p", "query": "up"}, {"name": "n", "source": "w", "query": "up"}],
        "policies": [{"name": "d", "score": [{"metric": "m"}, {"metric": "n"}]}],
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
