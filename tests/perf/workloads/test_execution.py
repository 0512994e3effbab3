"""Tiny workloads on a real control plane: what both schedulers make of them, and that nothing is left running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perf.control_plane_run import Peer
from perf.workloads.execution import Result, measure
from perf.workloads.suite import Suite
from tests.controlplane.conftest import unavailable
from tests.controlplane.harness import ControlPlane, HarnessError, KubeScheduler, MissingTool, ensure
from tests.controlplane.harness.kscheduler import KScheduler
from tests.controlplane.harness.patience import eventually

pytestmark = pytest.mark.controlplane

REPOSITORY = Path(__file__).resolve().parents[3]

# Every operation that our own files do not have, in one workload.
OPERATIONS = """
- name: Operations
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml}
  - {opcode: createNamespaces, prefix: team, count: 2}
  - {opcode: createPods, count: 3, namespace: team-0}
  - {opcode: deletePods, namespace: team-0}
  - {opcode: createPods, count: 3, namespace: team-0}
  - {opcode: deletePods, namespace: team-0, deletePodsPerSecond: 100}
  - {opcode: startCollectingMetrics, name: both, namespaces: [team-0, team-1]}
  - {opcode: createPods, count: 4, namespace: team-1, skipWaitToCompletion: true}
  - {opcode: sleep, duration: 10ms}
  - {opcode: barrier}
  - {opcode: stopCollectingMetrics}
  workloads:
  - name: tiny
"""

# A pod that fits nowhere.
HOPELESS = """
- name: Hopeless
  workloadTemplate:
  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml}
  - {opcode: createPods, count: 1, podTemplatePath: pod.yaml, collectMetrics: true}
  workloads:
  - name: tiny
"""

NODE = """
apiVersion: v1
kind: Node
metadata: {name: full}
status: {capacity: {pods: "0"}, conditions: [{type: Ready, status: "True"}]}
"""

# A tombstone of a pod: no kubelet confirms its end.
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: pause, image: pause:3.10}]
"""


@pytest.fixture(autouse=True)
def binaries() -> None:
    try:
        ensure()
    except MissingTool as error:
        unavailable(str(error))


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Suite]:
    """A suite of the cases in a text."""
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)

    def write(text: str) -> Suite:
        path = tmp_path / "cases.yaml"
        path.write_text(text)
        return Suite([path])

    return write


def ours(control_plane: ControlPlane) -> Peer:
    return KScheduler(control_plane)


def theirs(control_plane: ControlPlane) -> Peer:
    return KubeScheduler(control_plane)


def run(case: str, start: Callable[[ControlPlane], Peer] = ours) -> Result:
    return measure("any", start, Suite().plan(case, "small"), timeout_s=120.0)


def children() -> set[int]:
    """The processes that this one has started and that are not over."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in map(int, file.read_text().split())}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


@pytest.mark.parametrize("start", [ours, theirs])
def test_preempting_pods_are_bound_in_place_of_three_others_each(start: Callable[[ControlPlane], Peer]) -> None:
    result = run("PreemptionBasic", start)
    assert result.problems == []
    assert result.collected.pods == 5
    # kube-scheduler now and then evicts for a pod that a node nominated to another would have taken
    assert result.evicted >= 15
    assert result.pods_per_s > 0
    assert result.cpu_ms_per_pod > 0


def test_gated_pods_stay_and_deleted_ones_are_not_missed() -> None:
    result = run("SchedulingWhileGated")
    assert (result.problems, result.collected.pods, result.evicted) == ([], 10, 0)


def test_objects_come_and_go_beside_the_measured_pods() -> None:
    result = run("MixedChurn")
    assert (result.problems, result.collected.pods) == ([], 100)


def test_every_other_operation_is_carried_out(own: Callable[[str], Suite]) -> None:
    suite = own(OPERATIONS.replace("{opcode: createPods,", "{opcode: createPods, podTemplatePath: pod.yaml,"))
    result = measure("kscheduler", ours, suite.plan("Operations", "tiny"), timeout_s=60.0)
    assert (result.problems, result.collected.pods, result.evicted) == ([], 4, 0)


def test_pods_that_are_not_bound_in_time_are_counted(own: Callable[[str], Suite]) -> None:
    with pytest.raises(HarnessError, match="0 of 1 pods were bound within 3 s"):
        measure("kscheduler", ours, own(HOPELESS).plan("Hopeless", "tiny"), timeout_s=3.0)


def test_scheduler_that_ends_in_mid_run_is_named(own: Callable[[str], Suite]) -> None:
    def killed(control_plane: ControlPlane) -> Peer:
        peer = KScheduler(control_plane)
        peer.process.kill()
        return peer

    with pytest.raises(HarnessError, match="kscheduler ended by itself with exit code -9"):
        measure("kscheduler", killed, own(HOPELESS).plan("Hopeless", "tiny"), timeout_s=60.0)


def test_interrupt_stops_all_servers_and_keeps_what_is_complete(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    arguments = ["--workload", "MixedChurn", "--size", "small", "--rounds", "50", "--output", str(output)]
    with subprocess.Popen(
        [sys.executable, "-m", "perf.workloads", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as runner:
        eventually(output.exists, "a round is complete", limit_s=180.0)
        servers = _descendants(runner.pid)
        runner.send_signal(signal.SIGTERM)  # SIGINT may be ignored here: a shell's background jobs inherit that
        try:
            told, _ = runner.communicate(timeout=120.0)
        finally:
            runner.kill()
        assert "PARTIAL, " in told
    assert runner.returncode == 130
    assert [pid for pid in servers if Path(f"/proc/{pid}").exists()] == []
    document = json.loads(output.read_text())
    assert document["partial"] is True
    assert document["workloads"][0]["rounds"]


def _descendants(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]
