"""The arguments of Trimaran's plugins, with the names and defaults that scheduler-plugins documents.

A value that Trimaran replaces by its default (a target of zero, a negative margin) is replaced here, too. An error that
Trimaran finds only while it runs, or never, is refused in `trimaran_validation`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kscheduler.config.metric_policy import Quantity
from kscheduler.config.types import ConfigStruct, Int64, PluginArgs
from kscheduler.input.redaction import Secret, SecretURL

METRICS_SERVER = "KubernetesMetricsServer"
PROMETHEUS = "Prometheus"
DEFAULT_REQUESTS: dict[str, Quantity] = {"cpu": "1000m"}
DEFAULT_TARGET = 40
DEFAULT_MARGIN = 1.0
DEFAULT_SENSITIVITY = 1.0

TrimaranT = TypeVar("TrimaranT", bound="TrimaranArgs")


class MetricProvider(ConfigStruct, frozen=True):
    type: str = ""  # KubernetesMetricsServer if there is no watcherAddress either
    address: SecretURL = SecretURL()  # of the provider
    token: Secret = Secret()  # sent as bearer token
    token_file: str = ""  # only in kscheduler: a file with the token, instead of the token itself
    insecure_skip_verify: bool | None = None  # true for Prometheus


class TrimaranArgs(PluginArgs, frozen=True):
    """The common arguments: utilisation comes from a load watcher if its address is set, else from a provider."""

    metric_provider: MetricProvider = MetricProvider()  # who knows the nodes' use
    watcher_address: SecretURL | None = None  # of a load watcher, in place of a provider


class TargetLoadPackingArgs(TrimaranArgs, frozen=True):
    default_requests: dict[str, Quantity] | None = None  # for containers that have neither requests nor limits
    default_requests_multiplier: str = "1.5"  # factor for the requests of containers without limits
    target_utilization: Int64 = DEFAULT_TARGET  # percent of CPU


class LoadVariationRiskBalancingArgs(TrimaranArgs, frozen=True):
    safe_variance_margin: float = DEFAULT_MARGIN  # factor for the standard deviation
    safe_variance_sensitivity: float = DEFAULT_SENSITIVITY  # 1/exponent of the standard deviation


def default_trimaran_args(args: TrimaranT) -> TrimaranT:
    """Return the arguments with every default written out."""
    args = msgspec.structs.replace(args, metric_provider=_default_provider(args))
    if isinstance(args, TargetLoadPackingArgs):
        return msgspec.structs.replace(
            args,
            default_requests=DEFAULT_REQUESTS if args.default_requests is None else args.default_requests,
            target_utilization=args.target_utilization if args.target_utilization > 0 else DEFAULT_TARGET,
        )
    if isinstance(args, LoadVariationRiskBalancingArgs):
        return msgspec.structs.replace(
            args,
            safe_variance_margin=DEFAULT_MARGIN if args.safe_variance_margin < 0 else args.safe_variance_margin,
            safe_variance_sensitivity=(
                DEFAULT_SENSITIVITY if args.safe_variance_sensitivity < 0 else args.safe_variance_sensitivity
            ),
        )
    return args


def _default_provider(args: TrimaranArgs) -> MetricProvider:
    provider = args.metric_provider
    if args.watcher_address is None and not provider.type:
        provider = msgspec.structs.replace(provider, type=METRICS_SERVER)
    if provider.type == PROMETHEUS and provider.insecure_skip_verify is None:
        provider = msgspec.structs.replace(provider, insecure_skip_verify=True)
    return provider


@dataclass(frozen=True, slots=True)
class TrimaranMetrics:
    """The names of the metrics that a plugin reads, all in percent of a node.

    `source` provides all four; a deviation has no values if the metric provider has none.
    """

    source: str
    cpu: str
    cpu_deviation: str
    memory: str
    memory_deviation: str


def trimaran_metrics(args: TrimaranArgs) -> TrimaranMetrics:
    """Return the metric names for a plugin's arguments; plugins with the same metric provider share its metrics."""
    args = default_trimaran_args(args)
    provider = args.metric_provider
    if args.watcher_address:
        source = f"trimaran/load-watcher/{args.watcher_address.shown}"
    else:
        source = "/".join(filter(None, ("trimaran", provider.type, provider.address.shown)))
        if provider.token:  # another token may see other values; the name must not give it away
            source += "/" + hashlib.sha256(provider.token.reveal().encode()).hexdigest()[:12]
        elif provider.token_file:
            source += f"/token:{provider.token_file}"
    return TrimaranMetrics(
        source, f"{source}/cpu", f"{source}/cpu-deviation", f"{source}/memory", f"{source}/memory-deviation"
    )
