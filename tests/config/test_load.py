"""Strict decoding: what a file may not say, and how the refusal names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.config.extension_points import ExtensionPoint
from kscheduler.config.load import load_config, parse_config
from kscheduler.config.types import NodeAffinityArgs, NodeResourcesFitArgs, VolumeBindingArgs
from kscheduler.errors import ConfigError
from tests.config.documents import HEAD, read, refusal


def test_a_misspelt_field_is_refused_with_its_path() -> None:
    message = refusal("leaderElection: {leaseDurationn: 15s}")
    assert message == 'strict decoding error: unknown field "leaderElection.leaseDurationn"'


def test_all_unknown_fields_are_named_at_once_those_of_plugin_arguments_too() -> None:
    message = refusal(
        """
        foo: 1
        profiles:
        - plugins: {score: {enabled: [{nam: x}]}}
          pluginConfig:
          - name: NodeAffinity
            args: {bar: 1}
        """
    )
    assert message == (
        'strict decoding error: unknown field "foo", unknown field "profiles[0].plugins.score.enabled[0].nam", '
        "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: "
        'strict decoding error: unknown field "bar"'
    )


def test_case_matters() -> None:
    assert refusal("Parallelism: 3") == 'strict decoding error: unknown field "Parallelism"'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("parallelism: x", 'parallelism: expected an integer, got the string "x"'),
        ("parallelism: 1.5", "parallelism: expected an integer, got the number 1.5"),
        ("parallelism: true", "parallelism: expected an integer, got true"),
        ("parallelism: 2147483648", "parallelism: expected an integer of 32 bits, got the integer 2147483648"),
        ("enableProfiling: 1", "enableProfiling: expected true or false, got the integer 1"),
        ("profiles: {}", "profiles: expected a list, got a mapping"),
        ("profiles: [x]", "profiles[0]: expected a mapping, got a string"),
        ("leaderElection: []", "leaderElection: expected a mapping, got a list"),
        ("clientConnection: {qps: fast}", 'clientConnection.qps: expected a number, got the string "fast"'),
        ("clientConnection: {kubeconfig: 1}", "clientConnection.kubeconfig: expected a string, got the integer 1"),
        (
            "leaderElection: {leaseDuration: 15}",
            'leaderElection.leaseDuration: expected a duration such as "15s", got the integer 15',
        ),
        (
            "leaderElection: {leaseDuration: 15 s}",
            'leaderElection.leaseDuration: expected a duration such as "15s" or "1m30s", got "15 s"',
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: 3}]}]",
            "decoding .profiles[0].pluginConfig[0]: args: expected a mapping, got a number",
        ),
        (
            "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 1s}}]}]",
            "decoding .profiles[0].pluginConfig[0]: decoding args for plugin VolumeBinding: "
            'bindTimeoutSeconds: expected an integer, got the string "1s"',
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_path_expectation_and_value(body: str, message: str) -> None:
    assert refusal(body) == message


def test_several_wrong_types_and_unknown_fields_come_together() -> None:
    assert refusal("parallelism: x\nprofiles: 3\nfoo: 1") == (
        '[parallelism: expected an integer, got the string "x", profiles: expected a list, got a number, '
        'strict decoding error: unknown field "foo"]'
    )


def test_a_document_that_holds_itself_is_refused() -> None:
    body = "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: &a {addedAffinity: *a}\n"
    assert refusal(body).endswith("line 6, column 30: an anchor's value contains itself")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            "kind: KubeSchedulerConfiguration\n",
            'apiVersion: expected "kubescheduler.config.k8s.io/v1", but it is missing',
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\n",
            'kind: expected "KubeSchedulerConfiguration", but it is missing',
        ),
        ("apiVersion: 1\nkind: KubeSchedulerConfiguration\n", "apiVersion: expected "),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n",
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"',
        ),
        ("apiVersion: v1\nkind: Pod\n", 'no kind "Pod" is registered for version "v1"'),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: VolumeBindingArgs\n",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind=VolumeBindingArgs",
        ),
    ],
)
def test_another_kind_or_version_is_refused(head: str, message: str) -> None:
    assert refusal("", head=head).startswith(message)


def test_arguments_of_another_plugin_are_refused() -> None:
    message = refusal(
        """
        profiles:
        - pluginConfig:
          - name: NodeAffinity
            args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}
        """
    )
    assert message == (
        "decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type "
        "NodeAffinityArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"
    )


def test_null_means_absent() -> None:
    assert read("parallelism: null\nprofiles:\nleaderElection: null") == read()


def test_arguments_may_leave_out_apiversion_and_kind() -> None:
    config = read("profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]}]")
    assert config.profiles[0].args("VolumeBinding", VolumeBindingArgs).bind_timeout_seconds == 5


def test_arguments_of_a_plugin_that_is_not_kube_schedulers_stay_as_they_are() -> None:
    config = read("profiles: [{pluginConfig: [{name: Mine, args: {anything: [1, {x: z}]}}]}]")
    assert config.profiles[0].raw_args("Mine") == {"anything": [1, {"x": "z"}]}


def test_asking_for_arguments_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected NodeResourcesFitArgs, got NodeAffinityArgs"):
        read().profiles[0].args("NodeAffinity", NodeResourcesFitArgs)


def test_a_plugin_without_entry_has_its_default_arguments() -> None:
    config = read("profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}}]")
    assert config.profiles[0].raw_args("NodeAffinity") is None
    assert config.profiles[0].args("NodeAffinity", NodeAffinityArgs) == NodeAffinityArgs()


def test_a_plugin_that_exists_nowhere_is_refused_unless_registered() -> None:
    body = "profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]"
    assert refusal(body).endswith('ScorePlugin "Mine" does not exist')
    extra = {"Mine": frozenset({ExtensionPoint.SCORE})}
    config = parse_config(HEAD + body, find_plugins=lambda config: extra)
    assert config.profiles[0].plugins.score.enabled[0].name == "Mine"


def test_a_file_is_named_in_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + "parallelism: 0\n")
    with pytest.raises(ConfigError) as caught:
        load_config(str(path))
    assert str(caught.value).startswith(f"{path}: parallelism: ")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + "parallelism: 3\n")
    assert load_config(str(path)).parallelism == 3
