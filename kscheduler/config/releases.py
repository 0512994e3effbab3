"""The releases of Kubernetes whose kube-scheduler is emulated: what differs between them, in one record each.

Other code asks the record for a property (`release.has("StorageCapacityScoring")`), never for the version. A
configuration carries the release that its defaults come from, so that all parts of a scheduler emulate the same one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kscheduler.config.device_rules import DEVICE_RULES_1_36, DEVICE_RULES_1_37, DeviceRules
from kscheduler.config.feature_gates import FEATURES_1_36, FEATURES_1_37, FeatureGate
from kscheduler.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A minor release of Kubernetes, as far as its kube-scheduler differs from that of another."""

    version: str  # such as "1.36"
    features: tuple[FeatureGate, ...]  # sorted by name
    plugins: tuple[tuple[str, int], ...]  # the default profile's multiPoint: (name, weight), 0 if it does not score
    # Dynamic resource allocation: differences that no gate controls.
    devices: DeviceRules = DEVICE_RULES_1_37  # how devices are allocated
    empty_taint_selector_matches: bool = False  # a DeviceTaintRule without a selector applies to all devices

    def has(self, gate: str) -> bool:
        """Return whether a feature gate is on. A gate that the release does not have is off."""
        return any(feature.name == gate and feature.is_on for feature in self.features)

    def with_gates(self, gates: Mapping[str, bool]) -> Release:
        """Return the release with some feature gates set; names that it does not have are ignored."""
        return replace(
            self, features=tuple(each._replace(is_on=gates.get(each.name, each.is_on)) for each in self.features)
        )


RELEASE_1_36 = Release(
    version="1.36",
    features=FEATURES_1_36,
    devices=DEVICE_RULES_1_36,
    empty_taint_selector_matches=True,
    plugins=(
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
        ("NodeDeclaredFeatures", 0),
    ),
)
RELEASE_1_37 = Release(
    version="1.37",
    features=FEATURES_1_37,
    plugins=(
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeName", 0),
        ("NodeUnschedulable", 0),
        *RELEASE_1_36.plugins[4:],
    ),
)

RELEASES: Mapping[str, Release] = {release.version: release for release in (RELEASE_1_36, RELEASE_1_37)}  # oldest first
DEFAULT_RELEASE = RELEASE_1_36  # where no apiserver is asked for its version


def release_of(version: str) -> Release:
    """Return the release of a version such as "1.37". Raises ConfigError for one that is not known."""
    if version not in RELEASES:
        raise ConfigError(f'expected one of {", ".join(RELEASES)}, got "{version}"')
    return RELEASES[version]


def release_for(git_version: str) -> Release:
    """Return the newest known release that is not newer than an apiserver; for an older apiserver, the oldest.

    `git_version`: as in the apiserver's /version, such as "v1.36.3" or "v1.37.1-gke.100". Raises ConfigError if it is
    no version.
    """
    found = re.match(r"v?(\d+)\.(\d+)", git_version)
    if found is None:
        raise ConfigError(f'expected a version of an apiserver such as "v1.36.3", got "{git_version}"')
    served = int(found[1]), int(found[2])
    chosen = next(iter(RELEASES.values()))
    for release in RELEASES.values():
        major, minor = release.version.split(".")
        if (int(major), int(minor)) <= served:
            chosen = release
    return chosen
