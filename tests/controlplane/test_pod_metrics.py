"""/metrics/resources says the same of the same pods as kube-scheduler's."""

from __future__ import annotations

from typing import Any

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace

PATH = "/metrics/resources"


def shapes() -> list[dict[str, Any]]:
    """Return pods with one container, several, init containers, sidecars, limits, pod-level resources, and nothing."""

    def container(name: str, requests: dict[str, str], limits: dict[str, str], **more: str) -> dict[str, Any]:
        return {"name": name, "image": "x", "resources": {"requests": requests, "limits": limits}, **more}

    several = {
        "initContainers": [
            container("i", {"cpu": "700m", "memory": "3Mi"}, {"cpu": "1500m", "memory": "2Gi"}),
            container("s", {"cpu": "20m"}, {"memory": "5Mi"}, restartPolicy="Always"),
        ],
        "containers": [
            container("a", {"cpu": "100m", "memory": "100M"}, {"cpu": "1", "memory": "1G"}),
            container("b", {"cpu": "50m", "ephemeral-storage": "1Ki"}, {"example.com/card": "2"}),
        ],
    }
    of_pod = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}}}
    huge = {"containers": [container("a", {"cpu": "1"}, {"hugepages-2Mi": "4Mi", "memory": "64Mi"})]}
    return [
        workload.pod("plain", requests={"cpu": "250m", "memory": "123456789"}),
        workload.pod("nothing", requests={}),
        workload.pod("several", spec=several),
        workload.pod("of-pod", spec=of_pod),
        workload.pod("huge", spec=huge),
        workload.pod("important", spec={"priorityClassName": "system-node-critical"}),
        workload.pod("never", requests={"cpu": "1000"}),
        workload.pod("elsewhere", requests={"cpu": "1"}, scheduler_name="nobody"),
    ]


def samples(text: str) -> list[tuple[str, float]]:
    """Return series and value in order, without the last digits: kube-scheduler makes 0.7000000000000001 of 700m."""
    found = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return [(series, float(f"{float(value):.12g}")) for series, _, value in found]


def is_decided(pod: dict[str, Any]) -> bool:
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))


def test_the_same_metrics_of_the_same_pods_as_kube_schedulers(workspace: Workspace) -> None:
    theirs = KubeScheduler(workspace.control_plane)
    workspace.create_node("node-0")
    for pod in shapes():
        workspace.create(pod)
    own = [pod["metadata"]["name"] for pod in shapes() if pod["spec"]["schedulerName"] != "nobody"]
    eventually(lambda: all(is_decided(workspace.pod(name)) for name in own), "each pod is bound or refused")
    ours = KScheduler(workspace.control_plane, configuration={"profiles": [{"schedulerName": "ours"}]})
    eventually(lambda: samples(ours.get(PATH)) == samples(theirs.get(PATH)), "both have seen the same of all pods")
    assert samples(ours.get(PATH)) == samples(theirs.get(PATH))
    text = ours.get(PATH)
    assert len({line.partition("pod=")[2].partition(",")[0] for line in text.splitlines() if "pod=" in line}) == 7
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in theirs.get(PATH).splitlines() if line.startswith("#")
    ]
