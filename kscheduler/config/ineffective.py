"""Fields and arguments of a configuration that are accepted and have no effect as they are given, and the reasons.

A field with its default value is not among them: kube-scheduler's defaults are those of most files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kscheduler.config.coscheduling import CoschedulingArgs
from kscheduler.config.defaults import CLIENT_CONNECTION
from kscheduler.config.extension_points import KNOWN_PLUGINS
from kscheduler.config.plugin_args import OWN_ARGS
from kscheduler.config.types import ClientConnection, Extender, PluginSet, Profile, SchedulerConfig

_DEFAULT_PARALLELISM = SchedulerConfig().parallelism


def ineffective_fields(config: SchedulerConfig) -> list[str]:
    """Return a clause about each such field, such as "parallelism has no effect: kernels look at all nodes"."""
    found = []
    if config.parallelism != _DEFAULT_PARALLELISM:
        found.append("parallelism has no effect: kernels look at all nodes")
    found += _of_connection(config.client_connection)
    for index, profile in enumerate(config.profiles):
        found += _of_profile(f"profiles[{index}]", profile)
    for index, extender in enumerate(config.extenders):
        if not _has_verb(extender):
            found.append(f"extenders[{index}] has no verb, such as filterVerb, so it is never asked")
    return found


def idle_arguments(config: SchedulerConfig) -> list[tuple[str, str]]:
    """Return (scheduler name, plugin) for arguments of plugins that the profile does not enable.

    kube-scheduler's own plugins are left out, because kube-scheduler accepts such arguments silently.
    """
    return [
        (profile.scheduler_name, entry.name)
        for profile in config.profiles
        for entry in profile.plugin_config
        if (entry.name in OWN_ARGS or entry.name not in KNOWN_PLUGINS)
        and entry.name not in profile.plugins.enabled_names()
    ]


def _of_connection(connection: ClientConnection) -> Iterator[str]:
    reason = "has no effect: each request has the type that suits it"
    if connection.accept_content_types:
        yield f"clientConnection.acceptContentTypes {reason}"
    if connection.content_type != CLIENT_CONNECTION["content_type"]:
        yield f"clientConnection.contentType {reason}"


def _of_profile(path: str, profile: Profile) -> Iterator[str]:
    if profile.plugins.pod_group_post_filter != PluginSet():
        yield f"{path}.plugins.podGroupPostFilter has no effect: the plugins of postFilter serve PodGroups, too"
    for index, entry in enumerate(profile.plugin_config):
        if isinstance(entry.args, CoschedulingArgs) and entry.args.pod_group_backoff_seconds:
            field = f"{path}.pluginConfig[{index}].args.podGroupBackoffSeconds"
            yield f"{field} has no effect: a gang that does not fit waits for an event"
        if isinstance(entry.args, Mapping) and {"guestURL", "sha256", "reloadInterval"} <= entry.args.keys():
            field = f"{path}.pluginConfig[{index}].args.reloadInterval"
            yield f"{field} has no effect: sha256 allows this version alone"


def _has_verb(extender: Extender) -> bool:
    return bool(extender.filter_verb or extender.prioritize_verb or extender.preempt_verb or extender.bind_verb)
