"""A report can hold how pods were decided, and is the same otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.simulate import simulate
from kscheduler.errors import ConfigError
from kscheduler.explain.ring import PER_POD
from kscheduler.simulator.kept_decisions import sample
from kscheduler.simulator.options import read_arguments
from kscheduler.simulator.report import Decisions, to_compact_json
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.workload import default_workload, generate
from tests.simulator.first_fit import make_node
from tests.simulator.kept import decided
from tests.simulator.objects import pod
from tests.simulator.reports import namespace


def scenario(pods: int = 40) -> Scenario:
    """Three nodes of different size, and more pods than they have room for."""
    nodes = [make_node("small", cpu="4"), make_node("medium", cpu="6"), make_node("large", cpu="8")]
    return Scenario(nodes, [Arrival(float(index), pod(f"p{index}", "1"), runs_s=30.0) for index in range(pods)])


def without_decisions(scenario: Scenario, size: int | None) -> bytes:
    return to_compact_json(msgspec.structs.replace(decided(scenario, size), decisions=None))


def test_a_sample_is_spread_over_the_arrivals_and_omits_pods_that_have_a_node() -> None:
    bound = msgspec.structs.replace(pod("bound"), spec=msgspec.structs.replace(pod("x").spec, node_name="small"))
    arrivals = [Arrival(0.0, bound), *scenario().arrivals]
    played = Scenario(scenario().nodes, arrivals)
    assert sample(played, 4) == {"default/p0", "default/p10", "default/p20", "default/p30"}
    assert len(sample(played, None)) == len(sample(played, 1_000)) == 40
    assert sample(played, 0) == frozenset()


@pytest.mark.parametrize("size", [7, None])
def test_keeping_decisions_changes_nothing_else(size: int | None) -> None:
    assert without_decisions(scenario(), size) == without_decisions(scenario(), 0)


def test_keeping_decisions_changes_nothing_where_chance_decides() -> None:
    played = generate(default_workload(nodes=30, pods=300))
    assert without_decisions(played, 20) == without_decisions(played, 0)


def test_decisions_about_pods_of_gangs_are_kept_and_change_nothing(tmp_path: Path) -> None:
    config, workload = tmp_path / "config.yaml", tmp_path / "workload.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n"
    )
    workload.write_text(
        "seed: 3\nnodes: {count: 12, zones: [a, b, c], shapes: [{name: node, capacity: {cpu: 16, memory: 64Gi}}]}\n"
        "pods:\n  count: 40\n  arrival: poisson:0.2\n  duration: exp:300\n  shapes:\n"
        "  - {name: free, requests: {cpu: 3}, gang: {size: 5}}\n"
        "  - {name: near, requests: {cpu: 4}, gang: {size: 5, required: topology.kubernetes.io/zone}}\n"
    )
    found = {}
    for size in ("0", "7", "all"):
        output = tmp_path / f"{size}.json"
        given = ["--workload", str(workload), "--config", str(config), "--quiet", "--output", str(output)]
        assert simulate(namespace(*given, "--decisions", size)) == 0
        found[size] = json.loads(output.read_bytes())
        del found[size]["machine"]
    kept = {size: report.pop("decisions", None) for size, report in found.items()}
    assert found["0"] == found["7"] == found["all"]
    placed = [
        made[0]
        for each in kept["all"]["pods"]
        for made in [each["decisions"]]
        if made and made[0]["outcome"] == "bound"
    ]
    assert len(placed) == found["all"]["pods"]["placed"]
    assert all(each["detailed"] for each in placed)
    assert any(each["confinedTo"] for each in placed)


def test_the_nodes_of_a_large_domain_are_kept_once_and_all_of_them(tmp_path: Path) -> None:
    config, workload, output = (tmp_path / name for name in ("config.yaml", "workload.yaml", "report.json"))
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]\n"
    )
    workload.write_text(
        "seed: 3\nnodes: {count: 240, zones: [a, b], shapes: [{name: node, capacity: {cpu: 16, memory: 64Gi}}]}\n"
        "pods:\n  count: 10\n  arrival: poisson:1\n  duration: exp:300\n  shapes:\n"
        "  - {name: near, requests: {cpu: 4}, gang: {size: 5, required: topology.kubernetes.io/zone}}\n"
    )
    given = ["--workload", str(workload), "--config", str(config), "--quiet", "--output", str(output)]
    assert simulate(namespace(*given, "--decisions", "all")) == 0
    kept = json.loads(output.read_bytes())["decisions"]
    placed = [made for each in kept["pods"] for made in each["decisions"] if made["outcome"] == "bound"]
    assert {made["confinedToLeftOut"] for made in placed} == {20}
    domains = [kept["domains"][made["confinedToDomain"]] for made in placed]
    assert all(
        len(domain) == 120 and set(made["confinedTo"]) < set(domain)
        for made, domain in zip(placed, domains, strict=True)
    )
    assert len(kept["domains"]) <= 2


def test_a_decision_has_the_scores_of_the_chosen_node_and_of_the_second_choice() -> None:
    kept = decided(scenario(), 5).decisions
    assert kept is not None
    assert {each.pod for each in kept.pods} == {f"default/p{index}" for index in (0, 8, 16, 24, 32)}
    [first] = {each.pod: each.decisions for each in kept.pods}["default/p0"]
    assert (first["outcome"], first["attempt"], first["time"], first["feasible"]) == ("bound", 1, 0.0, 3)
    chosen, second = first["bestNodes"][:2]
    assert chosen["node"] == first["node"] == "large"
    assert chosen["score"] > second["score"]
    scores = {each["plugin"]: each for each in second["plugins"]}
    assert scores["NodeResourcesFit"].keys() == {"plugin", "weight", "raw", "normalized", "weighted"}


def test_a_pod_that_waits_keeps_its_latest_attempts_with_the_reason_of_each_node() -> None:
    arrivals = [Arrival(0.0, pod("big", "9")), *scenario().arrivals]
    kept = decided(Scenario(scenario().nodes, arrivals)).decisions
    assert kept is not None
    attempts = {each.pod: each.decisions for each in kept.pods}["default/big"]
    assert len(attempts) == PER_POD
    assert [each["attempt"] for each in attempts] == sorted((each["attempt"] for each in attempts), reverse=True)
    [reason] = attempts[0]["reasons"]
    assert (reason["plugin"], reason["nodes"], reason["reasons"]) == ("NodeResourcesFit", 3, ["Insufficient cpu"])
    assert set(reason["examples"]) == {"small", "medium", "large"}


def test_memory_is_bounded_and_what_was_dropped_is_counted() -> None:
    kept = decided(scenario(), max_bytes=20_000).decisions
    assert kept is not None
    everything = decided(scenario()).decisions
    assert everything is not None
    assert 0 < len(kept.pods) < len(everything.pods) == 40
    # Of a pod with many attempts the earlier ones would not have been kept anyway.
    assert kept.left_out >= count(everything) - count(kept) > 0
    assert everything.left_out == 0


def count(decisions: Decisions) -> int:
    return sum(len(each.decisions) for each in decisions.pods)


def test_the_flag_puts_decisions_into_the_report(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    flags = ["--nodes=10", "--pods=30", "--quiet", "--output", str(output)]
    assert simulate(namespace(*flags, "--decisions=5")) == 0
    assert len(json.loads(output.read_bytes())["decisions"]["pods"]) == 5
    assert simulate(namespace(*flags, "--decisions=all")) == 0
    assert len(json.loads(output.read_bytes())["decisions"]["pods"]) == 30
    for off in ([], ["--decisions=0"]):
        assert simulate(namespace(*flags, *off)) == 0
        assert json.loads(output.read_bytes())["decisions"] is None


@pytest.mark.parametrize("given", ["-1", "many", "", "1.5", "٣"])
def test_a_number_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=f'--decisions: expected a number of pods or "all", got "{given}"'):
        parse(["simulate", f"--decisions={given}"])


def test_the_flag_names_a_number_or_all() -> None:
    assert read_arguments(namespace()).decisions == 0
    assert read_arguments(namespace("--decisions=12")).decisions == 12
    assert read_arguments(namespace("--decisions=all")).decisions is None


def test_it_is_imported_only_where_it_is_switched_on() -> None:
    code = (
        "import sys; from kscheduler.command.simulate import simulate; from tests.simulator.reports import namespace\n"
        "simulate(namespace('--nodes=2', '--pods=2', '--quiet'))\n"
        "assert 'kscheduler.simulator.kept_decisions' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
