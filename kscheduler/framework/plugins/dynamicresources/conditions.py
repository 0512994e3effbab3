"""Binding conditions: what drivers must report of allocated devices before their pod may be bound."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from kscheduler.api.devices import (
    AllocatedDeviceStatus,
    DeviceCondition,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.errors import KSchedulerError

TIMED_OUT = "device binding timeout"


class ConditionsFailed(KSchedulerError):
    """Raised if a device reports that it cannot be bound."""


class ConditionsTimedOut(KSchedulerError):
    """Raised if the conditions of a pod's devices did not become true in time."""


def results_of(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    """Return the allocated devices of a claim; none if it is not allocated."""
    allocation = claim.status.allocation
    return [] if allocation is None else allocation.devices.results or []


def has_conditions(claims: Iterable[ResourceClaim]) -> bool:
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is not None:
            for result in allocation.devices.results or ():
                if result.binding_conditions:
                    return True
    return False


def is_ready(claim: ResourceClaim) -> bool:
    """Return True if the claim is allocated, and all binding conditions of its devices are true, or there are none.

    Raises ConditionsFailed if a failure condition is true.
    """
    if claim.status.allocation is None:
        return False
    for result in results_of(claim):
        if not result.binding_conditions:
            continue
        reported = _reported(claim, result)
        if reported is None:
            return False
        for kind in result.binding_failure_conditions or ():
            failed = _condition(reported, kind)
            if failed is not None and failed.status == "True":
                raise ConditionsFailed(
                    f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, "
                    f"message={json.dumps(failed.message, ensure_ascii=False)}"
                )
        for kind in result.binding_conditions:
            condition = _condition(reported, kind)
            if condition is None or condition.status != "True":
                return False
    return True


def is_overdue(claim: ResourceClaim, timeout_s: float, seconds_since: Callable[[str], float]) -> bool:
    """Return True if a device of the claim has binding conditions, and was allocated more than `timeout_s` ago.

    `seconds_since` returns how long ago a time as in the API was.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(result.binding_conditions is None for result in results_of(claim)):
        return False
    return seconds_since(allocation.allocation_timestamp) > timeout_s


def describe(claims: Iterable[ResourceClaim]) -> str:
    """Return a line for the log: the devices with conditions, which of them are pending and which failed."""
    parts = []
    for claim in claims:
        for result in results_of(claim):
            if not result.binding_conditions:
                continue
            reported = _reported(claim, result)
            failed = [] if reported is None else _true(reported, result.binding_failure_conditions or ())
            met = [] if reported is None else _true(reported, result.binding_conditions)
            pending = [kind for kind in result.binding_conditions if kind not in met]
            words = f"<driver={result.driver}, pool={result.pool}> {result.device}"
            words += f" failed=[{','.join(failed)}]" if failed else ""
            words += f" pending=[{','.join(pending)}]" if pending else ""
            parts.append(words)
    return "; ".join(parts)


def _true(reported: AllocatedDeviceStatus, kinds: Iterable[str]) -> list[str]:
    conditions = ((kind, _condition(reported, kind)) for kind in kinds)
    return [kind for kind, condition in conditions if condition is not None and condition.status == "True"]


def _reported(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    for each in claim.status.devices or ():
        if (each.driver, each.pool, each.device) == wanted:
            return each
    return None


def _condition(reported: AllocatedDeviceStatus, kind: str) -> DeviceCondition | None:
    return next((each for each in reported.conditions or () if each.type == kind), None)
