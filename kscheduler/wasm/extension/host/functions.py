"""The 21 host functions of the extension ABI under the names that guests import, and AssemblyScript's `abort`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kscheduler.wasm.assemblyscript import abort_function
from kscheduler.wasm.engine import HostFunction
from kscheduler.wasm.extension.host.klog import Klog
from kscheduler.wasm.extension.host.scheduler import SchedulerFunctions
from kscheduler.wasm.loading.abi import EXTENSION_IMPORTS

API, SCHEDULER, KLOG = "k8s.io/api", "k8s.io/scheduler", "k8s.io/klog"


def host_functions(scheduler: SchedulerFunctions, klog: Klog) -> tuple[HostFunction, ...]:
    functions: Mapping[tuple[str, str], Callable[..., Any]] = {
        (API, "node"): scheduler.node,
        (API, "nodeList"): scheduler.node_list,
        (SCHEDULER, "get_config"): scheduler.get_config,
        (SCHEDULER, "currentPod"): scheduler.current_pod,
        (SCHEDULER, "targetPod"): scheduler.target_pod,
        (SCHEDULER, "currentNodeName"): scheduler.current_node_name,
        (SCHEDULER, "filteredNodeList"): scheduler.filtered_node_list,
        (SCHEDULER, "nodeImageStates"): scheduler.node_image_states,
        (SCHEDULER, "nodeToStatusMap"): scheduler.node_to_status_map,
        (SCHEDULER, "nodeScoreList"): scheduler.node_score_list,
        (SCHEDULER, "result.cluster_events"): scheduler.cluster_events,
        (SCHEDULER, "result.node_names"): scheduler.node_names,
        (SCHEDULER, "result.nominated_node_name"): scheduler.nominated_node_name,
        (SCHEDULER, "result.status_reason"): scheduler.status_reason,
        (SCHEDULER, "result.normalized_score_list"): scheduler.normalized_score_list,
        (SCHEDULER, "handle.eventrecorder.eventf"): scheduler.eventf,
        (SCHEDULER, "handle.reject_waiting_pod"): scheduler.reject_waiting_pod,
        (SCHEDULER, "handle.get_waiting_pod"): scheduler.get_waiting_pod,
        (KLOG, "log"): klog.log,
        (KLOG, "logs"): klog.logs,
        (KLOG, "severity"): klog.severity,
    }
    own = tuple(
        HostFunction(module, name, kind.params, kind.results, functions[module, name])
        for (module, name), kind in EXTENSION_IMPORTS.items()
    )
    return (*own, abort_function())
