"""Validates the arguments of kube-scheduler's plugins, with kube-scheduler's error messages in kube-scheduler's order.

Each validator takes the field path of the arguments and returns all errors. The one of NodeResourcesFit takes no path,
because kube-scheduler runs it only when it builds the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kscheduler.config.coscheduling import validate_coscheduling_args
from kscheduler.config.duration import Duration
from kscheduler.config.field_errors import duplicate, forbidden, invalid, not_supported, required
from kscheduler.config.queues import validate_queues_args
from kscheduler.config.releases import Release
from kscheduler.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    NodeSelectorTerm,
    PodTopologySpreadArgs,
    ResourceSpec,
    SelectorRequirement,
    TopologySpreadConstraint,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kscheduler.input.names import label_value_faults, qualified_name_faults

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def validate_preemption_args(path: str, args: DefaultPreemptionArgs) -> list[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    faults = []
    if not 0 <= percentage <= 100:
        faults.append(invalid(f"{path}.minCandidateNodesPercentage", percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        faults.append(invalid(f"{path}.minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        zero = "cannot be zero at the same time as"
        faults.append(invalid(f"{path}.minCandidateNodesPercentage", 0, f"{zero} minCandidateNodesAbsolute"))
        faults.append(invalid(f"{path}.minCandidateNodesAbsolute", 0, f"{zero} minCandidateNodesPercentage"))
    return faults


def validate_affinity_args(path: str, args: InterPodAffinityArgs) -> list[str]:
    weight = args.hard_pod_affinity_weight
    if 0 <= weight <= 100:
        return []
    return [invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")]


def validate_volume_args(path: str, args: VolumeBindingArgs, *, takes_shape: bool = False) -> list[str]:
    """Return the errors of VolumeBinding's arguments. `takes_shape`: StorageCapacityScoring is on."""
    faults = []
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        faults.append(invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, detail))
    if takes_shape:
        faults += _validate_shape(f"{path}.shape", args.shape or ())
    elif args.shape is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        faults.append(invalid(f"{path}.shape", args.shape, detail))
    return faults


def validate_dynamic_args(path: str, args: DynamicResourcesArgs) -> list[str]:
    faults = []
    if args.filter_timeout < Duration(0):
        faults.append(invalid(f"{path}.filterTimeout", args.filter_timeout, "must be zero or positive"))
    if args.binding_timeout.seconds < 1:
        faults.append(invalid(f"{path}.bindingTimeout", args.binding_timeout, "must be at least 1 second"))
    return faults


# --- resources --------------------------------------------------------------------------------------------------


