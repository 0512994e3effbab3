"""The allocation of a claim from the devices that a search chose for it: results, configuration and node selector."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.devices import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.api.labels import NODE_NAME_FIELD
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.requests import Variant
from kscheduler.devices.search import Choice


def make_allocation(
    claim: ResourceClaim,
    chosen: Sequence[Choice],
    variants: Sequence[Variant],
    node_name: str,
    *,
    has_binding_conditions: bool,
    has_skipped_operations: bool,
    repeats_claim_configs: bool,
) -> AllocationResult:
    """Return the allocation of a claim. `variants`: those that were chosen for its requests, in their order."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=[
                _result(
                    choice,
                    has_binding_conditions=has_binding_conditions,
                    has_skipped_operations=has_skipped_operations,
                )
                for choice in chosen
            ],
            config=configs_of(claim, variants, repeats_claim_configs=repeats_claim_configs),
        ),
        node_selector=_node_selector(claim, chosen, node_name),
    )


def _result(
    choice: Choice, *, has_binding_conditions: bool, has_skipped_operations: bool
) -> DeviceRequestAllocationResult:
    driver, pool, name = choice.device.id
    device = choice.device.device
    return DeviceRequestAllocationResult(
        request=choice.variant.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=choice.variant.has_admin_access or None,
        tolerations=choice.variant.given_tolerations,
        binding_conditions=device.binding_conditions if has_binding_conditions else None,
        binding_failure_conditions=device.binding_failure_conditions if has_binding_conditions else None,
        share_id=choice.share_id,
        consumed_capacity={name: str(amount) for name, amount in choice.consumed.items()} if choice.consumed else None,
        skip_node_operations=(
            choice.device.slice.published.spec.skip_node_operations if has_skipped_operations else None
        ),
    )


# --- configuration ----------------------------------------------------------------------------------------------


def configs_of(
    claim: ResourceClaim, variants: Sequence[Variant], *, repeats_claim_configs: bool
) -> list[DeviceAllocationConfiguration] | None:
    """Return the configuration that classes and the claim have for the chosen requests; None if there is none."""
    configs = [
        *_class_configs(variants),
        *_claim_configs(claim, variants, is_repeated=repeats_claim_configs),
    ]
    if not repeats_claim_configs:
        configs = [_without_needless_requests(config, variants) for config in configs]
    return configs or None


def _class_configs(variants: Sequence[Variant]) -> list[DeviceAllocationConfiguration]:
    """Return the configuration of each class once, for all requests that use the class."""
    users: dict[str, list[Variant]] = {}  # class -> requests
    for variant in variants:
        users.setdefault(variant.device_class.metadata.name, []).append(variant)
    return [
        DeviceAllocationConfiguration(FROM_CLASS, [user.full_name for user in same], config.opaque)
        for same in users.values()
        for config in same[0].device_class.spec.config or ()
    ]


def _claim_configs(
    claim: ResourceClaim, variants: Sequence[Variant], *, is_repeated: bool
) -> list[DeviceAllocationConfiguration]:
    """Return those of the claim's configurations that apply; repeated: once for each request that they name."""
    configs: list[DeviceAllocationConfiguration] = []
    for config in claim.spec.devices.config or ():
        users = 1 if not config.requests else sum(_names(config.requests, variant) for variant in variants)
        applied = DeviceAllocationConfiguration(FROM_CLAIM, config.requests, config.opaque)
        configs += [applied] * (users if is_repeated else min(users, 1))
    return configs


def _without_needless_requests(
    config: DeviceAllocationConfiguration, variants: Sequence[Variant]
) -> DeviceAllocationConfiguration:
    """Leave out the list of requests if it names all of them, since no list means all."""
    requests = config.requests
    if not requests or not all(_names(requests, variant) for variant in variants):
        return config
    return DeviceAllocationConfiguration(config.source, None, config.opaque)


def _names(requests: Sequence[str], variant: Variant) -> bool:
    """Return whether a list names a request, or the alternative that was chosen for it."""
    return variant.request in requests or variant.full_name in requests


# --- node selector ----------------------------------------------------------------------------------------------


def _node_selector(claim: ResourceClaim, chosen: Sequence[Choice], node_name: str) -> NodeSelector | None:
    """Return the nodes from which all devices can be used; None: all nodes. Raises AllocationError."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for choice in chosen:
        device, spec = choice.device.device, choice.device.slice.published.spec
        place = device if choice.device.slice.is_per_device else spec
        if place.node_name is not None or device.binds_to_node:
            only = SelectorRequirement(NODE_NAME_FIELD, "In", [node_name])
            return NodeSelector([NodeSelectorTerm(match_fields=[only])])
        terms = () if place.node_selector is None else place.node_selector.node_selector_terms
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    return NodeSelector([NodeSelectorTerm(match_expressions=expressions or None, match_fields=fields or None)])


def _add_new(requirements: Sequence[SelectorRequirement] | None, known: list[SelectorRequirement]) -> None:
    for requirement in requirements or ():
        if not any(_is_same(requirement, each) for each in known):
            known.append(requirement)


def _is_same(first: SelectorRequirement, second: SelectorRequirement) -> bool:
    return (
        first.key == second.key
        and first.operator == second.operator
        and set(first.values or ()) == set(second.values or ())
    )
