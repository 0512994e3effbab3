"""A profile enables Coscheduling as with scheduler-plugins; its arguments are checked."""

from __future__ import annotations

import pytest

from kscheduler.assembly import check_supported
from kscheduler.config.coscheduling import (
    CoschedulingArgs,
    longest_wait_s,
    reserves_after_s,
    schedules_by_label,
    schedules_gangs,
)
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
AS_DOCUMENTED = (
    "profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, "
    'queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}%s}]\n'
)


def parse(args: str = "") -> SchedulerConfig:
    configured = f", pluginConfig: [{{name: Coscheduling, args: {{{args}}}}}]" if args else ""
    return parse_config(HEAD + AS_DOCUMENTED % configured)


def test_a_profile_enables_it_as_scheduler_plugins_documents() -> None:
    config = parse("permitWaitingTimeSeconds: 10, podGroupBackoffSeconds: 5")
    check_supported(config)
    assert schedules_by_label(config)
    assert config.profiles[0].args("Coscheduling", CoschedulingArgs) == CoschedulingArgs(
        permit_waiting_time_seconds=10, pod_group_backoff_seconds=5
    )
    assert longest_wait_s(config) == 10


def test_without_arguments_the_defaults_are_scheduler_plugins() -> None:
    assert longest_wait_s(parse()) == 60
    assert longest_wait_s(parse("permitWaitingTimeSeconds: 0")) == 60


def test_no_room_is_reserved_unless_a_time_is_set() -> None:
    assert reserves_after_s(parse()) is None
    assert reserves_after_s(parse("reserveAfterSeconds: 0")) is None
    assert reserves_after_s(parse("reserveAfterSeconds: 90")) == 90


def test_negative_times_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"permitWaitingTimeSeconds: Invalid value: -1: must be zero or positive"):
        parse("permitWaitingTimeSeconds: -1")


def test_gangs_are_scheduled_only_where_a_plugin_or_gates_ask_for_it() -> None:
    assert not schedules_gangs(default_config())
    assert not schedules_gangs(default_config(RELEASE_1_36.with_gates({"GenericWorkload": True})))
    both = {"GenericWorkload": True, "GangScheduling": True}
    assert schedules_gangs(default_config(RELEASE_1_36.with_gates(both)))
    assert schedules_gangs(default_config(RELEASE_1_37.with_gates({"GenericWorkload": True})))


def test_extenders_that_take_part_in_decisions_are_refused_beside_gangs() -> None:
    text = HEAD + AS_DOCUMENTED % "" + 'extenders: [{urlPrefix: "http://127.0.0.1:1", %s, weight: 1}]\n'
    check_supported(parse_config(text % "bindVerb: bind"))
    with pytest.raises(ConfigError, match="expected none that filter, prioritize or preempt beside gangs"):
        check_supported(parse_config(text % "filterVerb: filter"))
