"""Validates the live metrics of all profiles together: a name must mean one source, metric or policy in all of them.

All profiles share the columns of values, so two of them cannot use one name for different things. While a policy's plan
B is in force (its fallback when sources fail), another profile may decide its pods; a cycle of such profiles is an
error, because none of them would decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kscheduler.config.field_errors import invalid
from kscheduler.config.live_metrics import METRIC_POLICY
from kscheduler.config.metric_policy import MetricPolicyArgs
from kscheduler.config.types import Profile

_SAME = "must be the same in all profiles that have one of this name"


def validate_metric_profiles(profiles: Sequence[Profile]) -> list[str]:
    """Return the errors in the MetricPolicy arguments of all profiles, taken together."""
    return _validate_same(profiles) + _validate_plans(profiles)


def metric_policy_args(profile: Profile) -> MetricPolicyArgs | None:
    args = profile.raw_args(METRIC_POLICY)
    return args if isinstance(args, MetricPolicyArgs) else None


def _args(profiles: Sequence[Profile]) -> Iterator[tuple[str, Profile, MetricPolicyArgs]]:
    """Yield (field path, profile, arguments) for each profile that has arguments of MetricPolicy."""
    for index, profile in enumerate(profiles):
        for position, entry in enumerate(profile.plugin_config):
            if entry.name == METRIC_POLICY and isinstance(entry.args, MetricPolicyArgs):
                yield f"profiles[{index}].pluginConfig[{position}].args", profile, entry.args


def _validate_same(profiles: Sequence[Profile]) -> list[str]:
    faults = []
    for field in ("sources", "metrics", "policies"):
        first: dict[str, tuple[str, msgspec.Struct]] = {}  # name -> where it stood first, and what it was
        for path, _, args in _args(profiles):
            for index, item in enumerate(getattr(args, field)):
                where, other = first.setdefault(item.name, (path, item))
                if where != path and other != item:
                    faults.append(invalid(f"{path}.{field}[{index}].name", item.name, _SAME))
    return faults


def _validate_plans(profiles: Sequence[Profile]) -> list[str]:
    names = {profile.scheduler_name for profile in profiles}
    plans: dict[str, set[str]] = {}  # scheduler name -> the profiles that its policies turn to
    faults = []
    for path, profile, args in _args(profiles):
        for index, policy in enumerate(args.policies):
            plan = policy.plan_b
            target = plan.profile if plan is not None and plan.action == "Profile" else ""
            field = f"{path}.policies[{index}].planB.profile"
            if not target:
                continue
            if target not in names:
                faults.append(invalid(field, target, "no profile of that scheduler name is configured"))
            elif target == profile.scheduler_name:
                faults.append(invalid(field, target, "must be another profile"))
            elif _reaches(plans, target, profile.scheduler_name):
                faults.append(invalid(field, target, f"turns back to {profile.scheduler_name} by its own plan B"))
            else:
                plans.setdefault(profile.scheduler_name, set()).add(target)
    return faults


def _reaches(plans: Mapping[str, set[str]], start: str, end: str) -> bool:
    """Return True if pods of the profile `start` may end up with the profile `end`, by one or several plans B.

    A policy's plan B names a profile that decides its pods while metric sources fail. `plans` (profile -> profiles that
    its plans B name) has no cycle, so this ends.
    """
    return start == end or any(_reaches(plans, next_one, end) for next_one in plans.get(start, ()))
