"""The arguments of Queues are checked, and are the same in all profiles."""

from __future__ import annotations

import pytest

from kscheduler.config.load import default_config, parse_config
from kscheduler.config.queues import QueuesArgs, keeps_queues, queues_args
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
PROFILE = (
    "- {schedulerName: %s, plugins: {preFilter: {enabled: [{name: Queues}]}}, "
    "pluginConfig: [{name: Queues, args: {%s}}]}\n"
)


def parse(*args: str) -> SchedulerConfig:
    return parse_config(HEAD + "".join(PROFILE % (f"s{number}", text) for number, text in enumerate(args)))


def test_without_the_plugin_no_queues_are_kept() -> None:
    assert not keeps_queues(default_config())


def test_arguments_are_read() -> None:
    config = parse(
        "file: q.yaml, defaultQueue: d, nonPreemptiblePriority: 7, saturationMultiplier: 1.5, "
        "maxConsolidationVictims: 3"
    )
    assert keeps_queues(config)
    assert queues_args(config) == QueuesArgs(
        file="q.yaml",
        default_queue="d",
        non_preemptible_priority=7,
        saturation_multiplier=1.5,
        max_consolidation_victims=3,
    )
    assert queues_args(parse("")) == QueuesArgs()


@pytest.mark.parametrize("multiplier", ["0.5", "-1"])
def test_a_multiplier_below_one_is_refused(multiplier: str) -> None:
    with pytest.raises(ConfigError, match=r"saturationMultiplier.*must be a number of at least 1"):
        parse(f"saturationMultiplier: {multiplier}")


def test_a_negative_number_of_pods_to_move_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"maxConsolidationVictims.*must be a number of at least 0"):
        parse("maxConsolidationVictims: -1")


def test_profiles_may_not_differ() -> None:
    assert queues_args(parse("defaultQueue: d", "defaultQueue: d")).default_queue == "d"
    with pytest.raises(ConfigError, match='expected the same in all profiles, got others in "s0", "s1"'):
        queues_args(parse("defaultQueue: d", "defaultQueue: e"))
