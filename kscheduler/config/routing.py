"""RoutingConfiguration: rules that set the schedulerName of new pods, applied by an optional admission webhook.

The first rule that matches a pod decides. A pod whose schedulerName is not in the rule's `replaces` is left unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscheduler.config.decode import aggregate, decode, describe
from kscheduler.config.document import read_document
from kscheduler.config.field_errors import duplicate, invalid, not_supported, required, wrong_name
from kscheduler.config.types import (
    DEFAULT_SCHEDULER_NAME,
    ConfigStruct,
    Int32,
    LabelSelector,
    Profile,
    SelectorRequirement,
)
from kscheduler.errors import ConfigError, InternalError
from kscheduler.input.names import label_value_faults, qualified_name_faults

API_VERSION = "kscheduler.io/v1alpha1"
KIND = "RoutingConfiguration"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class RoutingRule(ConfigStruct, frozen=True):
    """A rule that matches a pod if all given conditions do; one without namespaces and selectors matches every pod."""

    name: str = ""  # of the rule, in metrics and logs
    namespaces: tuple[str, ...] = ()  # any of these
    namespace_selector: LabelSelector | None = None  # of the namespace's labels
    pod_selector: LabelSelector | None = None  # of the pod's labels
    replaces: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)  # scheduler names that may be changed
    scheduler_name: str = ""  # that the pod gets
    plan_b: str = ""  # the scheduler name set while plan B (the fallback) of the pod's metric policy is in force


class RoutingConfig(ConfigStruct, frozen=True):
    api_version: str = API_VERSION  # of the file
    kind: str = KIND  # of the file
    bind_address: str = "0.0.0.0"  # address that the webhook listens on
    port: Int32 = 9443  # port that the webhook listens on
    cert_file: str = ""  # its certificate, PEM; read again when it changes
    key_file: str = ""  # its private key, PEM
    rules: tuple[RoutingRule, ...] = ()  # in order; the first that matches decides


def load_routing(path: str, profiles: Sequence[Profile] | None = None) -> RoutingConfig:
    """Return the routing configuration of a YAML or JSON file, with defaults; validated against `profiles`, if given.

    Raises ConfigError with the file's name and all errors.
    """
    return routing_of(read_document(path), path, profiles)


def routing_of(document: dict[str, Any], path: str, profiles: Sequence[Profile] | None = None) -> RoutingConfig:
    """Return the routing configuration in a document, as `load_routing` does."""
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            raise ConfigError(f'{path}: {key}: expected "{expected}", got {describe(document.get(key))}')
    try:
        config = decode(RoutingConfig, document)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    if config is None:
        raise InternalError(f"{path}: not read, and nothing says why")
    faults = _validate_routing(config)
    if profiles is not None:
        faults += _validate_plans_b(config, profiles)
    if faults:
        raise ConfigError(f"{path}: {aggregate(faults)}")
    return config


# --- validation -------------------------------------------------------------------------------------------------


def _validate_routing(config: RoutingConfig) -> list[str]:
    faults = []
    if not 1 <= config.port <= 65535:
        faults.append(invalid("port", config.port, "not in valid range [1, 65535]"))
    files = {"certFile": config.cert_file, "keyFile": config.key_file}
    faults += [required(name) for name, value in files.items() if not value]
    if not config.rules:
        faults.append(required("rules"))
    seen: set[str] = set()
    for index, rule in enumerate(config.rules):
        faults += _validate_rule(f"rules[{index}]", rule)
        if rule.name and rule.name in seen:
            faults.append(duplicate(f"rules[{index}].name", rule.name))
        seen.add(rule.name)
    return faults


def _validate_plans_b(config: RoutingConfig, profiles: Sequence[Profile]) -> list[str]:
    """Return errors for rules with a plan B if no profile has metric policies, which alone can switch to plan B."""
    from kscheduler.config.metric_policy_profiles import metric_policy_args

    known = {profile.scheduler_name for profile in profiles if metric_policy_args(profile) is not None}
    detail = "schedulerName must be a profile of this scheduler with arguments of the plugin MetricPolicy"
    return [
        invalid(f"rules[{index}].planB", rule.plan_b, detail)
        for index, rule in enumerate(config.rules)
        if rule.plan_b and rule.scheduler_name not in known
    ]


def _validate_rule(path: str, rule: RoutingRule) -> list[str]:
    faults = wrong_name(f"{path}.name", rule.name)
    for index, namespace in enumerate(rule.namespaces):
        faults += wrong_name(f"{path}.namespaces[{index}]", namespace)
    faults += _validate_selector(f"{path}.namespaceSelector", rule.namespace_selector)
    faults += _validate_selector(f"{path}.podSelector", rule.pod_selector)
    if not rule.replaces:
        faults.append(required(f"{path}.replaces", "a rule that may replace no scheduler does nothing"))
    for index, name in enumerate(rule.replaces):
        faults += wrong_name(f"{path}.replaces[{index}]", name)
    faults += wrong_name(f"{path}.schedulerName", rule.scheduler_name)
    if rule.plan_b:
        faults += wrong_name(f"{path}.planB", rule.plan_b)
        if rule.plan_b == rule.scheduler_name:
            faults.append(invalid(f"{path}.planB", rule.plan_b, "must be another scheduler than schedulerName"))
    return faults


def _validate_selector(path: str, selector: LabelSelector | None) -> list[str]:
    if selector is None:
        return []
    faults = []
    for key, value in selector.match_labels.items():
        child = f"{path}.matchLabels[{key}]"
        faults += [invalid(child, key, message) for message in qualified_name_faults(key)]
        faults += [invalid(child, value, message) for message in label_value_faults(value)]
    for index, requirement in enumerate(selector.match_expressions):
        faults += _validate_requirement(f"{path}.matchExpressions[{index}]", requirement)
    return faults


def _validate_requirement(path: str, requirement: SelectorRequirement) -> list[str]:
    faults = [invalid(f"{path}.key", requirement.key, message) for message in qualified_name_faults(requirement.key)]
    if requirement.operator not in OPERATORS:
        faults.append(not_supported(f"{path}.operator", requirement.operator, OPERATORS))
    elif requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            faults.append(required(f"{path}.values", "for the operators In and NotIn"))
    elif requirement.values:
        faults.append(invalid(f"{path}.values", requirement.values, "must be empty for Exists and DoesNotExist"))
    for index, value in enumerate(requirement.values):
        faults += [invalid(f"{path}.values[{index}]", value, message) for message in label_value_faults(value)]
    return faults
