"""The arguments of Queues, the plugin for queues with shares."""

from __future__ import annotations

from kscheduler.config.field_errors import invalid
from kscheduler.config.types import Int32, PluginArgs, SchedulerConfig
from kscheduler.errors import ConfigError

QUEUES = "Queues"
NON_PREEMPTIBLE_PRIORITY = 100  # as in KAI-Scheduler


class QueuesArgs(PluginArgs, frozen=True):
    file: str = ""  # a file with Queue objects, beside those of the apiserver; it is read once, at the start
    default_queue: str = ""  # of pods whose labels name none; "": such pods are in no queue
    # A pod of this priority or a higher one is not preemptible, unless its label says that it is.
    non_preemptible_priority: Int32 = NON_PREEMPTIBLE_PRIORITY
    # How much more saturated the queues that give room must be than the one that gets it, once that is above its share.
    saturation_multiplier: float = 1.0
    # How many pods may be moved to other nodes, at most, so that a waiting one fits; 0: none is moved.
    max_consolidation_victims: Int32 = 0


def validate_queues_args(path: str, args: QueuesArgs) -> list[str]:
    faults: list[str] = []
    multiplier, victims = args.saturation_multiplier, args.max_consolidation_victims
    if not multiplier >= 1:
        faults.append(invalid(f"{path}.saturationMultiplier", multiplier, "must be a number of at least 1"))
    if victims < 0:
        faults.append(invalid(f"{path}.maxConsolidationVictims", victims, "must be a number of at least 0"))
    return faults


def keeps_queues(config: SchedulerConfig) -> bool:
    """Return True if a profile enables the plugin, so that Queue objects are followed."""
    return any(QUEUES in profile.plugins.enabled_names() for profile in config.profiles)


def queues_args(config: SchedulerConfig) -> QueuesArgs:
    """Return the arguments of the plugin. Raises ConfigError if profiles that enable it have different ones."""
    found: dict[QueuesArgs, str] = {}
    for profile in config.profiles:
        if QUEUES in profile.plugins.enabled_names():
            found.setdefault(profile.args(QUEUES, QueuesArgs), profile.scheduler_name)
    if len(found) > 1:
        names = ", ".join(f'"{name}"' for name in found.values())
        raise ConfigError(f"arguments of plugin {QUEUES}: expected the same in all profiles, got others in {names}")
    return next(iter(found), QueuesArgs())
