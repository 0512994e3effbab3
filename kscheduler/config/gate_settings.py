"""Parses --feature-gates, and applies it to a release with kube-scheduler's rules and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kscheduler.config.decode import aggregate
from kscheduler.config.feature_gates import ALPHA, BETA, GA
from kscheduler.config.gate_dependencies import unmet_dependencies
from kscheduler.config.known_gates import DEPRECATED, KnownGate, known_gates
from kscheduler.config.releases import Release
from kscheduler.errors import ConfigError

COMPONENT: Final = "kube"  # the only component that has gates here
ONE_BEHAVIOUR: Final = "kscheduler has one behaviour"
ALL: Final = {"AllAlpha": ALPHA, "AllBeta": BETA}  # gate that sets all gates of a stage that are not set themselves

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def parse_gates(texts: Iterable[str]) -> dict[str, bool]:
    """Return the settings in the values of the flag, such as "Name=true,kube:Other=false"; later ones count.

    Raises ConfigError. Whether the names exist depends on the release: see `with_settings`.
    """
    settings: dict[str, bool] = {}
    components = set()
    for pair in (pair for text in texts for pair in text.split(",") if pair):
        component, colon, setting = pair.partition(":")
        if not colon:
            component, setting = "", pair
        components.add(component.strip())
        name, equals, value = setting.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise ConfigError(f"missing bool value for {name}")
        if value not in (*_TRUE, *_FALSE):
            raise ConfigError(
                f'invalid value of {name}={value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
            )
        settings[name] = value in _TRUE
    if components == {"", COMPONENT}:
        raise ConfigError(
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        )
    if unknown := sorted(components - {"", COMPONENT}):
        raise ConfigError(f"component not registered: {unknown[0]}")
    return settings


def with_settings(
    release: Release, settings: Mapping[str, bool], flag: str = "--feature-gates"
) -> tuple[Release, tuple[str, ...]]:
    """Return the release with its gates set, and warnings about settings that do less than they seem to.

    The warnings name `flag`, which has the settings. Raises ConfigError, worded as by kube-scheduler, for a gate that
    the release does not have, that is locked, or that would be on without those on which it depends.
    """
    if not settings:
        return release, ()
    known = known_gates(release.version)
    _check(known, settings)
    in_force = {gate.name: gate.is_on for gate in release.features}
    expanded = _expanded(known, settings)
    is_on = {name: gate.is_on for name, gate in known.items()} | in_force | expanded
    if faults := unmet_dependencies(is_on, release.version):
        raise ConfigError(aggregate(faults))
    switched = {name: value for name, value in expanded.items() if name in release.switchable}
    warnings = []
    for name, value in settings.items():
        if name in ALL:
            if unfollowed := _unfollowed(release, known, settings, name):
                shown = _shown(name, value, flag)
                warnings.append(f"{shown} has no effect on {', '.join(unfollowed)}: {ONE_BEHAVIOUR}")
            continue
        if name in release.switchable:
            continue
        gate = known[name]
        if value != in_force.get(name, gate.is_on):
            reason = ONE_BEHAVIOUR if name in in_force else "it is of other parts of Kubernetes"
            warnings.append(f"{_shown(name, value, flag)} has no effect: {reason}")
        elif gate.stage in (GA, DEPRECATED):
            stage = "GA" if gate.stage == GA else "deprecated"
            warnings.append(
                f"{_shown(name, value, flag)}: setting {stage} feature gate. It will be removed in a future release."
            )
    return release.with_gates(switched), tuple(warnings)


def _unfollowed(
    release: Release, known: Mapping[str, KnownGate], settings: Mapping[str, bool], stage: str
) -> list[str]:
    """Return the gates of the scheduling code that AllAlpha or AllBeta would change, and that are not switched here."""
    return [
        gate.name
        for gate in release.features
        if known[gate.name].stage == ALL[stage]
        and gate.name not in settings
        and gate.name not in release.switchable
        and gate.is_on != settings[stage]
    ]


def _check(known: Mapping[str, KnownGate], settings: Mapping[str, bool]) -> None:
    faults = []
    for name, value in settings.items():
        if name in ALL:
            continue
        if name not in known:
            raise ConfigError(f"unrecognized feature gate: {name}")
        gate = known[name]
        if gate.is_locked and value != gate.is_on:
            locked = str(gate.is_on).lower()
            faults.append(f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {locked}")
    if faults:
        raise ConfigError(aggregate(faults))


def _expanded(known: Mapping[str, KnownGate], settings: Mapping[str, bool]) -> dict[str, bool]:
    """Return the settings with those of all gates that AllAlpha and AllBeta set."""
    by_stage = {ALL[name]: value for name, value in settings.items() if name in ALL}
    staged = {name: by_stage[gate.stage] for name, gate in known.items() if gate.stage in by_stage}
    return {**staged, **settings}


def _shown(name: str, value: bool, flag: str) -> str:
    return f"{flag} {name}={str(value).lower()}"
