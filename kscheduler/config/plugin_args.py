"""The argument types by plugin name: those of kube-scheduler's plugins, and of plugins that only this scheduler has."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.config.coscheduling import CoschedulingArgs
from kscheduler.config.metric_policy import MetricPolicyArgs
from kscheduler.config.queues import QueuesArgs
from kscheduler.config.trimaran import LoadVariationRiskBalancingArgs, TargetLoadPackingArgs
from kscheduler.config.types import PLUGIN_ARGS, PluginArgs

OWN_ARGS: Mapping[str, type[PluginArgs]] = {  # plugin name -> its arguments
    "Coscheduling": CoschedulingArgs,
    "LoadVariationRiskBalancing": LoadVariationRiskBalancingArgs,
    "MetricPolicy": MetricPolicyArgs,
    "Queues": QueuesArgs,
    "TargetLoadPacking": TargetLoadPackingArgs,
}
ALL_ARGS: Mapping[str, type[PluginArgs]] = {**PLUGIN_ARGS, **OWN_ARGS}
