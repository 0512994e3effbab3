"""Plays the external provisioner of a CSI driver: creates volumes (as objects only) for claims.

It provisions claims that name it in their storage-provisioner annotation: at once, or, for a class with
WaitForFirstConsumer, when the scheduler has selected a node. The volume is accessible in the selected node's zone.
It never reclaims. The class parameter `full` lists nodes (separated by commas) without space: if one of them is
selected, the selected-node annotation is removed, by which the scheduler has to choose again.
"""

from __future__ import annotations

import contextlib
import threading

from kscheduler.testing.controlplane.api import Api, Object
from kscheduler.testing.controlplane.faults import RequestFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.mirror import Mirror

NAME = "csi.example.com"
ZONE = "topology.kubernetes.io/zone"
POLL_S = 0.5  # seconds after which claims are checked again without an event, in case a request failed

PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Provisioner:
    """Provisions volumes from `__enter__` to `__exit__`, in a thread."""

    def __init__(self, credentials: Credentials) -> None:
        self._api = Api(credentials)
        self._changed = threading.Condition()
        self._claims = Mirror(credentials, "/api/v1/persistentvolumeclaims", self._changed)
        self._ending = threading.Event()
        self._provisioned: set[str] = set()  # uids of claims
        self._thread = threading.Thread(target=self._serve, name="provisioner", daemon=True)

    def __enter__(self) -> Provisioner:
        self._claims.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._claims.__exit__(*error)

    def _serve(self) -> None:
        while not self._ending.is_set():
            for claim in self._claims.objects():
                # A claim or class that went away meanwhile needs no answer.
                with contextlib.suppress(RequestFailed):
                    self._answer(claim)
            with self._changed:
                if not self._ending.is_set():
                    self._changed.wait(POLL_S)

    def _answer(self, claim: Object) -> None:
        annotations = claim["metadata"].get("annotations", {})
        uid = claim["metadata"]["uid"]
        if annotations.get(PROVISIONER) != NAME or claim["spec"].get("volumeName") or uid in self._provisioned:
            return
        node = annotations.get(SELECTED_NODE, "")
        storage_class = self._api.get(f"/apis/storage.k8s.io/v1/storageclasses/{claim['spec']['storageClassName']}")
        if storage_class["volumeBindingMode"] == "WaitForFirstConsumer" and not node:
            return
        if node and node in (storage_class.get("parameters") or {}).get("full", "").split(","):
            self._take_back(claim)
        else:
            self._api.create("/api/v1/persistentvolumes", self._volume(claim, node))
            self._provisioned.add(uid)

    def _take_back(self, claim: Object) -> None:
        metadata = claim["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
        self._api.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})

    def _volume(self, claim: Object, node: str) -> Object:
        metadata, spec = claim["metadata"], claim["spec"]
        volume: Object = {
            "metadata": {
                "name": f"pvc-{metadata['uid']}",
                "annotations": {"pv.kubernetes.io/provisioned-by": NAME},
            },
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": spec["storageClassName"],
                "csi": {"driver": NAME, "volumeHandle": metadata["uid"]},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        }
        if node:
            zone = self._api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get(ZONE)
            if zone:
                expression = {"key": ZONE, "operator": "In", "values": [zone]}
                volume["spec"]["nodeAffinity"] = {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
                }
        return volume
