"""Validates the arguments of Trimaran's plugins, by field."""

from __future__ import annotations

import math

from kscheduler.config.field_errors import forbidden, invalid, not_supported
from kscheduler.config.metric_policy_validation import MAX_FACTOR, in_range, quantity_faults
from kscheduler.config.metric_source_validation import url_faults
from kscheduler.config.quantity import parse_exact
from kscheduler.config.trimaran import (
    METRICS_SERVER,
    PROMETHEUS,
    LoadVariationRiskBalancingArgs,
    TargetLoadPackingArgs,
    TrimaranArgs,
)

PROVIDERS = (METRICS_SERVER, PROMETHEUS)  # Trimaran's third, SignalFx, is not asked here


def validate_target_load_packing(path: str, args: TargetLoadPackingArgs) -> list[str]:
    faults = _validate_provider(path, args)
    for resource, amount in (args.default_requests or {}).items():
        child = f"{path}.defaultRequests[{resource}]"
        found = quantity_faults(child, amount)
        if not found and parse_exact(amount) < 0:
            found = [invalid(child, amount, "must not be negative")]
        faults += found
    faults += _validate_multiplier(f"{path}.defaultRequestsMultiplier", args.default_requests_multiplier)
    return faults + in_range(f"{path}.targetUtilization", args.target_utilization, 1, 100)


def validate_load_variation(path: str, args: LoadVariationRiskBalancingArgs) -> list[str]:
    faults = _validate_provider(path, args)
    faults += in_range(f"{path}.safeVarianceMargin", args.safe_variance_margin, 0, MAX_FACTOR)
    return faults + in_range(f"{path}.safeVarianceSensitivity", args.safe_variance_sensitivity, 0, MAX_FACTOR)


def _validate_multiplier(path: str, text: str) -> list[str]:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0 and "_" not in text and text == text.strip():
        return []
    return [invalid(path, text, "must be a number such as 1.5")]


def _validate_provider(path: str, args: TrimaranArgs) -> list[str]:
    if args.watcher_address is not None:
        return url_faults(f"{path}.watcherAddress", args.watcher_address)
    provider, child = args.metric_provider, f"{path}.metricProvider"
    if provider.type not in PROVIDERS:
        return [not_supported(f"{child}.type", provider.type, PROVIDERS)]
    faults = url_faults(f"{child}.address", provider.address) if provider.address else []
    if any(not char.isprintable() for char in provider.token.reveal()):
        faults.append(forbidden(f"{child}.token", "must not have control characters"))
    if provider.token and provider.token_file:
        faults.append(forbidden(f"{child}.tokenFile", "must not be given beside token"))
    return faults