def validate_balanced_args(path: str, args: NodeResourcesBalancedAllocationArgs) -> list[str]:
    faults = []
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        child = f"{path}.resources[{index}]"
        if resource.name in seen:
            faults.append(duplicate(f"{child}.name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            faults.append(invalid(f"{child}.weight", resource.weight, "must be 1"))
    return faults


def validate_fit_args(args: NodeResourcesFitArgs) -> list[str]:
    faults: list[str] = []
    for index, name in enumerate(args.ignored_resources):
        faults += _label_name(f"ignoredResources[{index}]", name)
    for index, group in enumerate(args.ignored_resource_groups):
        child = f"ignoredResourceGroups[{index}]"
        if "/" in group:
            faults.append(invalid(child, group, "resource group name can't contain '/'"))
        faults += _label_name(child, group)
    return faults + _validate_strategy("scoringStrategy", args)


def _validate_strategy(path: str, args: NodeResourcesFitArgs) -> list[str]:
    strategy = args.scoring_strategy
    faults = []
    if strategy.type not in STRATEGIES:
        faults.append(not_supported(f"{path}.type", strategy.type, STRATEGIES))
    faults += _validate_weights(f"{path}.resources", strategy.resources)
    ratio = strategy.requested_to_capacity_ratio
    child = f"{path}.requestedToCapacityRatio"
    if ratio is None:
        if strategy.type == "RequestedToCapacityRatio":
            faults.append(required(child, "must be specified when type is RequestedToCapacityRatio"))
        return faults
    if strategy.type != "RequestedToCapacityRatio":
        faults.append(forbidden(child, "must be nil when type is not RequestedToCapacityRatio"))
        return faults
    return faults + _validate_shape(f"{child}.shape", ratio.shape)


def _validate_weights(path: str, resources: Sequence[ResourceSpec]) -> list[str]:
    return [
        invalid(
            f"{path}[{index}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for index, resource in enumerate(resources)
        if not 0 < resource.weight <= 100
    ]


def _validate_shape(path: str, shape: Sequence[UtilizationShapePoint]) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    faults = []
    for index in range(1, len(shape)):
        if shape[index].utilization <= shape[index - 1].utilization:
            detail = "values must be sorted in increasing order"
            faults.append(invalid(f"{path}[{index}].utilization", shape[index].utilization, detail))
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            faults.append(invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= 10:
            faults.append(invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]"))
    return faults


# --- topology spread --------------------------------------------------------------------------------------------


def validate_spread_args(path: str, args: PodTopologySpreadArgs) -> list[str]:
    faults = []
    if args.defaulting_type not in ("System", "List"):
        faults.append(not_supported(f"{path}.defaultingType", args.defaulting_type, ("System", "List")))
    elif args.defaulting_type == "System" and args.default_constraints:
        detail = "when .defaultConstraints are not empty"
        faults.append(invalid(f"{path}.defaultingType", args.defaulting_type, detail))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        child = f"{path}.defaultConstraints[{index}]"
        faults += _validate_constraint(child, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            faults.append(duplicate(child, f"{{{key[0]}, {key[1]}}}"))
        seen.add(key)
    return faults


def _validate_constraint(path: str, constraint: TopologySpreadConstraint) -> list[str]:
    faults = []
    if constraint.max_skew <= 0:
        faults.append(invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not constraint.topology_key:
        faults.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        faults += _label_name(f"{path}.topologyKey", constraint.topology_key)
    action = constraint.when_unsatisfiable
    if not action:
        faults.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        allowed = ("DoNotSchedule", "ScheduleAnyway")
        faults.append(not_supported(f"{path}.whenUnsatisfiable", action, allowed))
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        faults.append(forbidden(f"{path}.labelSelector", detail))
    return faults


# --- node affinity ----------------------------------------------------------------------------------------------


def validate_node_affinity_args(path: str, args: NodeAffinityArgs) -> list[str]:
    """Return the errors of NodeAffinity's arguments. An empty affinity is valid, and so is one without terms."""
    affinity = args.added_affinity
    if affinity is None:
        return []
    faults: list[str] = []
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    if required_terms is not None:
        root = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(required_terms.node_selector_terms):
            faults += _validate_term(f"{root}[{index}]", term)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        root = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if preferred.weight:  # kube-scheduler skips a term of weight 0 unread
            faults += _validate_term(root, preferred.preference)
    return faults


def _validate_term(path: str, term: NodeSelectorTerm) -> list[str]:
    faults: list[str] = []
    for index, requirement in enumerate(term.match_expressions):
        faults += _validate_expression(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields):
        faults += _validate_field(f"{path}.matchFields[{index}]", requirement)
    return faults


def _validate_expression(path: str, requirement: SelectorRequirement) -> list[str]:
    operator, values = requirement.operator, requirement.values
    if operator not in OPERATORS:
        return [not_supported(f"{path}.operator", operator, OPERATORS)]
    key_faults = qualified_name_faults(requirement.key)
    faults = [invalid(f"{path}.key", requirement.key, "; ".join(key_faults))] if key_faults else []
    child = f"{path}.values"
    if operator in ("In", "NotIn") and not values:
        faults.append(_no_values(child, "for 'in', 'notin' operators, values set can't be empty"))
    if operator in ("Exists", "DoesNotExist") and values:
        faults.append(invalid(child, values, "values set must be empty for exists and does not exist"))
    if operator in ("Gt", "Lt"):
        faults += _validate_comparison(child, values)
    for index, value in enumerate(values):
        if messages := label_value_faults(value):
            faults.append(invalid(f"{child}[{index}][{requirement.key}]", value, "; ".join(messages)))
    return faults


def _validate_comparison(path: str, values: Sequence[str]) -> list[str]:
    detail = "for 'Gt', 'Lt' operators, exactly one value is required"
    if not values:
        return [_no_values(path, detail)]
    if len(values) > 1:
        return [invalid(path, values, detail)]
    if not _is_integer(values[0]):
        return [invalid(f"{path}[0]", values[0], "for 'Gt', 'Lt' operators, the value must be an integer")]
    return []


def _is_integer(text: str) -> bool:
    """Return True for a text that Go parses as a 64-bit integer."""
    return re.fullmatch(r"[+-]?[0-9]+", text) is not None and -(2**63) <= int(text) < 2**63


def _validate_field(path: str, requirement: SelectorRequirement) -> list[str]:
    """Return the errors of a field selector requirement.

    It takes one value; as in kube-scheduler any field may be named.
    """
    operator, values = requirement.operator, requirement.values
    if operator not in ("In", "NotIn"):
        return [not_supported(f"{path}.operator", operator, ("In", "NotIn"))]
    if not values:
        return [_no_values(f"{path}.values", "must have one element")]
    if len(values) > 1:
        return [invalid(f"{path}.values", values, "must have one element")]
    return []


def _no_values(path: str, detail: str) -> str:
    """Return the error for a missing list, which Go's messages call null."""
    return invalid(path, None, detail)


def _label_name(path: str, value: str) -> list[str]:
    return [invalid(path, value, message) for message in qualified_name_faults(value)]


# What plugins of our own demand of many fields is imported for a configuration that has such arguments.


def _validate_load_variation(path: str, args: Any) -> list[str]:
    from kscheduler.config.trimaran_validation import validate_load_variation

    return validate_load_variation(path, args)


def _validate_metric_policy(path: str, args: Any) -> list[str]:
    from kscheduler.config.metric_source_validation import validate_metric_policy_args

    return validate_metric_policy_args(path, args)


def _validate_target_load_packing(path: str, args: Any) -> list[str]:
    from kscheduler.config.trimaran_validation import validate_target_load_packing

    return validate_target_load_packing(path, args)


_VALIDATORS: Mapping[str, Callable[[str, Any], list[str]]] = {  # those that are the same in all releases
    "Coscheduling": validate_coscheduling_args,
    "DefaultPreemption": validate_preemption_args,
    "DynamicResources": validate_dynamic_args,
    "InterPodAffinity": validate_affinity_args,
    "LoadVariationRiskBalancing": _validate_load_variation,
    "MetricPolicy": _validate_metric_policy,
    "NodeAffinity": validate_node_affinity_args,
    "NodeResourcesBalancedAllocation": validate_balanced_args,
    "PodTopologySpread": validate_spread_args,
    "Queues": validate_queues_args,
    "TargetLoadPacking": _validate_target_load_packing,
}


def validators(release: Release) -> Mapping[str, Callable[[str, Any], list[str]]]:
    """Return plugin name -> check of its arguments in a release: returns the errors, given the path and the arguments.

    NodeResourcesFit is left out: kube-scheduler checks its arguments when it makes the plugin.
    """
    takes_shape = release.has("StorageCapacityScoring")
    return {**_VALIDATORS, "VolumeBinding": partial(validate_volume_args, takes_shape=takes_shape)}
