"""What keeps a pod off a node and goes with the pods that are there: each obstacle belongs to one plugin.

The pods of a cluster get labels, constraints or volumes such that a pending pod fits where some of them leave.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.parity.case import Object
from tests.parity.generate_pods import REQUIRED
from tests.parity.words import HOSTNAME, ZONE, often, pick

DRIVER = "csi.example.com"
NAMESPACE = "default"
DELAYED = "delayed"  # the class of claims that are bound already
ONCE_PER_POD = "ReadWriteOncePod"

Cluster = dict[str, list[Object]]
Obstacle = Callable[[random.Random, Cluster, Sequence[Object]], None]  # the pods are those that wait


def spread_unevenly(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    _label(rng, [*_others(cluster), *pending], ("web", "web", "db"))
    for pod in pending:
        constraint: Object = {
            "topologyKey": pick(rng, (HOSTNAME, HOSTNAME, ZONE)),
            "whenUnsatisfiable": "DoNotSchedule",
            "maxSkew": pick(rng, (1, 1, 2)),
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        if often(rng, 0.6):
            constraint["minDomains"] = pick(rng, (3, 30))
        pod["spec"]["topologySpreadConstraints"] = [constraint]


def shun(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    """The pending pods do not want to be with others."""
    _label(rng, [*_others(cluster), *pending], ("web", "db", "cache"))
    for pod in pending:
        pod["spec"]["affinity"] = _apart(rng)


def be_shunned(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    """Others do not want to be with the pending pods."""
    _label(rng, [*_others(cluster), *pending], ("web", "web", "db"))
    nominated = cluster.get("nominated", [])
    for pod in nominated if nominated and often(rng, 0.6) else _others(cluster):
        if often(rng, 0.7):
            pod["spec"]["affinity"] = _apart(rng)


def cling(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    """The pending pods want to be with others, which may be those that would have to leave, or be the first."""
    _label(rng, [*_others(cluster), *pending], pick(rng, (("web", "db"), ("db", "db", "db", "web"))))
    for pod in pending:
        kinds = {"podAffinity": {REQUIRED: [_with_web(rng)]}}
        if often(rng, 0.2):
            kinds["podAffinity"][REQUIRED].append(_with_web(rng))
        pod["spec"]["affinity"] = kinds


def share_disks(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    for pod in [*_others(cluster), *pending]:
        if often(rng, 0.7):
            disk = {"pdName": f"d{rng.randint(1, 2)}", "readOnly": often(rng, 0.3)}
            pod["spec"]["volumes"] = [{"name": "disk", "gcePersistentDisk": disk}]


def fill_drivers(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    """Nodes attach few volumes, and every pod brings one of its own."""
    _claim(rng, cluster, pending, lambda index: f"c{index}", "ReadWriteOnce")
    cluster["csiNodes"] = [
        {
            "metadata": {"name": node["metadata"]["name"]},
            "spec": {
                "drivers": [
                    {
                        "name": DRIVER,
                        "nodeID": node["metadata"]["name"],
                        "topologyKeys": [],
                        "allocatable": {"count": rng.randint(1, 3)},
                    }
                ]
            },
        }
        for node in cluster["nodes"]
    ]


def keep_claims(rng: random.Random, cluster: Cluster, pending: Sequence[Object]) -> None:
    """Claims for one pod at a time, which several want."""
    _claim(rng, cluster, pending, lambda index: f"c{rng.randint(0, len(cluster['pods']) // 2 + 1)}", ONCE_PER_POD)


OBSTACLES: Sequence[Obstacle] = (spread_unevenly, shun, be_shunned, cling, share_disks, fill_drivers, keep_claims)


def _others(cluster: Cluster) -> list[Object]:
    """The pods on nodes, and those that are nominated to one."""
    return [*cluster["pods"], *cluster.get("nominated", ())]


def _label(rng: random.Random, pods: Sequence[Object], values: Sequence[str]) -> None:
    for pod in pods:
        pod["metadata"] |= {"namespace": NAMESPACE, "labels": {**pod["metadata"]["labels"], "app": pick(rng, values)}}


def _apart(rng: random.Random) -> Object:
    return {"podAntiAffinity": {REQUIRED: [_with_web(rng)]}}


def _with_web(rng: random.Random) -> Object:
    return {"topologyKey": pick(rng, (HOSTNAME, HOSTNAME, ZONE)), "labelSelector": {"matchLabels": {"app": "web"}}}


def _claim(
    rng: random.Random, cluster: Cluster, pending: Sequence[Object], name: Callable[[int], str], mode: str
) -> None:
    """Give pods claims, all of which are bound to volumes that are everywhere."""
    names = set()
    for index, pod in enumerate([*_others(cluster), *pending]):
        if often(rng, 0.8):
            claim = name(index)
            names.add(claim)
            pod["metadata"]["namespace"] = NAMESPACE
            pod["spec"]["volumes"] = [{"name": "claimed", "persistentVolumeClaim": {"claimName": claim}}]
    cluster["storageClasses"] = [
        {"metadata": {"name": DELAYED}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    ]
    cluster["persistentVolumes"] = [_volume(claim, mode) for claim in sorted(names)]
    cluster["persistentVolumeClaims"] = [_bound(claim, mode) for claim in sorted(names)]


def _volume(claim: str, mode: str) -> Object:
    return {
        "metadata": {"name": f"v-{claim}", "uid": f"v-{claim}", "resourceVersion": "1"},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": NAMESPACE, "name": claim, "uid": claim},
            "csi": {"driver": DRIVER, "volumeHandle": claim},
            "storageClassName": DELAYED,
        },
        "status": {"phase": "Bound"},
    }


def _bound(claim: str, mode: str) -> Object:
    return {
        "metadata": {
            "name": claim,
            "namespace": NAMESPACE,
            "uid": claim,
            "resourceVersion": "1",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": DELAYED,
            "volumeName": f"v-{claim}",
        },
        "status": {"phase": "Bound"},
    }
