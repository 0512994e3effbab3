"""Workload files: what is read, what is filled in, and what is refused with the name of file and field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from perf.workloads.faults import WorkloadError
from perf.workloads.operations import (
    Barrier,
    Churn,
    CreateAny,
    CreateNodes,
    CreatePods,
    DeletePods,
    LabelNodes,
    Sleep,
    UpdateAny,
)
from perf.workloads.suite import FOLDER, Plan, Suite, read, seconds

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


TOPICS = {
    "SchedulingBasic": "basic",
    "SchedulingDaemonset": "daemonset",
    "SchedulingNodeAffinity": "node affinity",
    "SchedulingPodAffinity": "pod affinity, required",
    "SchedulingPreferredPodAffinity": "pod affinity, preferred",
    "SchedulingPodAntiAffinity": "pod anti-affinity, required",
    "SchedulingPreferredPodAntiAffinity": "pod anti-affinity, preferred",
    "SchedulingRequiredPodAffinityWithNSSelector": "namespace selectors",
    "TopologySpreading": "spreading, hard",
    "PreferredTopologySpreading": "spreading, soft",
    "DefaultTopologySpreading": "spreading, by default",
    "MixedSchedulingBasePod": "mixed",
    "SchedulingCSIPVs": "volumes",
    "Unschedulable": "unschedulable",
    "MixedChurn": "churn",
    "PreemptionBasic": "preemption",
    "SchedulingWhileGated": "gated",
    "SchedulingDeletedPodsWithFinalizers": "deleted pods with finalizers",
}


def test_our_files_cover_every_topic() -> None:
    assert TOPICS.keys() <= {case.name for case in Suite().cases}


def test_our_files_have_every_case_in_three_sizes() -> None:
    suite = Suite()
    for case in suite.cases:
        assert [size.labels[0] for size in case.workloads if size.labels] == ["small", "medium", "large"]
        for nodes in ("5Nodes", "500Nodes", "5000Nodes"):
            assert suite.plan(case.name, nodes).operations


def test_memory_can_be_measured_with_many_pods() -> None:
    for pods in (10_000, 50_000):
        plan = Suite().plan("SchedulingBasic", f"5000Nodes_{pods}Pods")
        counts = [step.count for step in plan.operations if isinstance(step, CreateNodes | CreatePods)]
        assert counts == [5_000, 0, pods]


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


def test_namespace_is_named_by_the_position_unless_given(write: Write) -> None:
    path = write("{opcode: createPods, count: 2, namespace: mine}", MEASURED)
    namespaces = [step.namespace for step in plan(path).operations if isinstance(step, CreatePods)]
    assert namespaces == ["mine", "namespace-1"]


def test_pods_are_of_the_case_s_default_template_unless_given(write: Write, tmp_path: Path) -> None:
    for name in ("usual", "other"):
        (tmp_path / f"{name}.yaml").write_text(f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}")
    path = write(
        "{opcode: createPods, count: 1, podTemplatePath: other.yaml}",
        MEASURED,
        case="defaultPodTemplatePath: usual.yaml",
    )
    found = plan(path)
    paths = [step.pod_template_path for step in found.operations if isinstance(step, CreatePods)]
    assert paths == ["other.yaml", "usual.yaml"]
    assert found.templates["usual.yaml"].object()["metadata"]["name"] == "usual"


def test_size_is_found_by_name_and_by_label(write: Write) -> None:
    path = write(MEASURED)
    assert plan(path, "small") == plan(path, "5Nodes")
    assert plan(path, "small").name == "Some/5Nodes"


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


def test_any_object_is_one_unless_counted(write: Write, tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text("{apiVersion: v1, kind: Service, metadata: {name: 's-{{.Index}}'}}")
    path = write(
        "{opcode: createAny, templatePath: service.yaml, namespace: mine}",
        "{opcode: updateAny, templatePath: service.yaml, namespace: mine, count: 2}",
        MEASURED,
    )
    found = plan(path)
    assert [step.count for step in found.operations if isinstance(step, CreateAny | UpdateAny)] == [1, 2]
    names = [made["metadata"]["name"] for made in found.templates["service.yaml"].objects(2)]
    assert names == ["s-0", "s-1"]


def test_nodes_are_labelled_and_given_amounts_as_strategies_say(write: Write) -> None:
    path = write(
        "{opcode: createNodes, count: 1, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}",
        "{opcode: createNodes, count: 1, nodeAllocatableStrategy: {csiNodeAllocatable: {some.driver: {count: 3}}}}",
        MEASURED,
    )
    first, second = (step for step in plan(path).operations if isinstance(step, CreateNodes))
    assert first.label_node_prepare_strategy == LabelNodes(label_key="zone", label_values=("a", "b"))
    assert second.node_allocatable_strategy is not None
    assert second.node_allocatable_strategy.csi_node_allocatable["some.driver"].count == 3


def test_feature_gates_of_the_size_win_over_those_of_the_case(write: Write) -> None:
    path = write(MEASURED, case="featureGates: {One: true, Two: true}", size="featureGates: {Two: false}\nthreshold: 5")
    assert plan(path).feature_gates == {"One": True, "Two": False}


def test_scheduler_configuration_is_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "scheduler.yaml").write_text("{percentageOfNodesToScore: 7}")
    assert plan(write(MEASURED, case="schedulerConfigPath: scheduler.yaml")).scheduler_config == {
        "percentageOfNodesToScore": 7
    }
    with pytest.raises(WorkloadError, match=r"no\.yaml: No such file"):
        read(write(MEASURED, case="schedulerConfigPath: no.yaml"))


def test_rate_is_part_of_the_name(write: Write) -> None:
    found = plan(write(MEASURED))
    assert (found.full_name, found.at_rate(9.0, "9 pods/s").full_name) == ("Some/5Nodes", "Some/5Nodes at 9 pods/s")


@pytest.mark.parametrize(("written", "expected"), [("2s", 2.0), ("1m30s", 90.0), ("250ms", 0.25), ("1.5h", 5400.0)])
def test_durations_are_go_s(written: str, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected)


# --- what is refused ---


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("{opcode: makeTea, count: 1}", "workloadTemplate[0].opcode: 'makeTea' is not known, expected one of createNo"),
        ("{count: 1}", "missing required field `opcode` - at `$[0].workloadTemplate[0]`"),
        ("{opcode: createNodes, count: 1, colour: red}", "unknown field `colour` - at `$[0].workloadTemplate[0]`"),
        ("{opcode: createNodes, count: many}", "Expected `int`, got `str` - at `$[0].workloadTemplate[0].count`"),
        ("{opcode: createNodes}", "workloadTemplate[0].count: expected at least 1, or countParam, got 0"),
        ("{opcode: createNodes, countParam: $no}", "countParam: no parameter 'no', the size has some, text"),
        ("{opcode: createNodes, countParam: some}", "countParam: expected $ and the name of a parameter, got 'some'"),
        (
            "{opcode: createNodes, countParam: $text}",
            "countParam: expected a parameter that is a whole number, got 'x'",
        ),
        ("{opcode: createPods, count: 1, collectMetrics: true, skipWaitToCompletion: true}", "collectMetrics: pods th"),
        ("{opcode: createPods, count: 1, podTemplatePath: no.yaml}", "template {folder}/no.yaml: No such file"),
        ("{opcode: churn, mode: shuffle, templatePaths: [a]}", "Invalid enum value 'shuffle'"),
        ("{opcode: churn, mode: create, templatePaths: []}", "templatePaths: expected at least one"),
        ("{opcode: churn, mode: recreate, templatePaths: [a]}", "number: 0 is too small with mode recreate"),
        (
            "{opcode: churn, mode: create, templatePaths: [a], intervalMilliseconds: 0}",
            "intervalMilliseconds: expected at least 1, got 0",
        ),
        ("{opcode: barrier, stageRequirement: Bound}", "Invalid enum value 'Bound'"),
        ("{opcode: barrier, namespaces: [nowhere]}", "no pods were created in namespace 'nowhere'"),
        ("{opcode: deletePods, namespace: nowhere}", "no pods were created in namespace 'nowhere'"),
        ("{opcode: deletePods, namespace: n, deletePodsPerSecond: -1}", "expected no negative number, got -1"),
        ("{opcode: sleep, duration: 5}", "Expected `str`, got `int`"),
        ("{opcode: sleep, duration: 5x}", "duration: expected one such as 500ms or 1m30s, got '5x'"),
        ("{opcode: createAny, templatePath: ''}", "templatePath: expected a path"),
        ("{opcode: createPodSets, count: 1, createPodsOp: {count: 1}}", "missing required field `namespacePrefix`"),
        ("{opcode: createPodSets, namespacePrefix: n, count: 1, createPodsOp: {}}", "count: expected at least 1"),
        ("{opcode: createPods, count: 1, steadyState: true}", "steadyState: pods that are replaced"),
        ("{opcode: createPods, count: 1, persistentVolumeTemplatePath: a}", "expected with persistentVolumeClaimTem"),
        ("{opcode: allocResourceClaims}", "allocResourceClaims needs a driver of dynamic resources, which is not ther"),
        ("{opcode: stopCollectingMetrics}", "measurements overlap, or end before they begin"),
        ("{opcode: createPods, count: 1, collectMetrics: true}", "expected one measurement"),
    ],
)
def test_what_is_not_understood_names_file_and_field(write: Write, operation: str, message: str) -> None:
    path = write(operation, MEASURED, params="{some: 1, text: x}")
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert message.replace("{folder}", str(path.parent)) in str(raised.value)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{apiVersion: v1, kind: Pod, metadata: {name: 'p-{{range .Index}}'}}", "'range' is not known"),
        ("{apiVersion: v1, kind: Node, metadata: {name: a}}", "expected kind Pod, got Node"),
        ("[]", "expected an object with apiVersion, kind and metadata"),
        ("{kind: Pod, metadata: {name: a}}", "apiVersion is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {}}", "metadata.name or metadata.generateName is missing"),
        ("{", "no YAML"),
    ],
)
def test_template_that_is_no_object_is_refused(write: Write, tmp_path: Path, template: str, message: str) -> None:
    (tmp_path / "pod.yaml").write_text(template)
    with pytest.raises(WorkloadError, match=message):
        read(write("{opcode: createPods, count: 1, podTemplatePath: pod.yaml}", MEASURED))


def test_unknown_field_of_case_and_size_is_refused(write: Write) -> None:
    with pytest.raises(WorkloadError, match=r"unknown field `colour` - at `\$\[0\]`"):
        read(write(MEASURED, case="colour: red"))
    with pytest.raises(WorkloadError, match=r"unknown field `colour` - at `\$\[0\]\.workloads\[0\]`"):
        read(write(MEASURED, size="colour: red"))


def test_unknown_case_and_size_name_what_there_is(write: Write) -> None:
    suite = Suite([write(MEASURED)])
    with pytest.raises(WorkloadError, match="no workload 'Other', expected one of Some"):
        suite.plan("Other", "5Nodes")
    with pytest.raises(WorkloadError, match=r"Some has no size '9Nodes', expected one of 5Nodes \[small\]"):
        suite.plan("Some", "9Nodes")


def test_same_case_in_two_files_is_refused(write: Write, tmp_path: Path) -> None:
    path = write(MEASURED)
    other = tmp_path / "other.yaml"
    other.write_text(path.read_text())
    with pytest.raises(WorkloadError, match=f"{other}: case Some is also in {path}"):
        Suite([path, other])


@pytest.mark.parametrize("text", ["", "a: b", "- just words", dedent("- name: Some\n  workloads: []\n")])
def test_file_that_is_no_list_of_cases_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=f"^{path}: "):
        read(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"nothing\.yaml: No such file"):
        read(tmp_path / "nothing.yaml")
