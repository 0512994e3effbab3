"""Workload files: our own, and what is filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from perf.workloads.faults import WorkloadError
from perf.workloads.operations import (
    AllocResourceClaims,
    Barrier,
    Churn,
    CreateAny,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    DeletePods,
    Sleep,
)
from perf.workloads.suite import FOLDER, Plan, Suite, seconds

MEASURED = "{opcode: createPods, count: 1, collectMetrics: true}"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of one case with these operations, one a line, and these parameters."""

    def write(*operations: str, params: str = "{}", case: str = "", size: str = "") -> Path:
        path = tmp_path / "cases.yaml"
        steps = "\n".join(f"- {operation}" for operation in operations)
        path.write_text(
            f"- name: Some\n{indent(case, '  ')}\n  workloadTemplate:\n{indent(steps, '  ')}\n"
            f"  workloads:\n  - name: 5Nodes\n    labels: [small]\n    params: {params}\n{indent(size, '    ')}\n"
        )
        return path

    return write


def plan(path: Path, size: str = "5Nodes") -> Plan:
    return Suite([path]).plan("Some", size)


# --- our own files ---


def test_our_files_have_every_case_in_three_sizes() -> None:
    suite = Suite()
    for case in suite.cases:
        assert [size.labels[0] for size in case.workloads if size.labels] == ["small", "medium", "large"]
        for nodes in ("5Nodes", "500Nodes", "5000Nodes"):
            assert suite.plan(case.name, nodes).operations


def test_every_template_is_used() -> None:
    suite = Suite()
    used = {path for case in suite.cases for path in suite.plan(case.name, "small").templates}
    assert used == {f"templates/{path.name}" for path in (FOLDER / "templates").iterdir()}


def test_preempting_pods_need_three_victims_each() -> None:
    # The figures of evictions rest on it: 4 CPUs hold four pods of 900m, and 3000m leave room for one of them.
    templates = Suite().plan("PreemptionBasic", "small").templates
    cpu = {
        name: template.object()["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for name, template in templates.items()
        if template.kind == "Pod"
    }
    assert cpu == {"templates/pod-low-priority.yaml": "900m", "templates/pod-high-priority.yaml": "3000m"}


# --- what is filled in ---


def test_parameter_gives_the_count(write: Write) -> None:
    path = write("{opcode: createNodes, countParam: $nodes}", MEASURED, params="{nodes: 7}")
    assert plan(path).operations[0] == CreateNodes(count=7)


def test_pods_are_counted_by_group_and_member(write: Write) -> None:
    path = write(
        "{opcode: createPods, countParam: $groups, countMultiplierParam: $members}",
        MEASURED,
        params="{groups: 3, members: 4}",
    )
    assert plan(path).operations[0] == CreatePods(count=12, namespace="namespace-0")


def test_every_operation_is_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}")
    path = write(
        "{opcode: createNamespaces, prefix: team, count: 2}",
        "{opcode: createPods, count: 3, skipWaitToCompletion: true}",
        "{opcode: barrier, namespaces: [namespace-1], stageRequirement: Attempted}",
        "{opcode: deletePods, namespace: namespace-1, deletePodsPerSecond: 50, skipWaitToCompletion: true}",
        "{opcode: churn, mode: recreate, number: 2, templatePaths: [pod.yaml]}",
        "{opcode: sleep, durationParam: $pause}",
        "{opcode: startCollectingMetrics, name: all, namespaces: [team-0]}",
        "{opcode: stopCollectingMetrics}",
        params="{pause: 1m30s}",
    )
    steps = plan(path).operations
    assert steps[2] == Barrier(namespaces=("namespace-1",), stage_requirement="Attempted")
    assert steps[3] == DeletePods(namespace="namespace-1", delete_pods_per_second=50, skip_wait_to_completion=True)
    assert steps[4] == Churn(mode="recreate", template_paths=("pod.yaml",), number=2, namespace="namespace-4")
    assert steps[5] == Sleep(duration="1m30s")
    assert len(steps) == 8


def test_pods_of_a_set_are_created_in_every_namespace(write: Write) -> None:
    path = write(
        "{opcode: createPodSets, countParam: $sets, namespacePrefix: team, createPodsOp: {countParam: $pods}}",
        MEASURED,
        params="{sets: 2, pods: 3}",
    )
    assert plan(path).operations[:2] == (
        CreatePods(count=3, namespace="team-0"),
        CreatePods(count=3, namespace="team-1"),
    )


def test_feature_gates_of_the_size_win_over_those_of_the_case(write: Write) -> None:
    gates = "featureGates: {GenericWorkload: true, GangScheduling: true}"
    path = write(MEASURED, case=gates, size="featureGates: {GangScheduling: false}\nthreshold: 5")
    assert plan(path).feature_gates == {"GenericWorkload": True, "GangScheduling": False}


