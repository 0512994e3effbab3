"""How releases of Kubernetes differ in the allocation of devices without a feature gate that says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRules:
    """The rules of allocation that changed between releases. The defaults are those of the newest release."""

    # Slices and pools.
    counter_slices_concern_all_nodes: bool = False  # else they are looked for when a node's pool lacks slices
    counters_by_pool_name: bool = False  # pools of different drivers with one name share counters
    ignores_compatibility_groups: bool = False  # else slices that use them are left out, their pools incomplete
    has_optional_node_operations: bool = True  # slices may name node operations that kubelets are to skip
    # Requests and constraints.
    refuses_derived_attributes: bool = True  # else the field does not exist
    limit_counts_whole_claims: bool = False  # the limit of results is checked, and named, by claim, not by request
    all_leaves_out_used_up: bool = False  # All means the devices that have enough capacity left, not all that match
    distinct_by_request: bool = False  # distinctAttribute remembers one value for each request, not for each device
    widens_matched_lists: bool = True  # a device that is given back no longer narrows the values that lists must share
    # Capacity.
    impossible_amounts_fail: bool = True  # negative amounts and those beyond int64 end the cycle
    rounds_to_binary_format: bool = False  # rounded amounts are in BinarySI, not in the format of the step
    shares_without_capacity_hold_counters: bool = (
        True  # such a share of a device is enough to have charged its counters
    )
    # Resources of the node that devices stand for. Of 1.36: devices have mappings without overhead; a claim of a pod on
    # the node cannot be shared; only claims allocated in this cycle count, and a container must use each of them.
    maps_node_resources_only: bool = False
    # Results and errors.
    repeats_claim_configs: bool = False  # once for each request it is for, with that list kept even if it names all
    selector_errors_name_device: bool = True  # and recommend optional chaining for a missing key


DEVICE_RULES_1_36 = DeviceRules(
    counter_slices_concern_all_nodes=True,
    counters_by_pool_name=True,
    ignores_compatibility_groups=True,
    has_optional_node_operations=False,
    refuses_derived_attributes=False,
    limit_counts_whole_claims=True,
    all_leaves_out_used_up=True,
    distinct_by_request=True,
    widens_matched_lists=False,
    impossible_amounts_fail=False,
    rounds_to_binary_format=True,
    shares_without_capacity_hold_counters=False,
    maps_node_resources_only=True,
    repeats_claim_configs=True,
    selector_errors_name_device=False,
)
DEVICE_RULES_1_37 = DeviceRules()
