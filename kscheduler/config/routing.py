"""RoutingConfiguration: rules for the scheduler of new pods, applied by an optional admission webhook.

The first rule that matches a pod decides. A pod that asks for another scheduler than those in `replaces` is left alone.
"""

from __future__ import annotations

from kscheduler.config.types import DEFAULT_SCHEDULER_NAME, ConfigStruct, Int32, LabelSelector

API_VERSION = "kscheduler.io/v1alpha1"
KIND = "RoutingConfiguration"


class RoutingRule(ConfigStruct, frozen=True):
    """All given conditions must match; a rule without namespaces and selectors matches every pod."""

    name: str = ""
    namespaces: tuple[str, ...] = ()  # any of these
    namespace_selector: LabelSelector | None = None  # of the namespace's labels
    pod_selector: LabelSelector | None = None
    replaces: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)  # scheduler names that may be changed
    scheduler_name: str = ""
    plan_b: str = ""  # the scheduler name given instead while plan B of the pod's metric policy is in force


class RoutingConfig(ConfigStruct, frozen=True):
    api_version: str = API_VERSION
    kind: str = KIND
    bind_address: str = "0.0.0.0"
    port: Int32 = 9443
    cert_file: str = ""
    key_file: str = ""
    rules: tuple[RoutingRule, ...] = ()
