"""Every refusal of kube-scheduler, in its words."""

from __future__ import annotations

import pytest

from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from tests.config.documents import read, refusal
from tests.config.faulty_documents import ARGS, FIT, GENERAL


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
@pytest.mark.parametrize("case", GENERAL)
def test_a_wrong_general_part_is_refused_in_kube_schedulers_words(case: str, release: Release) -> None:
    body, message = GENERAL[case]
    assert refusal(body, release=release) == message


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
@pytest.mark.parametrize("case", ARGS)
def test_wrong_plugin_arguments_are_refused_in_kube_schedulers_words(case: str, release: Release) -> None:
    plugin, args, message = ARGS[case]
    body = args_of(plugin, args)
    if case in SHAPES and release.has("StorageCapacityScoring"):
        assert read(body, release)
    else:
        assert refusal(body, release=release) == f"profiles[0].pluginConfig[0].args.{message}"


SHAPES = ("volume shape", "empty volume shape")  # they are wrong only without StorageCapacityScoring


def args_of(plugin: str, args: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("[{utilization: 101, score: 0}]", "[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
        ("[{utilization: 0, score: 11}]", "[0].score: Invalid value: 11: not in valid range [0, 10]"),
        (
            "[{utilization: 5, score: 1}, {utilization: 5, score: 2}]",
            "[1].utilization: Invalid value: 5: values must be sorted in increasing order",
        ),
    ],
)
@pytest.mark.parametrize("release", [RELEASE_1_37, RELEASE_1_36.with_gates({"StorageCapacityScoring": True})])
def test_the_shape_of_volume_scores_is_checked_where_it_is_allowed(release: Release, shape: str, message: str) -> None:
    body = args_of("VolumeBinding", f"{{shape: {shape}}}")
    assert refusal(body, release=release) == f"profiles[0].pluginConfig[0].args.shape{message}"


def test_the_shape_of_volume_scores_is_refused_with_the_gate_off() -> None:
    body = args_of("VolumeBinding", "{shape: [{utilization: 0, score: 0}]}")
    release = RELEASE_1_37.with_gates({"StorageCapacityScoring": False})
    assert "remove it or turn on the feature gate StorageCapacityScoring" in refusal(body, release=release)


@pytest.mark.parametrize("case", FIT)
def test_wrong_fit_arguments_are_refused_when_the_plugin_is_built(case: str) -> None:
    args, message = FIT[case]
    body = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]"
    assert refusal(body) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        f'initializing plugin "NodeResourcesFit": {message}'
    )


def test_preemption_without_candidates_is_refused_under_both_fields() -> None:
    body = """
        profiles:
        - pluginConfig:
          - name: DefaultPreemption
            args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}
        """
    path = "profiles[0].pluginConfig[0].args"
    assert refusal(body) == (
        f"[{path}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
        f"minCandidateNodesAbsolute, {path}.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same "
        "time as minCandidateNodesPercentage]"
    )


def test_numbers_of_preemption_outside_their_ranges_are_refused() -> None:
    body = """
        profiles:
        - pluginConfig:
          - name: DefaultPreemption
            args: {minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}
        """
    path = "profiles[0].pluginConfig[0].args"
    assert refusal(body) == (
        f"[{path}.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100], "
        f"{path}.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)]"
    )


def test_an_empty_spread_constraint_is_refused_field_by_field() -> None:
    body = """
        profiles:
        - pluginConfig:
          - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{}]}}
        """
    path = "profiles[0].pluginConfig[0].args.defaultConstraints[0]"
    assert refusal(body) == (
        f"[{path}.maxSkew: Invalid value: 0: not in valid range (0, inf), "
        f"{path}.topologyKey: Required value: can not be empty, "
        f"{path}.whenUnsatisfiable: Required value: can not be empty]"
    )


@pytest.mark.parametrize(
    "body",
    [
        "profiles: []",
        "parallelism: 3.0",
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuring"
        "Execution: {nodeSelectorTerms: [{matchFields: [{key: a, operator: In, values: [x]}]}]}}}}]}]",
        "leaderElection: {leaderElect: false, leaseDuration: 1s, resourceLock: endpoints}",
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {}}}]}]",
        "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 0s}}]}]",
        "clientConnection: {qps: -1}",
        "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 2147483647}]}}}]",
        "extenders: [{urlPrefix: 'http://x', bindVerb: b, managedResources: [{name: example.com/gpu}]}]",
    ],
)
def test_what_kube_scheduler_accepts_is_accepted(body: str) -> None:
    read(body)


@pytest.mark.parametrize("name", ["kubernetes.io/x", "a.kubernetes.io/x", "requests.a/b", "gpu"])
def test_a_native_resource_is_no_extended_one(name: str) -> None:
    message = refusal(f"extenders: [{{managedResources: [{{name: {name}}}]}}]")
    assert message.endswith("is an invalid extended resource name")


@pytest.mark.parametrize("name", ["", "a//b", "/b", "-a/b", "a/-b", "a/b/c", "A/b", "a/" + "b" * 64])
def test_a_malformed_resource_name_is_refused(name: str) -> None:
    assert "extenders[0].managedResources[0].name: Invalid value:" in refusal(
        f"extenders: [{{managedResources: [{{name: '{name}'}}]}}]"
    )


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (
            "{key: a, operator: In}",
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        ("{key: a, operator: Exists, values: [x]}", 'values: Invalid value: ["x"]: values set must be empty'),
        ("{key: a, operator: Gt, values: [x]}", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value"),
        (
            "{key: a, operator: Lt, values: ['1', '2']}",
            "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators",
        ),
        ("{key: a, operator: Gt, values: ['9223372036854775808']}", 'values[0]: Invalid value: "9223372036854775808"'),
        ("{key: a, operator: In, values: [x, -x]}", 'values[1][a]: Invalid value: "-x": a valid label must be'),
        ("{key: a, operator: Gt}", "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value"),
        ("{key: '', operator: Exists}", 'key: Invalid value: "": name part must be non-empty; name part must'),
        ("{key: -a, operator: Exists}", 'key: Invalid value: "-a": name part must consist'),
    ],
)
def test_a_malformed_node_selector_requirement_is_refused(requirement: str, message: str) -> None:
    term = f"{{weight: 1, preference: {{matchExpressions: [{requirement}]}}}}"
    affinity = f"{{preferredDuringSchedulingIgnoredDuringExecution: [{term}]}}"
    body = f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {{addedAffinity: {affinity}}}}}]}}]"
    path = "profiles[0].pluginConfig[0].args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
    assert refusal(body).startswith(f"{path}.matchExpressions[0].{message}")
