"""What a user of a real cluster sees: bindings, conditions, Events, endpoints; worded as kube-scheduler does."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from kscheduler.command.emulation import served_version
from kscheduler.config.releases import release_for
from kscheduler.testing.controlplane import BindWatch, ControlPlane, KubeScheduler, verify
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace


class _Stoppable(Protocol):
    def stop(self) -> None: ...


def condition(workspace: Workspace, name: str) -> dict[str, Any]:
    """The pod's PodScheduled condition, or an empty one."""
    found = workspace.pod(name)["status"].get("conditions", [])
    return next((entry for entry in found if entry["type"] == "PodScheduled"), {})


def events(workspace: Workspace, reason: str) -> list[dict[str, Any]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{workspace.namespace}/events"
    return [event for event in workspace.api.list_all(path) if event["reason"] == reason]


def test_pods_are_bound_with_one_event_each(workspace: Workspace) -> None:
    workspace.create_nodes(5)
    workspace.create_pods(20)
    KScheduler(workspace.control_plane)
    eventually(lambda: len(workspace.bindings()) == 20, "20 pods bound")
    eventually(lambda: len(events(workspace, "Scheduled")) == 20, "20 Scheduled events")
    assert verify(workspace.api, workspace.namespace).problems == []
    event = events(workspace, "Scheduled")[0]
    pod = event["regarding"]["name"]
    assert event["note"] == f"Successfully assigned {workspace.namespace}/{pod} to {workspace.bindings()[pod]}"
    assert event["reportingController"] == "default-scheduler"
    assert (event["type"], event["action"]) == ("Normal", "Binding")


def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_room_appears(workspace: Workspace) -> None:
    workspace.create_nodes(2)
    workspace.create_pod("large", requests={"cpu": "6", "memory": "1Gi"})
    KScheduler(workspace.control_plane)
    eventually(lambda: condition(workspace, "large").get("status") == "False", "the condition is written")
    found = condition(workspace, "large")
    assert found["reason"] == "Unschedulable"
    assert found["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available:"
        " 2 Preemption is not helpful for scheduling."
    )
    eventually(lambda: bool(events(workspace, "FailedScheduling")), "the Event is written")
    workspace.create_node("big", capacity={"cpu": "8", "memory": "32Gi", "pods": "110"})
    eventually(lambda: workspace.bindings().get("large") == "big", "the pod is bound to the new node")
    eventually(lambda: condition(workspace, "large")["status"] == "True", "the apiserver says so")


def test_a_gated_pod_waits_until_its_gate_is_removed(workspace: Workspace) -> None:
    workspace.create_nodes(1)
    workspace.create_pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    workspace.create_pod("free")
    KScheduler(workspace.control_plane)
    eventually(lambda: "free" in workspace.bindings(), "the other pod is bound")
    assert "gated" not in workspace.bindings()
    path = f"/api/v1/namespaces/{workspace.namespace}/pods/gated"
    workspace.api.patch(path, {"spec": {"schedulingGates": None}})
    eventually(lambda: "gated" in workspace.bindings(), "the pod is bound")


def test_pods_of_another_scheduler_take_room_and_are_left_alone(workspace: Workspace) -> None:
    workspace.create_nodes(1)
    whole = {"cpu": "3", "memory": "1Gi"}
    workspace.create_pod("theirs", requests=whole, scheduler_name="someone-else", spec={"nodeName": "node-0"})
    workspace.create_pod("theirs-too", scheduler_name="someone-else")
    workspace.create_pod("ours", requests={"cpu": "2", "memory": "1Gi"})
    KScheduler(workspace.control_plane)
    eventually(lambda: condition(workspace, "ours").get("status") == "False", "our pod has no room")
    assert condition(workspace, "ours")["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available:"
        " 1 No preemption victims found for incoming pod."
    )
    assert "theirs-too" not in workspace.bindings()


def test_two_profiles_schedule_the_pods_that_name_them(workspace: Workspace) -> None:
    workspace.create_nodes(2)
    workspace.create_pod("one", scheduler_name="first")
    workspace.create_pod("two", scheduler_name="second")
    KScheduler(
        workspace.control_plane,
        configuration={"profiles": [{"schedulerName": "first"}, {"schedulerName": "second"}]},
    )
    eventually(lambda: len(workspace.bindings()) == 2, "both are bound")
    eventually(lambda: len(events(workspace, "Scheduled")) == 2, "both Events are written")
    controllers = {event["regarding"]["name"]: event["reportingController"] for event in events(workspace, "Scheduled")}
    assert controllers == {"one": "first", "two": "second"}


def test_endpoints_answer_with_health_metrics_and_configuration(workspace: Workspace) -> None:
    workspace.create_nodes(1)
    workspace.create_pods(3)
    scheduler = KScheduler(workspace.control_plane)
    eventually(lambda: len(workspace.bindings()) == 3, "the pods are bound")
    assert scheduler.get("/healthz") == scheduler.get("/livez") == scheduler.get("/readyz") == "ok"
    counted = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 3'
    eventually(lambda: counted in scheduler.get("/metrics"), "the scheduler knows that they are")
    metrics = scheduler.get("/metrics")
    assert 'scheduler_pending_pods{queue="active"} 0' in metrics
    assert 'scheduler_cache_size{type="nodes"} 1' in metrics
    assert "rest_client_requests_total" in metrics
    assert "kscheduler_event_loop_lag_seconds_bucket" in metrics
    configz = json.loads(scheduler.get("/configz"))
    assert configz["componentconfig"]["clientConnection"]["qps"] == 10_000
    # The apiserver is of a release that can be emulated, and this one is.
    served = served_version(workspace.control_plane.api.get("/version"))
    assert configz["emulatedVersion"] == release_for(served).version
    assert f'emulatedVersion="{configz["emulatedVersion"]}" reason="the apiserver is ' in scheduler.process.log_text()


def test_sigusr2_compares_and_dumps_the_cache(workspace: Workspace) -> None:
    workspace.create_nodes(1)
    workspace.create_pods(2)
    scheduler = KScheduler(workspace.control_plane)
    eventually(lambda: len(workspace.bindings()) == 2, "the pods are bound")
    scheduler.process.signal(signal.SIGUSR2)
    eventually(lambda: "dump of scheduling queue" in scheduler.process.log_text(), "the dump is logged")
    text = scheduler.process.log_text()
    assert "cache comparison" in text
    assert "node node-0: cpu 200m of 4000m" in text
    assert "activeQ:0; backoffQ:0; unschedulable" in text


# Pods that fit nowhere, each for another reason, on the cluster that `unwelcoming` makes.
MISFITS: dict[str, dict[str, Any]] = {
    "cpu": {"requests": {"cpu": "100", "memory": "1Gi"}},
    "cpu-and-memory": {"requests": {"cpu": "100", "memory": "100Gi"}},
    "extended": {"requests": {"cpu": "100m", "example.com/gpu": "1"}},
    "selector": {"spec": {"nodeSelector": {"disk": "ssd"}}},
    "name": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["absent"]}]}
                        ]
                    }
                }
            }
        }
    },
    "conflict": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                                    {"key": "metadata.name", "operator": "In", "values": ["b"]},
                                ]
                            }
                        ]
                    }
                }
            }
        }
    },
}


