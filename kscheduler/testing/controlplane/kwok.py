"""Runs KWOK, which plays the kubelets: nodes with an annotation become Ready, bound pods Running, deleted pods go.

It handles 170 to 500 pods per second, which is slower than a scheduler. So a throughput test measures the time to
binding, not to Ready.
"""

from __future__ import annotations

from typing import Any

import yaml

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy
from kscheduler.testing.controlplane.process import Process

ANNOTATION = {"kwok.x-k8s.io/node": "fake"}  # marks the nodes that KWOK handles

NODE_READY = """\
conditions:
- type: Ready
  status: "True"
  reason: KubeletReady
  message: this node has no kubelet
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
phase: Running
"""

POD_RUNNING = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := list "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""

IS_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'


class Kwok:
    """A process of the KWOK controller, for all nodes with ANNOTATION."""

    def __init__(self, control_plane: ControlPlane) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        config = control_plane.directory / "kwok.yaml"
        documents = [_options(), _node_ready_stage(), _pod_running_stage(), _pod_gone_stage()]
        config.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        self.process: Process = control_plane.start_process(
            "kwok",
            [
                str(control_plane.binaries.path("kwok")),
                f"--config={config}",
                f"--kubeconfig={control_plane.admin_kubeconfig}",
                f"--server-address={url.rpartition('/')[2]}",
            ],
            # It reads a file of the user's own otherwise.
            environment={"KWOK_WORKDIR": str(control_plane.directory / "kwok")},
        )
        self.process.wait_ready(lambda: is_healthy(f"{url}/healthz"))

    def stop(self) -> None:
        """Stop the process by SIGTERM, and wait for its end."""
        self.process.stop()


def _node_ready_stage() -> dict[str, Any]:
    """Return the KWOK Stage that makes a node Ready; capacity and allocatable stay as they were created."""
    not_ready = {"key": IS_READY, "operator": "NotIn", "values": ["True"]}
    return _stage("node-ready", "Node", [not_ready], {"statusTemplate": NODE_READY})


def _pod_running_stage() -> dict[str, Any]:
    """Return the KWOK Stage that makes a bound, pending pod Running and Ready."""
    alive = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    return _stage("pod-running", "Pod", [alive, pending], {"statusTemplate": POD_RUNNING})


def _pod_gone_stage() -> dict[str, Any]:
    """Return the KWOK Stage that removes a pod as soon as it has a deletion timestamp."""
    deleted = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
    return _stage("pod-gone", "Pod", [deleted], {"finalizers": {"empty": True}, "delete": True})


def _stage(name: str, kind: str, expressions: list[dict[str, Any]], then: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": then,
        },
    }


def _options() -> dict[str, Any]:
    ((annotation, value),) = ANNOTATION.items()
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": False,
            "manageNodesWithAnnotationSelector": f"{annotation}={value}",
            "enablePodsOnNodeSyncStreamWatch": True,
            "nodePlayStageParallelism": 16,
            "podPlayStageParallelism": 16,
            "nodeLeaseParallelism": 4,
            "nodeLeaseDurationSeconds": 240,
        },
    }
