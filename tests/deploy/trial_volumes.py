"""Two pods with volumes, for a trial: one waits for a volume that is there, one for a volume yet to be made.

Nobody else looks after volumes on the stage, so `complete` does what the volume controller and a provisioner would.
"""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Api, Object

THERE, MADE = "volume-is-there", "volume-is-made"  # the pods, their claims, and with the namespace their volumes
PODS = (THERE, MADE)
MERGE = "application/merge-patch+json"
ANNOTATIONS = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
CLASSES, VOLUMES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"


class TrialVolumes:
    def __init__(self, api: Api, namespace: str, scheduler_name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._create(THERE, "kubernetes.io/no-provisioner")
        self._create(MADE, "csi.example.com")
        self._create_volume(THERE, None)
        self._set_status(f"{VOLUMES}/{self._name(THERE)}", {"phase": "Available"})
        for name in PODS:
            claimed = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
            pod = workload.pod(name, scheduler_name=scheduler_name, spec={"volumes": [claimed]})
            api.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    def complete(self) -> None:
        """Bind each claim as the scheduler asked for it."""
        claim = self._claim(MADE)
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
        self._create_volume(MADE, {"namespace": self._namespace, "name": MADE, "uid": claim["metadata"]["uid"]})
        promised = self._api.get(f"{VOLUMES}/{self._name(THERE)}")["spec"]["claimRef"]
        assert promised["uid"] == self._claim(THERE)["metadata"]["uid"]
        for name in PODS:
            self._set_status(f"{VOLUMES}/{self._name(name)}", {"phase": "Bound"})
            bound = {"metadata": {"annotations": ANNOTATIONS}, "spec": {"volumeName": self._name(name)}}
            self._api.patch(f"{self._claims}/{name}", bound, MERGE)
            self._set_status(f"{self._claims}/{name}", {"phase": "Bound"})

    def clean(self) -> None:
        """Delete all but the pods, though some of it is protected as long as it is in use."""
        for name in PODS:
            for path in (f"{self._claims}/{name}", f"{VOLUMES}/{self._name(name)}"):
                if self._api.delete(path, missing_ok=True) is not None:
                    self._api.patch(path, {"metadata": {"finalizers": None}}, MERGE)
            self._api.delete(f"{CLASSES}/{self._name(name)}", missing_ok=True)

    # --- objects ------------------------------------------------------------------------------------------------

    def _name(self, name: str) -> str:
        """Of a class or volume: these have no namespace."""
        return f"{self._namespace}-{name}"

    def _claim(self, name: str) -> Any:
        return self._api.get(f"{self._claims}/{name}")

    def _create(self, name: str, provisioner: str) -> None:
        """A class that waits for its first consumer, and a claim of it."""
        metadata = {"name": self._name(name)}
        made_by = {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        self._api.create(CLASSES, made_by)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self._name(name),
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self._api.create(self._claims, {"metadata": {"name": name}, "spec": spec})

    def _create_volume(self, name: str, claim: Object | None) -> None:
        spec: Object = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self._name(name),
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        }
        if claim is not None:
            spec["claimRef"] = claim
        self._api.create(VOLUMES, {"metadata": {"name": self._name(name)}, "spec": spec})

    def _set_status(self, path: str, status: Object) -> None:
        self._api.patch(f"{path}/status", {"status": status}, MERGE)