def test_a_case_may_need_a_newer_release_and_its_gates(write: Write) -> None:
    gates = 'kubernetes: "1.37"\nfeatureGates: {DRADeviceCompatibilityGroups: true}'
    release = plan(write(MEASURED, case=gates)).release
    assert (release.version, release.has("DRADeviceCompatibilityGroups")) == ("1.37", True)


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ('kubernetes: "1.2"', "expected one of 1.36, 1.37"),
        ("featureGates: {DRADeviceCompatibilityGroups: true}", "kubernetes 1.36: unrecognized feature gate"),
    ],
)
def test_a_release_that_lacks_what_a_case_needs_is_a_fault(write: Write, case: str, fault: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        plan(write(MEASURED, case=case))
    assert fault in str(raised.value)


@pytest.mark.parametrize(("written", "expected"), [("2s", 2.0), ("1m30s", 90.0), ("250ms", 0.25), ("1.5h", 5400.0)])
def test_durations_are_go_s(written: str, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected)


def test_driver_of_devices_is_read(write: Write) -> None:
    path = write(
        "{opcode: createResourceDriver, driverName: d, nodes: gpu-*, maxClaimsPerNodeParam: $claims}",
        "{opcode: allocResourceClaims, namespace: init}",
        MEASURED,
        params="{claims: 4}",
    )
    assert plan(path).operations[:2] == (
        CreateResourceDriver(driver_name="d", nodes="gpu-*", max_claims_per_node=4),
        AllocResourceClaims(namespace="init"),
    )


def test_templates_have_parameters_that_the_size_may_give(write: Write, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: 'pod-{{.kind}}-{{Mod .Index .number}}'}}"
    )
    pods = "{opcode: createPods, count: 1, podTemplatePath: pod.yaml, templateParams: %s, collectMetrics: true}"
    made = plan(write(pods % "{kind: a, number: $number}", params="{number: 5}"))
    assert made.templates["pod.yaml"].object(7)["metadata"]["name"] == "pod-a-2"
    with pytest.raises(WorkloadError, match=r"'\.number' is not known"):
        plan(write(pods % "{kind: a}"))
    others = "{opcode: createAny, templatePath: pod.yaml, namespace: a, templateParams: {kind: b, number: 5}}"
    with pytest.raises(WorkloadError, match=r"pod\.yaml is used with others in this case"):
        plan(write(others, pods % "{kind: a, number: 5}"))


@pytest.mark.parametrize("opcode", ["createPodGroups", "createResourceClaims"])
def test_groups_and_claims_are_created_in_a_namespace(write: Write, tmp_path: Path, opcode: str) -> None:
    (tmp_path / "any.yaml").write_text("{apiVersion: v1, kind: Any, metadata: {name: '{{.Index}}'}}")
    made = plan(write(f"{{opcode: {opcode}, templatePath: any.yaml, namespace: a, count: 2}}", MEASURED)).operations[0]
    assert isinstance(made, CreateAny)
    assert (made.namespace, made.count) == ("a", 2)
    with pytest.raises(WorkloadError, match="namespace: expected one"):
        plan(write(f"{{opcode: {opcode}, templatePath: any.yaml}}", MEASURED))


def test_pods_may_be_replaced_for_some_time(write: Write) -> None:
    pods = "{opcode: createPods, count: 2, collectMetrics: true, steadyStateParam: $steady, durationParam: $time}"
    steady, once = (plan(write(pods, params=f"{{steady: {value}, time: 10s}}")) for value in ("true", "false"))
    assert steady.operations == (
        CreatePods(count=2, namespace="namespace-0", collect_metrics=True, steady_state=True, duration="10s"),
    )
    assert once.operations == (CreatePods(count=2, namespace="namespace-0", collect_metrics=True),)


@pytest.mark.parametrize(
    ("operation", "params", "fault"),
    [
        ("{opcode: createResourceDriver, driverName: d, nodes: n}", "{}", "maxClaimsPerNode: expected at least 1"),
        ("{opcode: createResourceDriver, driverName: d}", "{}", "nodes"),
        ("{opcode: createPods, count: 1, steadyState: true, duration: 0s}", "{}", "duration: expected some time"),
        ("{opcode: createPods, count: 1, steadyStateParam: $s, duration: 1s}", "{s: 1}", "steadyStateParam: expected"),
        (
            "{opcode: createPods, count: 1, steadyState: true, duration: 1s, skipWaitToCompletion: true}",
            "{}",
            "steadyState: pods that nobody waits for",
        ),
    ],
)
def test_faults_of_devices_and_replaced_pods_are_named(write: Write, operation: str, params: str, fault: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        plan(write(operation, MEASURED, params=params))
    assert fault in str(raised.value)
