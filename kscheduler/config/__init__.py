"""KubeSchedulerConfiguration v1: read strictly, completed and validated as kube-scheduler does. Knows no cluster."""

from __future__ import annotations

from kscheduler.config.defaults import apply_defaults
from kscheduler.config.dump import to_v1, to_yaml
from kscheduler.config.duration import Duration
from kscheduler.config.extension_points import KUBE_PLUGINS, ExtensionPoint
from kscheduler.config.load import check_config, default_config, load_config, parse_config
from kscheduler.config.profiles import check_profiles, effective_plugins, unimplemented_plugins
from kscheduler.config.types import Profile, SchedulerConfig

__all__ = [
    "KUBE_PLUGINS",
    "Duration",
    "ExtensionPoint",
    "Profile",
    "SchedulerConfig",
    "apply_defaults",
    "check_config",
    "check_profiles",
    "default_config",
    "effective_plugins",
    "load_config",
    "parse_config",
    "to_v1",
    "to_yaml",
    "unimplemented_plugins",
]
