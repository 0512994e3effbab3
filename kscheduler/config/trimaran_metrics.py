"""Names of the metrics with the utilisations for Trimaran's plugins, which follow from a plugin's arguments.

Arguments that name the same provider share its metrics. All are in percent of a node.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from kscheduler.config.trimaran import TrimaranArgs, default_trimaran_args


@dataclass(frozen=True, slots=True)
class TrimaranMetrics:
    """`source` gives all four; a deviation has no values where the provider knows none."""

    source: str
    cpu: str
    cpu_deviation: str
    memory: str
    memory_deviation: str


def trimaran_metrics(args: TrimaranArgs) -> TrimaranMetrics:
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
