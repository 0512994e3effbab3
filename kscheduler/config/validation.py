"""Validates a complete configuration with kube-scheduler's error messages and order: the general part and the profiles.

Each function returns the messages of all errors it finds. Plugin arguments are validated in `args_validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.config.args_validation import validators
from kscheduler.config.field_errors import duplicate, go_value, invalid, required
from kscheduler.config.live_metrics import names_live_metrics
from kscheduler.config.plugin_args import ALL_ARGS
from kscheduler.config.releases import Release
from kscheduler.config.secrets import shown_arguments
from kscheduler.config.types import (
    ClientConnection,
    Extender,
    LeaderElection,
    PluginSet,
    Profile,
    SchedulerConfig,
)
from kscheduler.input.names import qualified_name_faults

# Volume plugins that kube-scheduler merged into NodeVolumeLimits.
REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


def validate(config: SchedulerConfig) -> list[str]:
    """Return all errors of a configuration whose defaults are set; [] if it is valid."""
    faults = validate_client_connection(config.client_connection)
    faults += validate_leader_election(config.leader_election)
    if config.parallelism <= 0:
        faults.append(invalid("parallelism", config.parallelism, "should be an integer value greater than zero"))
    faults += validate_profiles(config)
    faults += _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    faults += _validate_backoff(config)
    faults += validate_extenders(config.extenders)
    return faults


# --- general part -----------------------------------------------------------------------------------------------


def validate_client_connection(value: ClientConnection) -> list[str]:
    if value.burst < 0:
        return [invalid("clientConnection.burst", value.burst, "must be non-negative")]
    return []


def validate_leader_election(value: LeaderElection) -> list[str]:
    """Return the errors of the leader election settings; none if leader election is off."""
    if not value.leader_elect:
        return []
    path = "leaderElection"
    spans = {"leaseDuration": value.lease_duration, "renewDeadline": value.renew_deadline}
    spans["retryPeriod"] = value.retry_period
    faults = [
        invalid(f"{path}.{name}", span, "must be greater than zero")
        for name, span in spans.items()
        if span.nanoseconds <= 0
    ]
    if value.lease_duration <= value.renew_deadline:
        # kube-scheduler prints the deadline here, not the lease; kept so that messages compare equal.
        faults.append(invalid(f"{path}.leaseDuration", value.renew_deadline, "must be greater than `RenewDeadline`"))
    texts = {"resourceLock": value.resource_lock, "resourceNamespace": value.resource_namespace}
    texts["resourceName"] = value.resource_name
    faults += [required(f"{path}.{name}", f"{name} is required") for name, text in texts.items() if not text]
    if value.resource_lock != "leases":
        faults.append(invalid(f"{path}.resourceLock", value.resource_lock, 'resourceLock value must be "leases"'))
    return faults


def _validate_backoff(config: SchedulerConfig) -> list[str]:
    faults = []
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        faults.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        faults.append(invalid("podMaxBackoffSeconds", longest, detail))
    return faults


def _percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [invalid(path, value, "not in valid range [0-100]")]


# --- profiles ---------------------------------------------------------------------------------------------------


def validate_profiles(config: SchedulerConfig) -> list[str]:
    if not config.profiles:
        return [required("profiles")]
    faults: list[str] = []
    names: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        faults += validate_profile(path, profile, config.api_version, config.release)
        if profile.scheduler_name in names:
            faults.append(f"{path}.schedulerName: Duplicate value: {{}}")  # kube-scheduler prints no name here
        names.add(profile.scheduler_name)
    faults += validate_queue_sort(config.profiles)
    if names_live_metrics(config):
        from kscheduler.config.metric_policy_profiles import validate_metric_profiles

        faults += validate_metric_profiles(config.profiles)
    return faults


def validate_profile(path: str, profile: Profile, version: str, release: Release) -> list[str]:
    faults = [] if profile.scheduler_name else [required(f"{path}.schedulerName")]
    faults += _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in release.extension_points:  # not multiPoint, as kube-scheduler: there the name turns out unknown
        for index, plugin in enumerate(getattr(profile.plugins, point.field).enabled):
            faults += _removed(f"{path}.plugins.{point.value}.enabled[{index}]", plugin.name, version)
    return faults + _validate_plugin_config(path, profile, version, release)


def _removed(path: str, plugin: str, version: str) -> list[str]:
    if plugin not in REMOVED_PLUGINS:
        return []
    detail = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{version}")'
    return [invalid(path, plugin, detail)]


def _validate_plugin_config(path: str, profile: Profile, version: str, release: Release) -> list[str]:
    check = validators(release)
    faults: list[str] = []
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            faults.append(duplicate(entry_path, entry.name))
        seen.add(entry.name)
        faults += _removed(entry_path, entry.name, version)
        validator = check.get(entry.name)
        if validator is None:
            continue
        if isinstance(entry.args, ALL_ARGS[entry.name]):
            faults += validator(f"{entry_path}.args", entry.args)
        else:
            faults.append(invalid(f"{entry_path}.args", str(shown_arguments(entry.args)), "has to match plugin args"))
    return faults


def validate_queue_sort(profiles: Sequence[Profile]) -> list[str]:
    """Return the errors of the queue sort plugins: all profiles share one queue, so they must use the same one."""
    first = profiles[0].plugins.queue_sort
    faults = []
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        faults.append(invalid("profiles[0].plugins.queueSort.Enabled", len(first.enabled), detail))
    sorter = first.enabled[0].name if first.enabled else ""
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            value = _plugin_set_value(profile.plugins.queue_sort)
            faults.append(f"profiles[{index}].plugins.queueSort: Invalid value: {value}: {_SAME}")
        given = [entry.args for entry in profile.plugin_config if sorter and entry.name == sorter]
        if given and given[0] != profiles[0].raw_args(sorter):  # no entry at all is found out when profiles are built
            path = f"profiles[{index}].pluginConfig.args"
            faults.append(invalid(path, str(shown_arguments(given[0])), f"queueSort {_SAME}"))
    return faults


_SAME = "must be the same for all profiles"


def _plugin_set_value(value: PluginSet) -> str:
    """Return a plugin set as Go prints it: an empty list is null."""
    enabled, disabled = (go_value(part) if part else "null" for part in (value.enabled, value.disabled))
    return f'{{"Enabled":{enabled},"Disabled":{disabled}}}'


# --- extenders --------------------------------------------------------------------------------------------------


def validate_extenders(extenders: Sequence[Extender]) -> list[str]:
    faults: list[str] = []
    managed: set[str] = set()  # resource names of all extenders so far
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            faults.append(invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it"))
        for position, resource in enumerate(extender.managed_resources):
            name_path = f"{path}.managedResources[{position}].name"
            faults += _extended_resource(name_path, resource.name)
            if resource.name in managed:
                faults.append(invalid(name_path, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        faults.append(invalid("extenders", value, "only one extender can implement bind"))
    return faults


def _extended_resource(path: str, name: str) -> list[str]:
    """Return the errors of an extended resource's name: it must not be of kubernetes.io, nor have a quota's prefix."""
    messages = qualified_name_faults(name)
    if messages:
        return [invalid(path, name, message) for message in messages]
    domain = name.partition("/")[0] if "/" in name else ""
    native = not domain or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    if native or name.startswith("requests.") or qualified_name_faults(f"requests.{name}"):
        return [invalid(path, name, "is an invalid extended resource name")]
    return []
