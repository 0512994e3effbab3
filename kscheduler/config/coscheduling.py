"""The arguments of Coscheduling, with the names and defaults that scheduler-plugins documents."""

from __future__ import annotations

from kscheduler.config.field_errors import invalid
from kscheduler.config.types import Int64, PluginArgs, SchedulerConfig

COSCHEDULING = "Coscheduling"
DEFAULT_WAITING_S = 60


class CoschedulingArgs(PluginArgs, frozen=True):
    # How long a gang may have pods placed, but fewer than its minimum, until that is reported. In scheduler-plugins
    # its pods wait for so long in Permit.
    permit_waiting_time_seconds: Int64 = DEFAULT_WAITING_S
    pod_group_backoff_seconds: Int64 = 0  # accepted, and not needed: a gang that does not fit waits for an event
    # Not in scheduler-plugins: for how long a gang may fail until room is reserved for it. 0: no room ever is.
    reserve_after_seconds: Int64 = 0


def validate_coscheduling_args(path: str, args: CoschedulingArgs) -> list[str]:
    named = {
        "permitWaitingTimeSeconds": args.permit_waiting_time_seconds,
        "podGroupBackoffSeconds": args.pod_group_backoff_seconds,
        "reserveAfterSeconds": args.reserve_after_seconds,
    }
    return [invalid(f"{path}.{name}", value, "must be zero or positive") for name, value in named.items() if value < 0]


def schedules_by_label(config: SchedulerConfig) -> bool:
    """Return whether pods may name their gang by Coscheduling's label: if any profile enables that plugin."""
    return any(COSCHEDULING in profile.plugins.enabled_names() for profile in config.profiles)


def schedules_gangs(config: SchedulerConfig) -> bool:
    """Return whether pods may name a gang by any API, so that gangs have to be scheduled."""
    return config.release.schedules_pod_groups or schedules_by_label(config)


def reserves_after_s(config: SchedulerConfig) -> float | None:
    """Return for how many seconds a gang may fail until room is reserved for it; None if no room ever is."""
    waits = [
        profile.args(COSCHEDULING, CoschedulingArgs).reserve_after_seconds
        for profile in config.profiles
        if COSCHEDULING in profile.plugins.enabled_names()
    ]
    return float(min((wait for wait in waits if wait), default=0)) or None


def longest_wait_s(config: SchedulerConfig) -> float:
    """Return the seconds after which a gang that has too few of its pods placed counts as stale."""
    waits = [
        profile.args(COSCHEDULING, CoschedulingArgs).permit_waiting_time_seconds
        for profile in config.profiles
        if COSCHEDULING in profile.plugins.enabled_names()
    ]
    return float(min(waits, default=DEFAULT_WAITING_S)) or float(DEFAULT_WAITING_S)
