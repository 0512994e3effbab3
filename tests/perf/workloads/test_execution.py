"""Whole plans, on the cluster in memory in a process of its own: operations and what is judged."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kscheduler.testing.controlplane.patience import eventually
from perf.results import read
from perf.workloads.embedded_site import EmbeddedSite
from perf.workloads.execution import Outcome, measure
from perf.workloads.operations import CreatePods
from perf.workloads.suite import Plan, Suite

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]

REPOSITORY = Path(__file__).resolve().parents[3]

OPERATIONS = """
- name: Operations
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml}
  - {opcode: createNamespaces, prefix: team, count: 2}
  - {opcode: createPods, count: 3, namespace: team-0}
  - {opcode: deletePods, namespace: team-0}
  - {opcode: createPods, count: 3, namespace: team-0}
  - {opcode: deletePods, namespace: team-0, deletePodsPerSecond: 100}
  - {opcode: createPodSets, count: 2, namespacePrefix: team, createPodsOp: {count: 1}}
  - {opcode: createAny, templatePath: service.yaml, namespace: team-0, count: 2}
  - {opcode: startCollectingMetrics, name: both, namespaces: [team-0, team-1]}
  - {opcode: createPods, count: 4, namespace: team-1, skipWaitToCompletion: true}
  - {opcode: sleep, duration: 10ms}
  - {opcode: barrier}
  - {opcode: stopCollectingMetrics}
  workloads:
  - name: tiny
"""

FILES = {
    "node.yaml": """
apiVersion: v1
kind: Node
metadata: {name: full}
status: {capacity: {pods: "0"}, conditions: [{type: Ready, status: "True"}]}
""",
    "service.yaml": """
apiVersion: v1
kind: Service
metadata: {name: 'service-{{.Index}}'}
spec: {selector: {app: any}, ports: [{port: 80}]}
""",
    # No kubelet confirms its end.
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: pause, image: pause:3.10}]
""",
}


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Plan]:
    """The only case of a text, in its only size."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def write(text: str) -> Plan:
        path = tmp_path / "cases.yaml"
        path.write_text(text)
        suite = Suite([path])
        return suite.plan(suite.cases[0].name, "tiny")

    return write


def run(plan: Plan, timeout_s: float = 30.0) -> Outcome:
    return measure(EmbeddedSite(plan), plan, timeout_s)


# One for each thing that a plan may do; all others are made of the same.
CASES = (
    "SchedulingRequiredPodAntiAffinityWithNSSelector",
    "DefaultTopologySpreading",
    "SchedulingMigratedInTreePVs",
    "PreemptionAsync",
    "MixedChurn",
    "SchedulingWhileGated",
    "SchedulingDeletedPodsWithFinalizers",
    "SchedulingWithResourceClaimTemplate",
    "DeviceTaintToleration",
    "ExtendedResource_25Classes",
    "ImplicitExtendedResource",
    "SharedPodGroupResourceClaimTemplate",
)
REPLACED = ("PartitionableBacktracking", "CompatibilityGroups", "ListAttributes")  # cases whose pods come and go


@pytest.mark.parametrize("case", CASES)
def test_our_workloads_end_well(case: str) -> None:
    plan = Suite().plan(case, "small")
    outcome = run(plan)
    measured = [step.count for step in plan.operations if isinstance(step, CreatePods) and step.collect_metrics]
    assert (outcome.problems, [outcome.collected.pods]) == ([], measured)
    assert outcome.collected.seconds > 0
    assert outcome.collected.latency_ms["Perc50"] <= outcome.collected.latency_ms["Max"]


def test_pods_come_and_go_with_their_claims_beside_claims_that_nobody_uses() -> None:
    outcome = run(Suite().plan("SteadyStateWithResourceClaimTemplate", "small"))
    assert outcome.problems == []
    assert outcome.collected.pods > 10  # more than one round
    assert outcome.collected.pods % 10 == 0


@pytest.mark.parametrize("case", REPLACED)
def test_pods_that_come_and_go_get_devices_by_single_features(case: str) -> None:
    plan = Suite().plan(case, "small")
    (count,) = [step.count for step in plan.operations if isinstance(step, CreatePods)]
    outcome = run(plan)
    assert outcome.problems == []
    assert outcome.collected.pods >= count
    assert outcome.collected.pods % count == 0


def test_pods_that_wait_for_devices_are_bound_once_slices_are_published() -> None:
    outcome = run(Suite().plan("PublishResourceSlices", "small"))
    assert (outcome.problems, outcome.collected.pods) == ([], 5)


def test_preempting_pods_are_bound_in_place_of_three_others_each() -> None:
    assert run(Suite().plan("PreemptionBasic", "small")).evicted == 15


def test_every_other_operation_is_carried_out(own: Callable[[str], Plan]) -> None:
    outcome = run(own(OPERATIONS))
    assert (outcome.problems, outcome.collected.pods, outcome.evicted) == ([], 4, 0)


def test_measured_pods_come_at_the_rate_given() -> None:
    outcome = run(Suite().plan("SchedulingBasic", "small").at_rate(50.0, "50 pods/s"))
    assert (outcome.problems, outcome.collected.pods) == ([], 10)
    # The first of ten comes at once, the last after 9 of 50 parts of a second; timers may be a millisecond early.
    assert outcome.collected.seconds >= 8 / 50


def test_interrupt_leaves_nothing_running_and_keeps_what_is_complete(tmp_path: Path) -> None:
    arguments = ["MixedChurn", "--size", "small", "--rounds", "500", "--targets", "embedded", "--output", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "perf.workloads", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as runner:
        eventually((tmp_path / "ratios.svg").exists, "a round is complete")
        servers = _descendants(runner.pid)
        runner.send_signal(signal.SIGTERM)  # SIGINT may be ignored here: a shell's background jobs inherit that
        try:
            reported, _ = runner.communicate()
        finally:
            runner.kill()
    assert "PARTIAL, " in reported
    assert runner.returncode == 130
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in servers), "the servers have ended")
    results = read(tmp_path / "results.json")
    assert results.facts.partial
    assert results.records


def _descendants(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]