def unwelcoming(workspace: Workspace) -> None:
    """Two plain nodes, a tainted one, a cordoned one, and one without room for pods."""
    workspace.create_nodes(2)
    workspace.create_node("tainted", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    workspace.create_node("full", capacity={"cpu": "4", "memory": "32Gi", "pods": "0"})
    workspace.create_node("cordoned")
    workspace.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    for name, options in MISFITS.items():
        workspace.create_pod(name, **options)


def messages_of(workspace: Workspace, start: Callable[[ControlPlane], _Stoppable]) -> dict[str, tuple[str, str]]:
    """Pod -> (reason, message) that a scheduler writes."""
    for pod in workspace.pods():
        workspace.api.delete(f"/api/v1/namespaces/{workspace.namespace}/pods/{pod['metadata']['name']}")
    for name, options in MISFITS.items():
        workspace.create_pod(name, **options)
    scheduler = start(workspace.control_plane)
    eventually(
        lambda: all(condition(workspace, name).get("status") == "False" for name in MISFITS), "all have a condition"
    )
    scheduler.stop()
    found = {name: condition(workspace, name) for name in MISFITS}
    return {name: (entry["reason"], entry["message"]) for name, entry in found.items()}


def test_the_reasons_are_word_for_word_those_of_kube_scheduler(workspace: Workspace) -> None:
    unwelcoming(workspace)
    ours = messages_of(workspace, KScheduler)
    theirs = messages_of(workspace, KubeScheduler)
    assert ours == theirs


@pytest.mark.slow
def test_ten_thousand_pods_on_five_thousand_nodes(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    control_plane = fresh_control_plane()
    create(control_plane.credentials, nodes(5_000))
    create(control_plane.credentials, pods(10_000))
    with BindWatch(control_plane.credentials) as watch:
        KScheduler(control_plane)
        watch.wait(10_000)
    eventually(lambda: verify(control_plane.api).problems == [], "all bound, one Event each, none overcommitted")
