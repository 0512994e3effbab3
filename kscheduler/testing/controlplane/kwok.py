"""KWOK as the kubelet of nodes that do not exist: annotated nodes become Ready, bound pods Running, deleted pods go.

Its pod stages take 170 to 500 pods a second, which is slower than a scheduler: a throughput test measures binding,
not Ready, or runs with `pods=False`.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import yaml

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.process import Process

ANNOTATION = {"kwok.x-k8s.io/node": "fake"}  # on the nodes KWOK looks after

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
    """A running KWOK controller for all nodes with ANNOTATION."""

    def __init__(
        self, control_plane: ControlPlane, *, pods: bool = True, parallelism: int = 16, lease_duration_s: int = 240
    ) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        config = control_plane.directory / "kwok.yaml"
        stages = [node_ready_stage(), *([pod_running_stage(), pod_gone_stage()] if pods else [])]
        config.write_text(yaml.safe_dump_all([_options(parallelism, lease_duration_s), *stages], sort_keys=False))
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
        self.process.wait_ready(lambda: _is_healthy(url))

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.stop()


def node_ready_stage() -> dict[str, Any]:
    """A node that is not Ready becomes so; capacity and allocatable stay as they were created."""
    not_ready = {"key": IS_READY, "operator": "NotIn", "values": ["True"]}
    return _stage("node-ready", "Node", [not_ready], {"statusTemplate": NODE_READY})


def pod_running_stage() -> dict[str, Any]:
    """A bound pending pod becomes Running and Ready."""
    alive = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    return _stage("pod-running", "Pod", [alive, pending], {"statusTemplate": POD_RUNNING})


def pod_gone_stage() -> dict[str, Any]:
    """A pod that is being deleted is gone at once."""
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


def _options(parallelism: int, lease_duration_s: int) -> dict[str, Any]:
    ((annotation, value),) = ANNOTATION.items()
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": False,
            "manageNodesWithAnnotationSelector": f"{annotation}={value}",
            "enablePodsOnNodeSyncStreamWatch": True,
            "nodePlayStageParallelism": parallelism,
            "podPlayStageParallelism": parallelism,
            "nodeLeaseParallelism": 4,
            "nodeLeaseDurationSeconds": lease_duration_s,
        },
    }


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
