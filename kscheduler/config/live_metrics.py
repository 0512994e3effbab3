"""Whether a configuration names plugins that read live metrics, so that what they need is imported at all."""

from __future__ import annotations

from kscheduler.config.types import SchedulerConfig

METRIC_POLICY = "MetricPolicy"
READERS = frozenset({METRIC_POLICY, "LoadVariationRiskBalancing", "TargetLoadPacking"})


def names_live_metrics(config: SchedulerConfig) -> bool:
    """Return True if a profile enables a plugin that reads live metrics, or has arguments of one.

    Arguments alone may name sources that are polled, since plugins in wasm read them, too.
    """
    return any(
        not READERS.isdisjoint((*profile.plugins.enabled_names(), *(entry.name for entry in profile.plugin_config)))
        for profile in config.profiles
    )
