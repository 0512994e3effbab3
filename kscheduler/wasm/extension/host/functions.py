"""The 21 host functions of the extension ABI under the names that guests import, and AssemblyScript's `abort`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.wasm.assemblyscript import abort_function
from kscheduler.wasm.engine import HostFunction
from kscheduler.wasm.extension.host.klog import Klog
from kscheduler.wasm.extension.host.scheduler import SchedulerFunctions
from kscheduler.wasm.loading.abi import EXTENSION_IMPORTS, KLOG_MODULE, NODES_MODULE, SCHEDULER_MODULE


def host_functions(scheduler: SchedulerFunctions, klog: Klog) -> tuple[HostFunction, ...]:
    functions: Mapping[tuple[str, str], Callable[..., Any]] = {
        (NODES_MODULE, "node"): scheduler.node,
        (NODES_MODULE, "nodeList"): scheduler.node_list,
        (SCHEDULER_MODULE, "get_config"): scheduler.get_config,
        (SCHEDULER_MODULE, "currentPod"): scheduler.current_pod,
        (SCHEDULER_MODULE, "targetPod"): scheduler.target_pod,
        (SCHEDULER_MODULE, "currentNodeName"): scheduler.current_node_name,
        (SCHEDULER_MODULE, "filteredNodeList"): scheduler.filtered_node_list,
        (SCHEDULER_MODULE, "nodeImageStates"): scheduler.node_image_states,
        (SCHEDULER_MODULE, "nodeToStatusMap"): scheduler.node_to_status_map,
        (SCHEDULER_MODULE, "nodeScoreList"): scheduler.node_score_list,
        (SCHEDULER_MODULE, "result.cluster_events"): scheduler.cluster_events,
        (SCHEDULER_MODULE, "result.node_names"): scheduler.node_names,
        (SCHEDULER_MODULE, "result.nominated_node_name"): scheduler.nominated_node_name,
        (SCHEDULER_MODULE, "result.status_reason"): scheduler.status_reason,
        (SCHEDULER_MODULE, "result.normalized_score_list"): scheduler.normalized_score_list,
        (SCHEDULER_MODULE, "handle.eventrecorder.eventf"): scheduler.eventf,
        (SCHEDULER_MODULE, "handle.reject_waiting_pod"): scheduler.reject_waiting_pod,
        (SCHEDULER_MODULE, "handle.get_waiting_pod"): scheduler.get_waiting_pod,
        (KLOG_MODULE, "log"): klog.log,
        (KLOG_MODULE, "logs"): klog.logs,
        (KLOG_MODULE, "severity"): klog.severity,
    }
    own = tuple(
        HostFunction(module, name, kind.params, kind.results, functions[module, name])
        for (module, name), kind in EXTENSION_IMPORTS.items()
    )
    return (*own, abort_function())
