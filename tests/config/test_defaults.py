"""What is filled in where a file says nothing, or zero."""

from __future__ import annotations

import pytest

from kscheduler.config.defaults import apply_defaults, default_plugins
from kscheduler.config.dump import to_v1
from kscheduler.config.load import default_config
from kscheduler.config.releases import DEFAULT_RELEASE
from kscheduler.config.types import (
    PLUGIN_ARGS,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
)
from tests.config.documents import read


def test_an_empty_file_means_kube_schedulers_defaults() -> None:
    config = read()
    assert config == default_config()
    assert config.parallelism == 16
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert config.client_connection.content_type == "application/vnd.kubernetes.protobuf"
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    election = config.leader_election
    assert [str(span) for span in (election.lease_duration, election.renew_deadline, election.retry_period)] == [
        "15s",
        "10s",
        "2s",
    ]
    assert (election.resource_lock, election.resource_namespace, election.resource_name) == (
        "leases",
        "kube-system",
        "kube-scheduler",
    )


def test_zero_means_the_default_where_kube_scheduler_takes_it_so() -> None:
    body = "leaderElection: {leaseDuration: 0s, resourceName: ''}\nclientConnection: {qps: 0, burst: 0}"
    assert read(body) == default_config()


def test_a_single_profile_without_name_is_the_default_scheduler() -> None:
    assert read("profiles: [{}]").profiles[0].scheduler_name == "default-scheduler"
    assert read("profiles: [null]").profiles[0].scheduler_name == "default-scheduler"


def test_defaults_applied_twice_change_nothing_more() -> None:
    body = """
        profiles:
        - plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}], disabled: [{name: ImageLocality}]}}
          pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: gpu}]}}]
        extenders: [{urlPrefix: http://x}]
        """
    assert apply_defaults(read(body)) == read(body)


def test_a_default_plugin_named_again_keeps_its_place_and_takes_the_new_weight() -> None:
    config = read("profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}}]")
    enabled = config.profiles[0].plugins.multi_point.enabled
    assert [plugin.name for plugin in enabled] == [plugin.name for plugin in default_plugins(DEFAULT_RELEASE)]
    assert next(plugin.weight for plugin in enabled if plugin.name == "NodeAffinity") == 7


def test_disabling_all_leaves_only_what_the_profile_enables() -> None:
    body = """
        profiles:
        - plugins:
            multiPoint:
              enabled: [{name: PrioritySort}, {name: DefaultBinder}]
              disabled: [{name: "*"}]
        """
    enabled = read(body).profiles[0].plugins.multi_point.enabled
    assert [plugin.name for plugin in enabled] == ["PrioritySort", "DefaultBinder"]


def test_every_enabled_plugin_with_arguments_gets_an_entry_in_order_of_name() -> None:
    names = [entry.name for entry in default_config().profiles[0].plugin_config]
    assert names == sorted(PLUGIN_ARGS)


def test_given_entries_come_first() -> None:
    config = read("profiles: [{pluginConfig: [{name: VolumeBinding, args: {}}, {name: Mine, args: {}}]}]")
    names = [entry.name for entry in config.profiles[0].plugin_config]
    assert names[:3] == ["VolumeBinding", "Mine", "DefaultPreemption"]
    assert len(names) == len(PLUGIN_ARGS) + 1


def test_resources_without_weight_weigh_one_and_no_resources_means_cpu_and_memory() -> None:
    body = """
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args: {scoringStrategy: {type: MostAllocated, resources: [{name: gpu}]}}
          - name: NodeResourcesBalancedAllocation
            args: {resources: []}
        """
    profile = read(body).profiles[0]
    fit = profile.args("NodeResourcesFit", NodeResourcesFitArgs)
    assert fit.scoring_strategy.resources == (ResourceSpec(name="gpu", weight=1),)
    balanced = profile.args("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs)
    assert [resource.name for resource in balanced.resources] == ["cpu", "memory"]


def test_the_fit_strategy_is_least_allocated_and_spreading_is_systems() -> None:
    profile = default_config().profiles[0]
    assert profile.args("NodeResourcesFit", NodeResourcesFitArgs).scoring_strategy.type == "LeastAllocated"
    assert profile.args("PodTopologySpread", PodTopologySpreadArgs).defaulting_type == "System"


@pytest.mark.parametrize(("given", "shown"), [("", "5s"), (", httpTimeout: 0s", "5s"), (", httpTimeout: -1s", "-1s")])
def test_an_extender_has_five_seconds_as_kube_scheduler_writes_its_configuration(given: str, shown: str) -> None:
    config = read(f"extenders: [{{urlPrefix: http://x{given}}}]")
    assert to_v1(config)["extenders"][0]["httpTimeout"] == shown
