"""The Pod in which a scheduler process claims to run, and what a kubelet or a user does to it."""

from __future__ import annotations

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Api

NOBODY = "nobody"  # schedulerName of these Pods, which no scheduler is to place


class ReplicaPod:
    """Creates a Pod, on no node unless one is given.

    `environment`: the variables that its container would get from it.
    """

    def __init__(self, api: Api, namespace: str, name: str, *, node: str = "") -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        spec = {"nodeName": node} if node else None
        made = api.create(self._path.rpartition("/")[0], workload.pod(name, scheduler_name=NOBODY, spec=spec))
        self.uid = str(made["metadata"]["uid"])
        self.environment = {"POD_NAMESPACE": namespace, "POD_NAME": name, "POD_UID": self.uid}

    def report_end(self) -> None:
        """Write the status that a kubelet writes for a Pod whose only container was killed."""
        terminated = {"exitCode": 137, "reason": "Error"}
        container = {"name": "pause", "image": "pause", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
        self._api.patch(f"{self._path}/status", {"status": status})

    def delete_by_force(self) -> None:
        """Delete as `kubectl delete --force --grace-period=0` does: the object is gone, whatever its process does."""
        self._api.delete(self._path)
