"""`kscheduler simulate` with a secret wherever one can be: none is in its reports, nor in what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kscheduler.command.cli import main
from tests.support.canaries import Canaries, web_server

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ANSWERS = ("failing", "echo", "garbage", "cut", "status-line", "reason", "location", "page", "ok")
pytestmark = pytest.mark.usefixtures("logging_restored")


def test_no_report_of_the_simulator_shows_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canaries = Canaries()
    with web_server() as server:
        addresses = {kind: f"{server.url}/{kind}" for kind in ANSWERS} | {"nobody": "http://127.0.0.1:1/x"}
        extenders = [
            {
                "urlPrefix": canaries.url(kind, address),
                "filterVerb": "filter",
                "nodeCacheCapable": True,
                "httpTimeout": "5s",
                "managedResources": [{"name": f"canary.io/{kind}", "ignoredByScheduler": True}],
            }
            for kind, address in addresses.items()
        ]
        (tmp_path / "scheduler.yaml").write_text(json.dumps({**HEAD, "extenders": extenders}))
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        nodes = [{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}]
        pods = [
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"p-{kind}",
                    "namespace": "default",
                    "annotations": {"last-applied-configuration": canaries.new(f"{kind}'s annotation")},
                },
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "env": [{"name": "PASSWORD", "value": canaries.new(f"{kind}'s environment")}],
                            "resources": {"limits": {f"canary.io/{kind}": "1"}},
                        }
                    ]
                },
            }
            for kind in addresses
        ]
        for name, items in (("nodes", nodes), ("pods", pods)):
            (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        reports = {kind: tmp_path / f"report.{kind}" for kind in ("output", "html", "placements")}
        inputs = [f"--{name}={tmp_path / name}.json" for name in ("nodes", "pods")]
        outputs = [f"--{kind}={path}" for kind, path in reports.items()]
        status = main(["simulate", f"--config={tmp_path / 'scheduler.yaml'}", *inputs, *outputs, "--max-time=60"])
        emitted = {"terminal": "".join(capsys.readouterr())}
        emitted |= {kind: path.read_text() for kind, path in reports.items()}
        assert status == 0, emitted["terminal"]
        assert "asked as Basic <hidden>" in emitted["placements"]
        assert {name: seen for name, text in emitted.items() if (seen := canaries.seen_in(text))} == {}
        assert {name: seen for name, text in emitted.items() if (seen := server.repeated_in(text))} == {}
