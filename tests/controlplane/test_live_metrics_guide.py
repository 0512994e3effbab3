"""What LIVE_METRICS.md has a new user write works as it stands there: the trial, the queries, the relabelling."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.config.load import parse_config
from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.faults import MissingTool
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.prometheus import Prometheus
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.explain_reader import explain, may_explain

GUIDE = Path(__file__).parents[2] / "LIVE_METRICS.md"
BLOCKS = re.findall(r"```(yaml|python)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
PORT = "9100"


def blocks(first_line: str) -> list[str]:
    found = [text for _, text in BLOCKS if text.startswith(f"# {first_line}\n")]
    assert found, f"the guide has no {first_line}"
    return found


def queries() -> list[str]:
    """Those that rate a counter of the node exporter."""
    texts = [text for _, text in BLOCKS if "rate(" in text]
    return [re.sub(r"\s+", " ", found) for text in texts for found in re.findall(r"query: \|\n((?: {10}.*\n)+)", text)]


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        raise MissingTool("'promtool' is not on PATH; Debian has it in the package prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_policy_is_a_valid_configuration() -> None:
    for text in blocks("live.yaml"):
        parse_config(text)


@pytest.mark.parametrize("text", blocks("prometheus.yaml"))
def test_the_configuration_of_prometheus_is_valid(text: str, tmp_path: Path) -> None:
    # Debian builds Prometheus without the discovery of Kubernetes' objects: only what is done with them can be checked.
    discovered = text.replace("kubernetes_sd_configs: [{role: pod}]", 'static_configs: [{targets: ["10.0.0.1:9100"]}]')
    (tmp_path / "prometheus.yaml").write_text(discovered)
    promtool("check", "config", str(tmp_path / "prometheus.yaml"))


@pytest.mark.parametrize("query", queries())
def test_a_node_that_has_just_come_is_not_called_busy(query: str, tmp_path: Path) -> None:
    """Its counters are 20 s old, the window is two minutes; one node is 10 % busy, the new one 1 %."""
    series = []
    for name, shown, idle in (("old", "", 4.5), ("new", "_x55 ", 4.95)):
        labels = f'node="{name}",instance="{name}:9100",cpu="0"'
        for mode, seconds in (("idle", idle), ("user", 5.0 - idle)):
            begins = f"node_cpu_seconds_total{{{labels},mode={mode!r}}}"
            series.append({"series": begins.replace("'", '"'), "values": f"{shown}0+{seconds}x60"})
        series.append({"series": f'node_uname_info{{instance="{name}:9100",nodename="{name}"}}', "values": "1x60"})
    by = "nodename" if "nodename" in query else "node"
    expected = [{"labels": f'{{{by}="{name}"}}', "value": load} for name, load in (("old", 0.1), ("new", 0.01))]
    rounded = f"round(sum by ({by}) ({query}), 0.001)"
    test = {
        "interval": "5s",
        "input_series": series,
        "promql_expr_test": [{"expr": rounded, "eval_time": "5m", "exp_samples": expected}],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    promtool("test", "rules", str(file))


class Trial:
    """The guide's exporter, and the real Prometheus that asks it; on free ports."""

    def __init__(self, workspace: Workspace, directory: Path) -> None:
        port = str(free_port())
        [exporter] = blocks("loads.py")
        assert PORT in exporter
        script = directory / "loads.py"
        script.write_text(exporter.replace(PORT, port))
        control_plane = workspace.control_plane
        self.exporter = control_plane.start_process("loads", [sys.executable, str(script)], directory=directory)
        self.prometheus = Prometheus(control_plane, [f"127.0.0.1:{port}"])


@pytest.fixture
def trial(workspace: Workspace, tmp_path: Path) -> Iterator[Trial]:
    started = Trial(workspace, tmp_path)
    yield started
    started.prometheus.close()


def test_the_trial_goes_as_the_guide_says(workspace: Workspace, trial: Trial, tmp_path: Path) -> None:
    [nodes], [live] = blocks("nodes.yaml"), blocks("live.yaml")
    for node in yaml.safe_load(nodes)["items"]:
        workspace.api.create("/api/v1/nodes", node)
    # 1. The query says of each node how loaded it is.
    document: dict[str, Any] = yaml.safe_load(live)
    args = document["profiles"][0]["pluginConfig"][0]["args"]
    args["sources"][0]["prometheus"]["url"] = trial.prometheus.url
    query = f"round({args['metrics'][0]['query']}, 0.01)"
    loads = {"node-a": 0.1, "node-b": 0.8, "node-c": 0.3}
    eventually(lambda: trial.prometheus.ask(query) == loads, "the nodes are measured")
    # 2. Four pods go where the guide says.
    scheduler = KScheduler(workspace.control_plane, name="guide", configuration={"profiles": document["profiles"]})
    eventually(lambda: "metric source answers" in scheduler.process.log_text(), "the values are there")
    names = [f"web-{number}" for number in range(1, 5)]
    for name in names:
        pod = workload.pod(name, requests={"cpu": "500m"}, scheduler_name="kscheduler")
        pod["metadata"]["annotations"] = {"kscheduler.io/explain": "details"}
        workspace.create(pod)
        eventually(partial(_is_bound, workspace, name), f"{name} is bound")
    assert [workspace.bindings()[name] for name in names] == ["node-a", "node-a", "node-c", "node-a"]
    # 3. The explanation has the tables that the guide shows; the amounts depend on how old the samples are.
    token = tmp_path / "token"
    token.write_text(may_explain(workspace, "reader"))
    assert tables(explain(scheduler, workspace, "web-4", token)) == tables(GUIDE.read_text())


def tables(text: str) -> list[list[str]]:
    """The heads of the tables about nodes in an explanation, and the first words of their rows."""
    shown, *_ = text[text.index("\nBest nodes: ") :].split("```")
    lines = [line.split() for line in shown.splitlines()]
    return [words if words[0] == "node" else words[:1] for words in lines if words and words[0].startswith("node")]


def _is_bound(workspace: Workspace, name: str) -> bool:
    return name in workspace.bindings()
