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
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.prometheus import Prometheus
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import remove_kind, serves
from tests.controlplane.explain_reader import explain, may_explain
from tests.controlplane.policy_kinds import GROUP_VERSION, SERVED
from tests.deploy.manifests import DEPLOY, documents
from tests.docs.console import check, commands, printed_by
from tests.support.skips import program

GUIDE = Path(__file__).parents[2] / "LIVE_METRICS.md"
BLOCKS = re.findall(r"```(yaml|python)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
CONSOLES = re.findall(r"```console[^\n]*\n(.*?)```", GUIDE.read_text(), re.DOTALL)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PORT = "9100"


def blocks(first_line: str) -> list[str]:
    found = [text for _, text in BLOCKS if text.startswith(f"# {first_line}\n")]
    assert found, f"the guide has no {first_line}"
    return found


def block_with(words: str) -> Any:
    """The content of the only YAML that contains these words."""
    [found] = [text for kind, text in BLOCKS if kind == "yaml" and words in text]
    return yaml.safe_load(found)


def shown_by(command: str) -> list[tuple[str, list[str]]]:
    """The commands of the only block that begins with this one, each with the lines that the guide shows below it."""
    [found] = [commands(text) for text in CONSOLES if text.startswith(f"$ {command}")]
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


def test_the_configuration_of_trimarans_plugins_is_valid() -> None:
    [text] = [text for _, text in BLOCKS if "TargetLoadPackingArgs" in text]
    parse_config(HEAD + text)


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


def test_pods_keep_moving_when_metrics_fail_as_the_guide_says(
    workspace: Workspace, trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the Events, the guide shows one of each kind, and the node that chance chose."""
    program("kubectl", "install kubectl")
    document = _with_what_moves_pods(trial)
    for node in yaml.safe_load(blocks("nodes.yaml")[0])["items"]:
        workspace.api.create("/api/v1/nodes", node)
    scheduler = KScheduler(workspace.control_plane, name="guide", configuration={"profiles": document["profiles"]})
    eventually(lambda: "metric source answers" in scheduler.process.log_text(), "the values are there")
    eventually(lambda: _fresh(scheduler) == 3, "all nodes have a value")
    # 1. No node uses so little: a relaxation step is taken.
    _create_under(workspace, "relax-1", "cool")
    eventually(partial(_is_bound, workspace, "relax-1"), "relax-1 is bound")
    # 2. Prometheus is killed, and its values get too old.
    trial.prometheus.kill()
    eventually(lambda: _fresh(scheduler) == 0, "all values are too old")
    _create_under(workspace, "plan-1", "with-plan-b")
    _create_under(workspace, "dead-1", "cool")
    for name in ("plan-1", "dead-1"):
        eventually(partial(_is_bound, workspace, name), f"{name} is bound")
    # 3. The Events are those of the guide.
    [(command, shown)] = shown_by("kubectl get events")
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", workspace.control_plane.credentials, namespace=workspace.namespace
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    eventually(lambda: _rows(printed_by(command, tmp_path)) >= {("dead-1", "MetricPolicyDeadline")}, "all are written")
    printed = [line.replace(f"{workspace.namespace}/", "default/") for line in printed_by(command, tmp_path)]
    assert _rows(printed) >= _rows(shown)
    assert {line.split()[0] for line in printed} == {line.split()[0] for line in shown}
    for line in shown:
        wanted = re.escape(" ".join(line.split())).replace("…", ".+").replace("\\.\\ ", "\\. ")
        wanted = re.sub(r"node\\-[abc]$", "node-[abc]", wanted)
        assert any(re.fullmatch(wanted, " ".join(each.split())) for each in printed), (line, printed)


def test_policies_as_objects_are_shown_as_the_guide_says(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("kubectl", "install kubectl")
    control_plane = workspace.control_plane
    control_plane.api.apply(*documents((DEPLOY / "metric-policies" / "crd.yaml").read_text()))
    control_plane.create_namespace("shop")
    try:
        eventually(lambda: serves(control_plane.api, SERVED[0]), "the kind is served")
        document = yaml.safe_load(blocks("live.yaml")[0])
        args = document["profiles"][0]["pluginConfig"][0]["args"]
        args["policyObjects"] = True
        KScheduler(control_plane, name="guide", configuration={"profiles": document["profiles"]})
        calm = block_with("name: calm, namespace: shop")
        typo = {**calm, "metadata": {"name": "typo", "namespace": "shop"}}
        typo["spec"] = yaml.safe_load(yaml.safe_dump(calm["spec"]).replace("metric: cpu", "metric: cpus"))
        control_plane.api.apply(calm, typo)
        path = f"/apis/{GROUP_VERSION}/namespaces/shop/metricpolicies"
        eventually(lambda: all(_conditions(each) for each in control_plane.api.list_all(path)), "both are judged")
        monkeypatch.setenv("KUBECONFIG", str(control_plane.admin_kubeconfig))
        for command, shown in shown_by("kubectl get metricpolicies -n shop"):
            check([re.sub(r"\b12s$", "…", line) for line in shown], printed_by(command, tmp_path), command)
    finally:
        control_plane.delete_namespace("shop")
        remove_kind(control_plane.api, "metricpolicies.kscheduler.io")


def _with_what_moves_pods(trial: Trial) -> dict[str, Any]:
    """The configuration of section 1, with the sources and policies of section 4 in place of its own."""
    document: dict[str, Any] = yaml.safe_load(blocks("live.yaml")[0])
    args = document["profiles"][0]["pluginConfig"][0]["args"]
    args |= block_with("decisionDeadline: 20s")
    args["sources"][0]["prometheus"]["url"] = trial.prometheus.url
    del args["defaultPolicy"]
    return document


def _create_under(workspace: Workspace, name: str, policy: str) -> None:
    labels = {"kscheduler.io/metric-policy": policy}
    workspace.create(workload.pod(name, labels=labels, scheduler_name="kscheduler"))


def _fresh(scheduler: KScheduler) -> float:
    """The number of nodes with a fresh value."""
    found = re.search(r'kscheduler_metric_nodes\{[^}]*state="fresh"[^}]*\} (\S+)', scheduler.get("/metrics"))
    return -1.0 if found is None else float(found[1])


def _rows(lines: list[str]) -> set[tuple[str, str]]:
    """The first two columns of a table, below its head."""
    return {(words[0], words[1]) for words in map(str.split, lines[1:]) if len(words) > 1}


def _conditions(policy: dict[str, Any]) -> object:
    return policy.get("status", {}).get("conditions")


def tables(text: str) -> list[list[str]]:
    """The heads of the tables about nodes in an explanation, and the first words of their rows."""
    shown, *_ = text[text.index("\nBest nodes: ") :].split("```")
    lines = [line.split() for line in shown.splitlines()]
    return [words if words[0] == "node" else words[:1] for words in lines if words and words[0].startswith("node")]


def _is_bound(workspace: Workspace, name: str) -> bool:
    return name in workspace.bindings()
