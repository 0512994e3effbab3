"""Builds the extenders of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.config.types import NodeResourcesFitArgs, PluginConfig, Profile, SchedulerConfig
from kscheduler.extenders.extender import Endpoint, Extender
from kscheduler.observability.measurements import Measurements

FIT = "NodeResourcesFit"

# (an extender's configuration, where in the file it stands) -> its HTTP endpoint. Raises ConfigError.
MakeEndpoint = Callable[[ExtenderConfig, str], Endpoint]


def webhook(config: ExtenderConfig, path: str) -> Endpoint:
    """Return a `Webhook`, which is imported only where there are extenders: aiohttp takes long to import."""
    from kscheduler.extenders.webhook import Webhook

    return Webhook(config, path)


def build_extenders(
    config: SchedulerConfig,
    observer: Measurements,
    stopwatch: Callable[[], float],
    make_endpoint: MakeEndpoint = webhook,
) -> list[Extender]:
    """Return the extenders in the order of the configuration. Raises ConfigError that names the invalid field."""
    return [
        Extender(each, make_endpoint(each, f"extenders[{index}]"), observer, stopwatch)
        for index, each in enumerate(config.extenders)
    ]


def without_ignored_resources(config: SchedulerConfig) -> SchedulerConfig:
    """Return `config` with NodeResourcesFit's ignoredResources set to those that extenders have as
    ignoredByScheduler.
    """
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    return replace(config, profiles=tuple(_ignoring(profile, ignored) for profile in config.profiles))


def _ignoring(profile: Profile, ignored: Sequence[str]) -> Profile:
    args = replace(profile.args(FIT, NodeResourcesFitArgs), ignored_resources=tuple(ignored))
    others = tuple(entry for entry in profile.plugin_config if entry.name != FIT)
    return replace(profile, plugin_config=(*others, PluginConfig(name=FIT, args=args)))
