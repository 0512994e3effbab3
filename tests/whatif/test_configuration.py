"""Weights, plugins and values are changed in all profiles of a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.config.extension_points import ExtensionPoint
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.whatif.configuration import ConfigurationChanges, changed_config, parse_value, parse_weight

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def changed(config: SchedulerConfig | None = None, **changes: Any) -> SchedulerConfig:
    guests = GuestPlugins(cache_dir=None, reloads=False)
    return changed_config(config or default_config(), ConfigurationChanges(**changes), guests)


def weights(config: SchedulerConfig, profile: int = 0) -> dict[str, int]:
    return dict(effective_plugins(config.profiles[profile], known_plugins(config))[ExtensionPoint.SCORE])


def test_without_changes_it_is_the_same_configuration() -> None:
    config = default_config()
    assert changed(config) is config


def test_a_weight_is_changed_and_no_other() -> None:
    expected = weights(default_config()) | {"NodeResourcesFit": 5}
    assert weights(changed(weights=(("NodeResourcesFit", 5),))) == expected


def test_a_weight_is_changed_where_it_counts() -> None:
    """An entry of the extension point overrides the one of multiPoint."""
    config = parse_config(HEAD + "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 7}]}}}]\n")
    assert weights(config)["NodeAffinity"] == 7
    assert weights(changed(config, weights=(("NodeAffinity", 9),)))["NodeAffinity"] == 9


def test_all_profiles_are_changed() -> None:
    config = parse_config(HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    found = changed(config, weights=(("NodeAffinity", 9),))
    assert [weights(found, index)["NodeAffinity"] for index in (0, 1)] == [9, 9]


def test_a_plugin_is_disabled_and_enabled_again() -> None:
    without = changed(disabled=("ImageLocality",))
    assert "ImageLocality" not in weights(without)
    assert weights(changed(without, enabled=("ImageLocality",))) == weights(default_config())


def test_a_plugin_that_was_not_there_is_enabled_with_a_weight() -> None:
    found = changed(
        enabled=("NodeResourcesBalancedAllocation",),
        weights=(("NodeResourcesBalancedAllocation", 4),),
    )
    assert weights(found)["NodeResourcesBalancedAllocation"] == 4


def test_a_value_is_set_by_its_path() -> None:
    path = "profiles[0].pluginConfig[name=NodeResourcesFit].args.scoringStrategy.type"
    found = changed(values=((path, "MostAllocated"), ("podMaxBackoffSeconds", 5)))
    assert found.pod_max_backoff_seconds == 5
    (fit,) = (entry.args for entry in found.profiles[0].plugin_config if entry.name == "NodeResourcesFit")
    assert fit.scoring_strategy.type == "MostAllocated"


def test_texts_are_parsed() -> None:
    assert parse_weight("--weight", "my.module:Plugin=12") == ("my.module:Plugin", 12)
    assert parse_value("--set", "a[name=b].c=d=e") == ("a[name=b].c", "d=e")
    assert parse_value("--set", "a=[1, true]") == ("a", [1, True])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"weights": (("NodeResourceFit", 5),)},
            '--weight: unknown plugin "NodeResourceFit": did you mean "NodeResourcesFit"?',
        ),
        ({"enabled": ("ImageLocalty",)}, '--plugin: unknown plugin "ImageLocalty": did you mean "ImageLocality"?'),
        ({"disabled": ("Nothing",)}, '--no-plugin: unknown plugin "Nothing": expected one of'),
        (
            {"weights": (("NodeUnschedulable", 2),)},
            'expected a plugin that scores in a profile, got "NodeUnschedulable"',
        ),
        ({"disabled": ("DefaultBinder",)}, "the changed configuration: "),
        (
            {"values": (("podMaxBackofSeconds", 5),)},
            'the changed configuration: strict decoding error: unknown field "podMaxBackofSeconds"',
        ),
        ({"values": (("profiles.x", 5),)}, 'the changed configuration: patches["profiles.x"]: '),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        changed(**changes)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text", ["NodeAffinity", "=3", "NodeAffinity=0", "NodeAffinity=-1", "NodeAffinity=1.5", "x=9999999999"]
)
def test_a_malformed_weight_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match="--weight: expected a plugin and its weight, such as NodeResourcesFit=5, got"
    ):
        parse_weight("--weight", text)


@pytest.mark.parametrize("text", ["a", "=3", "a[x=1]", "a b=1", "a=[1"])
def test_a_malformed_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--set: "):
        parse_value("--set", text)
