"""Plays the kubelets of a test's control plane: the scheduler's pods run as processes, others in their status alone."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path

from kscheduler.testing.controlplane import ControlPlane, RequestFailed
from kscheduler.testing.controlplane.api import KeptApi
from tests.deploy.manifests import Object
from tests.deploy.replica import Replica

PERIOD_S = 0.2
SCHEDULER = "kscheduler"  # the container that is run
MOUNTED = "/etc/kscheduler"  # where its ConfigMap is


class Kubelet:
    """Runs what is bound to any node, from `start` until `stop`."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._api = KeptApi(control_plane.api.credentials)
        self._replicas: dict[str, Replica] = {}  # by uid of the pod
        self._names: dict[str, Replica] = {}
        self._ready: set[str] = set()  # uids of pods that were found to be ready, which are not asked again
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, without stopping the processes, which the control plane does."""
        self._ended.set()
        self._thread.join()

    def replica(self, pod: str) -> Replica:
        """The process of a pod of the scheduler."""
        return self._names[pod]

    def log_tails(self) -> str:
        """The ends of what the replicas logged, for the message of a failed test."""
        return "\n".join(f"{name}: {replica.log_tail()}" for name, replica in self._names.items())

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            try:
                for pod in self._api.list_all("/api/v1/pods"):
                    if pod["spec"].get("nodeName"):
                        self._sync(pod)
            except (RequestFailed, OSError, http.client.HTTPException):
                continue  # changed in between, or the apiserver is gone: look again
        self._api.close()

    def _sync(self, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        replica = self._replicas.get(metadata["uid"])
        if metadata.get("deletionTimestamp"):
            if replica is not None:
                replica.process.stop(grace_s=float(spec["terminationGracePeriodSeconds"]))
            self._api.delete(path, missing_ok=True)
            return
        container = spec["containers"][0]
        if replica is None and container["name"] == SCHEDULER:
            replica = self._replicas[metadata["uid"]] = self._names[metadata["name"]] = self._start(pod)
        if metadata["uid"] not in self._ready and (replica is None or replica.is_ready()):
            self._api.patch(f"{path}/status", {"status": _status(container)})
            self._ready.add(metadata["uid"])

    def _start(self, pod: Object) -> Replica:
        """Run the container with its own arguments, its ConfigMap in a folder, and its ServiceAccount's token."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        folder: Path = self._control_plane.directory / f"pod-{name}"
        folder.mkdir()
        for volume in pod["spec"]["volumes"]:
            if mapped := volume.get("configMap"):
                data = self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{mapped['name']}")["data"]
                for file, text in data.items():
                    (folder / file).write_text(text)
        flags = [flag.replace(MOUNTED, str(folder)) for flag in pod["spec"]["containers"][0]["args"] if flag != "run"]
        account = self._control_plane.kubeconfig_for_service_account(namespace, pod["spec"]["serviceAccountName"])
        return Replica(self._control_plane, name, account, flags)


def _status(container: Object) -> Object:
    state = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    running = {**state, "ready": True, "started": True, "state": {"running": {}}}
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [running],
    }
