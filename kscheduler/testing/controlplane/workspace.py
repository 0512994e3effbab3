"""One test's part of a shared control plane: it has a namespace of its own, and leaves nothing behind.

Nodes have no namespace, so tests that share a control plane run one after another, and each starts without nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.cluster import ControlPlane

_numbers = itertools.count(1)


class Workspace:
    """The namespace, nodes and processes of one test; `clean` removes them all."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.namespace = f"test-{next(_numbers)}"
        self._processes_before = len(control_plane.processes)
        control_plane.create_namespace(self.namespace)

    def create_nodes(self, count: int, **options: object) -> list[str]:
        """Create nodes `node-0` and so on, with the options of `workload.node`; return their names.

        It makes one request for each; for hundreds of objects use load.py.
        """
        return [self.create_node(f"node-{index}", **options) for index in range(count)]

    def create_node(self, name: str, **options: object) -> str:
        """Create one node; return its name."""
        self.api.create("/api/v1/nodes", workload.node(name, **options))  # type: ignore[arg-type]
        return name

    def create_pods(self, count: int, **options: object) -> list[str]:
        """Create pods `pod-0` and so on, with the options of `workload.pod`; return their names."""
        return [self.create_pod(f"pod-{index}", **options) for index in range(count)]

    def create_pod(self, name: str, **options: object) -> str:
        """Create one pod; return its name."""
        self.create(workload.pod(name, **options))  # type: ignore[arg-type]
        return name

    def create(self, pod: Object) -> Object:
        """Create a pod from a complete object."""
        created: Object = self.api.create(self._pods, pod)
        return created

    def pods(self) -> list[Object]:
        """Return all pods of the test."""
        return self.api.list_all(self._pods)

    def pod(self, name: str) -> Object:
        """Return one pod as it is now."""
        found: Object = self.api.get(f"{self._pods}/{name}")
        return found

    def bindings(self) -> Mapping[str, str]:
        """Return pod name -> node name, for bound pods."""
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.pods() if pod["spec"].get("nodeName")}

    def clean(self) -> None:
        """Stop the test's processes, then delete its pods, its namespace and all nodes."""
        self.control_plane.stop_processes(keep=self._processes_before)
        self.control_plane.delete_namespace(self.namespace)
        self.api.delete("/api/v1/nodes")

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"
