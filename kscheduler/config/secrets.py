"""A configuration for people to see: what lets its holder in elsewhere is hidden.

Secrets belong into files that the configuration names; where the API takes them inline, they are not shown. Arguments
of plugins from elsewhere are a plain document of which nothing is known: of those only the user and the password in a
guest's URL are hidden.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from kscheduler.config.metric_policy import Endpoint, MetricPolicyArgs, Source
from kscheduler.config.trimaran import TrimaranArgs
from kscheduler.config.types import Extender, PluginConfig, Profile, SchedulerConfig

HIDDEN = "<hidden>"
GUEST_URL = "guestURL"


def without_secrets(config: SchedulerConfig) -> SchedulerConfig:
    return replace(
        config,
        profiles=tuple(_of_profile(profile) for profile in config.profiles),
        extenders=tuple(_of_extender(extender) for extender in config.extenders),
    )


def has_secrets(config: SchedulerConfig) -> bool:
    return without_secrets(config) != config


def _of_profile(profile: Profile) -> Profile:
    return replace(profile, plugin_config=tuple(_of_plugin(entry) for entry in profile.plugin_config))


def _of_plugin(entry: PluginConfig) -> PluginConfig:
    args: Any = entry.args
    if isinstance(args, TrimaranArgs):
        provider = args.metric_provider
        args = replace(args, metric_provider=replace(provider, token=_hidden(provider.token)))
    elif isinstance(args, MetricPolicyArgs):
        args = replace(args, sources=tuple(_of_source(source) for source in args.sources))
    elif isinstance(args, dict) and isinstance(args.get(GUEST_URL), str):
        args = {**args, GUEST_URL: _of_url(args[GUEST_URL])}
    return replace(entry, args=args)


def _of_source(source: Source) -> Source:
    return replace(source, prometheus=_of_endpoint(source.prometheus), load_watcher=_of_endpoint(source.load_watcher))


def _of_endpoint(endpoint: Endpoint | None) -> Endpoint | None:
    if endpoint is None:
        return None
    headers = {name: _hidden(value) for name, value in endpoint.headers.items()}
    return replace(endpoint, headers=headers, username=_hidden(endpoint.username))


def _of_extender(extender: Extender) -> Extender:
    tls = extender.tls_config
    return extender if tls is None else replace(extender, tls_config=replace(tls, key_data=_hidden(tls.key_data)))


def _of_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{_hidden(user)}@{host}")) if at else url


def _hidden(secret: str) -> str:
    return HIDDEN if secret else ""
