"""All flags with their values as texts, as `/flagz` shows them."""

from __future__ import annotations

import argparse

from kscheduler.command.flags.ineffective import IGNORED_FLAGS
from kscheduler.input.redaction import hide_urls

_NO_FLAGS = ("make", "words")  # what a namespace has besides


def _defaults() -> dict[str, str]:
    """Return what flags that are not given say, as in kube-scheduler, though the configuration may say otherwise."""
    from kscheduler.config.defaults import CLIENT_CONNECTION, LEADER_ELECTION  # `run` alone needs them

    found = {"leader-elect": "true", "profiling": "true"}
    for prefix, values in (("leader-elect", LEADER_ELECTION), ("kube-api", CLIENT_CONNECTION)):
        for name, value in values.items():
            found[f"{prefix}-{name.replace('_', '-')}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def flag_values(namespace: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Return all flags with their values as texts, without passwords in URLs; ignored ones only if they are given."""
    defaults = _defaults()
    named = {name.replace("_", "-"): value for name, value in vars(namespace).items() if name not in _NO_FLAGS}
    return tuple(
        (name, hide_urls(defaults.get(name, "") if value is None else _as_text(name, value)))
        for name, value in named.items()
        if value is not None or f"--{name}" not in IGNORED_FLAGS
    )


def _as_text(name: str, value: object) -> str:
    """Return a flag's value as Go prints one: true, [a,b], and a map as it is given: a=1,b=2."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        if name == "vmodule":
            return ",".join(f"{each.pattern}={each.verbosity}" for each in value)
        listed = ",".join(map(str, value))
        return listed if name == "feature-gates" else f"[{listed}]"
    return str(value)
