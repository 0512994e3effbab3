"""Simulations in which the scheduler goes by what nodes really use, from a user's own configuration."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kscheduler.command.simulate import simulate
from kscheduler.simulator.metrics_plan import HANG, UNAVAILABLE, MetricsPlan, Outage
from kscheduler.simulator.report import to_json
from kscheduler.simulator.run import Ending, Outcome
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_pod
from tests.simulator.loads import CONFIG, arrivals, cluster, play, report_of
from tests.simulator.reports import namespace


def by_node(outcome: Outcome) -> Counter[str]:
    return Counter(pod.spec.node_name for pod in outcome.cluster.pods.values())


def test_pods_go_to_the_nodes_that_are_idle_whatever_is_requested() -> None:
    outcome = play(Scenario(cluster(), arrivals(30, 20.0)))
    assert outcome.ending is Ending.ALL_PLACED
    assert set(by_node(outcome)) == {"n3", "n4", "n5"}


def test_a_configuration_for_a_cluster_works_in_a_simulation_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, workload, output = (tmp_path / name for name in ("config.yaml", "workload.yaml", "report.json"))
    config.write_text(CONFIG.replace("FALLBACK", "fallback: Neutral"))
    workload.write_text("""
nodes: {count: 10, shapes: [{name: small, capacity: {cpu: 8, memory: 16Gi}, usage: {cpu: 250m}}]}
pods:
  count: 60
  arrival: constant:0.5
  shapes: [{name: web, requests: {cpu: 500m}, limits: {cpu: 1}, usage: {cpu: "uniform:0.1,3", ramp: 10}}]
metrics: {interval: 10, outages: [{kind: hang, from: 30, until: 60}]}
""")
    flags = ("--config", str(config), "--workload", str(workload), "--output", str(output), "--html", f"{output}.html")
    assert simulate(namespace(*flags)) == 0
    report = json.loads(output.read_text())
    assert report["pods"]["placed"] == 60
    (cpu, _) = report["real_load"]["resources"]
    assert 0.03 < cpu["mean"] < cpu["requested"] + 0.4
    assert "really used" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", [UNAVAILABLE, HANG])
def test_pods_go_on_while_the_source_fails_and_balance_recovers(kind: str) -> None:
    """Half of the nodes are busy; between minutes 20 and 40 nobody knows which."""
    outage = Outage(kind, 1200.0, 2400.0)
    whole = Scenario(cluster(), arrivals(400, 15.0, runs_s=600.0))
    failing = replace(whole, metrics=MetricsPlan(outages=[outage]))
    outcome = play(failing)
    assert outcome.ending is Ending.ALL_PLACED
    waits = [(record.bound_s or 0.0) - record.created_s for record in outcome.accounting.records.values()]
    assert len(waits) == 400
    assert max(waits) < 1.0
    known, unknown, again = (
        _deviation(outcome, first, last) for first, last in ((900, 1200), (1800, 2400), (3600, 6000))
    )
    # Busy nodes get pods while nothing is known of them; some minutes after the source is back it is as before.
    assert unknown > known * 1.1
    assert again < known * 1.05
    assert _deviation(play(whole), 1800, 2400) < unknown / 1.1


def _deviation(outcome: Outcome, first_s: float, last_s: float) -> float:
    """Mean over samples of a time."""
    assert outcome.load is not None
    found = [sample.spreads[0].deviation for sample in outcome.load.samples if first_s <= sample.at_s < last_s]
    return sum(found) / len(found)


def test_pods_that_wait_for_metrics_are_waited_for() -> None:
    """The source comes back long after a scheduler that says nothing is taken to have tried everything."""
    plan = MetricsPlan(outages=[Outage(UNAVAILABLE, 0.0, 600.0)])
    late = [replace(each, at_s=each.at_s + 300.0) for each in arrivals(5, 1.0)]
    outcome = play(
        Scenario(cluster(), [*arrivals(1, 1.0), *[_renamed(each) for each in late]], metrics=plan), "fallback: Requeue"
    )
    assert outcome.ending is Ending.ALL_PLACED
    bound = [record.bound_s for record in outcome.accounting.records.values()]
    assert all(at is not None and at >= 600.0 for at in bound[1:])


def _renamed(arrival: Arrival) -> Arrival:
    pod = arrival.pod
    return replace(arrival, pod=make_pod(f"late-{pod.metadata.name}").req(cpu="100m").obj())


def test_runs_with_metrics_are_the_same_each_time() -> None:
    scenario = Scenario(cluster(), arrivals(40, 3.0, runs_s=50.0))
    first, again = (to_json(report_of(scenario, play(scenario, seed=5))) for _ in range(2))
    assert first == again
