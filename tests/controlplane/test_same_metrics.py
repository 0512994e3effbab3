"""kube-scheduler and kscheduler, played the same to, show the same metrics, but for those that RATIONALE.md names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.testing.controlplane import KubeScheduler
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess
from kscheduler.testing.controlplane.workspace import Workspace
from tests.support.releases import releases_to_test

MERGE = "application/merge-patch+json"
ALONE = {"nodeSelector": {"zone": "own"}, "tolerations": [{"key": "own", "operator": "Exists"}]}
LONELY = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "nobody"}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

# Families whose series, and how often each was observed or counted, are the same. Times are not.
COUNTED = (
    "scheduler_schedule_attempts",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_preemption_attempts",
    "scheduler_preemption_victims",
    "scheduler_queue_incoming_pods",
    "scheduler_pending_pods",
    "scheduler_unschedulable_pods",
    "scheduler_scheduling_algorithm_duration_seconds",
)
# What neither the scheduler's code nor ours counts: the programs and their libraries.
OF_LIBRARIES = (
    "go_",
    "process_",
    "workqueue_",
    "apiserver_",
    "aggregator_",
    "authentic",
    "authorization_",
    "rest_client_",
)
OF_METRICS = ("cardinality_enforcement", "disabled_metrics", "hidden_metrics", "registered_metrics")
# What was kept about equal pods is dropped for other reasons here, and not in this play; the rest is explained where
# metrics that are not shown are listed.
NOT_SHOWN = {"scheduler_batch_cache_flushed_total", "informer_processing_latency_seconds_count"}
# Plugins that prepare something in a release, and need not here.
NOT_HERE = {("PreScore", "TaintToleration")} | {
    ("PreFilter", plugin) for plugin in ("NodeName", "NodeUnschedulable", "TaintToleration")
}
EVERY_POD = ("Bind", "Filter", "PostFilter", "PreFilter", "PreScore", "Score")  # extension points

Series = tuple[str, tuple[tuple[str, str], ...]]  # name of a sample, labels


def condition(pod: Object) -> Object:
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"), {})


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_refused(pod: Object) -> bool:
    return condition(pod).get("reason") == "Unschedulable"


class Play:
    """One scheduler's play. Each pod is decided before the next is created, so that no event comes between attempts."""

    def __init__(self, workspace: Workspace, scheduler: SchedulerProcess) -> None:
        self._workspace = workspace
        self._scheduler = scheduler

    def run(self) -> dict[Series, float]:
        workspace = self._workspace
        for index in range(4):
            workspace.create_node(f"node-{index}", labels={"zone": "ab"[index % 2]})
        taint = {"key": "own", "effect": "NoSchedule"}
        workspace.create_node(
            "own", labels={"zone": "own"}, capacity={"cpu": "1", "memory": "8Gi", "pods": "9"}, taints=[taint]
        )
        self._see_nodes(5)
        for index in range(60):
            self._pod(f"plain-{index}", is_bound)
        # Preemption, before others wait for the victim's room.
        self._pod("victim", is_bound, requests={"cpu": "900m"}, spec={**ALONE, "terminationGracePeriodSeconds": 0})
        self._pod(
            "preemptor", is_bound, requests={"cpu": "900m"}, spec={**ALONE, "priorityClassName": "system-node-critical"}
        )
        # All kinds of refusals.
        for index in range(20):
            self._pod(f"large-{index}", is_refused, requests={"cpu": "100"})
        missing = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
        self._pod("without-claim", is_refused, spec={"volumes": [missing]})
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [LONELY]}}
        self._pod("lonely", is_refused, spec={"affinity": affinity})
        spread = {**SPREAD, "labelSelector": {"matchLabels": {"app": "s"}}}
        for index, meets in enumerate((is_bound, is_bound, is_refused)):
            self._pod(f"spread-{index}", meets, labels={"app": "s"}, spec={"topologySpreadConstraints": [spread]})
        self._pod("nowhere", is_refused, spec={"nodeSelector": {"zone": "nowhere"}})
        # Gates, one of which opens.
        for name in ("gated", "freed"):
            self._pod(name, condition, spec={"schedulingGates": [{"name": "example.com/later"}]})
        self._change("freed", {"spec": {"schedulingGates": None}}, is_bound)
        return series(self._scheduler.get("/metrics"))

    def _pod(self, name: str, is_so: Callable[[Object], Any], **options: Any) -> None:
        self._workspace.create_pod(name, **options)
        eventually(lambda: is_so(self._workspace.pod(name)), f"{name} is decided")

    def _change(self, name: str, patch: Object, is_so: Callable[[Object], Any]) -> None:
        path = f"/api/v1/namespaces/{self._workspace.namespace}/pods/{name}"
        self._workspace.api.patch(path, patch, MERGE)
        eventually(lambda: is_so(self._workspace.pod(name)), f"{name} is decided")

    def _see_nodes(self, count: int) -> None:
        def are_seen() -> bool:
            found = series(self._scheduler.get("/metrics"))
            return found.get(("scheduler_cache_size", (("type", "nodes"),))) == count

        eventually(are_seen, f"the scheduler knows {count} nodes")


def series(text: str) -> dict[Series, float]:
    """All samples but the buckets and sums of histograms."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.type != "histogram" or sample.name.endswith("_count")
    }


def of_families(found: Mapping[Series, float], families: Iterable[str]) -> dict[Series, float]:
    names = {f"{family}{end}" for family in families for end in ("", "_total", "_count")}
    return {key: value for key, value in found.items() if key[0] in names and value}


def points(found: Mapping[Series, float]) -> dict[tuple[str, str], float]:
    """(extension point, status) -> how often it was observed; those that each attempt or binding comes to."""
    counted: dict[tuple[str, str], float] = {}
    for (name, labels), value in found.items():
        if name == "scheduler_framework_extension_point_duration_seconds_count":
            point, _, status = (value for _, value in labels)
            if point in EVERY_POD:
                counted[point, status] = value
    return counted


def evaluated(found: Mapping[Series, float]) -> dict[tuple[str, str], float]:
    """(extension point before nodes are looked at, plugin) -> the pods that it was asked about."""
    counted: dict[tuple[str, str], float] = {}
    for (_, labels), value in of_families(found, ["scheduler_plugin_evaluation"]).items():
        point, plugin, _ = (value for _, value in labels)
        if point in ("PreFilter", "PreScore") and (point, plugin) not in NOT_HERE:
            counted[point, plugin] = value
    return counted


def names(found: Mapping[Series, float]) -> set[str]:
    return {name for name, _ in found if not name.startswith((*OF_LIBRARIES, *OF_METRICS, "kscheduler_"))}


@pytest.mark.parametrize("release", releases_to_test())
def test_both_schedulers_show_the_same_metrics_of_the_same_pods(release: str) -> None:
    found = []
    makers: tuple[Callable[..., SchedulerProcess], ...] = (KubeScheduler, KScheduler)
    for make in makers:
        with ControlPlane(release=release) as plane:
            scheduler = make(plane, leader_elect=True)
            found.append(Play(Workspace(plane), scheduler).run())
    theirs, ours = found
    assert names(theirs) - names(ours) <= NOT_SHOWN
    assert of_families(ours, COUNTED) == of_families(theirs, COUNTED)
    assert points(ours) == points(theirs)
    assert evaluated(ours) == evaluated(theirs)
