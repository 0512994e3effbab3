"""Whether profiles enable CapacityScheduling, the plugin for ElasticQuotas, which has no arguments."""

from __future__ import annotations

from kscheduler.config.types import SchedulerConfig

CAPACITY_SCHEDULING = "CapacityScheduling"


def keeps_quotas(config: SchedulerConfig) -> bool:
    """Return True if a profile enables the plugin, so that ElasticQuotas are followed."""
    return any(CAPACITY_SCHEDULING in profile.plugins.enabled_names() for profile in config.profiles)
