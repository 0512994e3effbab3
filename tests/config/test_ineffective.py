"""Fields that are accepted and have no effect are named, if they differ from what most files have."""

from __future__ import annotations

import pytest

from kscheduler.config.ineffective import idle_arguments, ineffective_fields
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_37, RELEASES, Release
from tests.config.documents import HEAD


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_the_defaults_have_no_ineffective_fields(release: Release) -> None:
    assert ineffective_fields(default_config(release)) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("parallelism: 32", "parallelism has no effect: kernels look at all nodes"),
        (
            "clientConnection: {contentType: application/json}",
            "clientConnection.contentType has no effect: each request has the type that suits it",
        ),
        (
            "clientConnection: {acceptContentTypes: application/json}",
            "clientConnection.acceptContentTypes has no effect: each request has the type that suits it",
        ),
        (
            "profiles: [{schedulerName: a}, "
            "{schedulerName: b, plugins: {podGroupPostFilter: {disabled: [{name: '*'}]}}}]",
            "profiles[1].plugins.podGroupPostFilter has no effect: the plugins of postFilter serve PodGroups, too",
        ),
        (
            "profiles: [{pluginConfig: [{name: Coscheduling, args: {podGroupBackoffSeconds: 10}}]}]",
            "profiles[0].pluginConfig[0].args.podGroupBackoffSeconds has no effect: "
            "a gang that does not fit waits for an event",
        ),
        (
            "profiles: [{pluginConfig: [{name: X, args: {guestURL: 'file:///x', sha256: aa, reloadInterval: 5s}}]}]",
            "profiles[0].pluginConfig[0].args.reloadInterval has no effect: sha256 allows this version alone",
        ),
        (
            "extenders: [{urlPrefix: 'http://127.0.0.1:8888'}]",
            "extenders[0] has no verb, such as filterVerb, so it is never asked",
        ),
    ],
)
def test_a_field_without_effect_is_named_with_the_reason(body: str, text: str) -> None:
    assert text in ineffective_fields(parse_config(HEAD + body + "\n", release=RELEASE_1_37))


def test_fields_with_an_effect_are_not_named() -> None:
    extender = "{urlPrefix: 'http://x', filterVerb: f}"
    body = f"percentageOfNodesToScore: 50\nclientConnection: {{qps: 7}}\nextenders: [{extender}]"
    assert ineffective_fields(parse_config(HEAD + body + "\n")) == []


def test_arguments_of_a_plugin_that_the_profile_does_not_enable_are_found() -> None:
    profile = """
- schedulerName: {}
  plugins: {{multiPoint: {{enabled: [{{name: {}}}]}}}}
  pluginConfig: [{{name: MetricPolicy, args: {{}}}}, {{name: NodeResourcesFit, args: {{}}}}, {{name: Mine, args: {{}}}}]
"""
    config = parse_config(
        HEAD + "profiles:" + profile.format("idle", "ImageLocality") + profile.format("busy", "MetricPolicy")
    )
    assert idle_arguments(config) == [("idle", "MetricPolicy"), ("idle", "Mine"), ("busy", "Mine")]
