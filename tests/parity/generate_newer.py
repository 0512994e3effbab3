"""What releases of Kubernetes since 1.37 read or decide otherwise, added to generated cases.

It draws numbers of its own, so that the rest of a case stays as its seed has it. An older release has to overlook what
it does not know; only what it would refuse is left out there.
"""

from __future__ import annotations

import random

from kscheduler.config.releases import release_of
from tests.parity.case import Case, Object
from tests.parity.words import often, pick

CAPACITY_SCORING = "StorageCapacityScoring"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"  # a kubelet's feature
# A pod that waits has no spec.nodeName. If it had one, NodeName's Filter would turn down other nodes in these releases;
# in newer ones its PreFilter leaves them out, which kscheduler does not repeat for what never happens.
ASKED_OF_NODE_NAME = frozenset({"1.36"})
CPU = ("50m", "300m", "1", "2")
MEMORY = ("64Mi", "300Mi", "1Gi", "3Gi")


def add_newer(case: Case) -> None:
    """Change the case in place."""
    rng = random.Random(f"newer {case.seed}")
    _need_drivers(rng, case)
    if often(rng, 0.3):
        _bind_mounts(rng, case)
    for pod in case.cluster.get("pods", ()):
        if often(rng, 0.08):
            _resize(rng, pod)
    if case.release not in ASKED_OF_NODE_NAME:
        for pod in case.pending:
            pod["spec"].pop("nodeName", None)
    if CAPACITY_SCORING in case.more_gates or release_of(case.release).has(CAPACITY_SCORING):
        _say_shape(rng, case)
        _make_capacities_equal(case)
        _state_scored_capacities(case)


def _need_drivers(rng: random.Random, case: Case) -> None:
    """A driver without which a pod with its volumes must not be placed.

    At most one: of several that a node lacks, kube-scheduler names any, in the order of a map.
    """
    wanted = [driver for driver in case.cluster.get("csiDrivers", ()) if often(rng, 0.3)]
    for driver in wanted[:1]:
        driver.setdefault("spec", {})["preventPodSchedulingIfMissing"] = True


def _bind_mounts(rng: random.Random, case: Case) -> None:
    """Containers that ask for options of a bind mount, and kubelets that can give them."""
    for node in case.cluster["nodes"]:
        if often(rng, 0.6):
            features = node["status"].setdefault("declaredFeatures", [])
            node["status"]["declaredFeatures"] = sorted({*features, BIND_MOUNT_OPTIONS})
    for pod in case.pending:
        if often(rng, 0.2):
            spec = pod["spec"]
            spec.setdefault("volumes", []).append({"name": "bound", "emptyDir": {}})
            options = [pick(rng, ("ro", "noexec", "nosuid"))] if often(rng, 0.9) else []
            mount = {"name": "bound", "mountPath": "/bound", "bindMountOptions": options}
            pick(rng, spec["containers"]).setdefault("volumeMounts", []).append(mount)


def _resize(rng: random.Random, pod: Object) -> None:
    """A resize that is under way: of containers, of init containers, of the whole pod, or one that is infeasible."""
    spec, status = pod["spec"], pod["status"]
    for containers, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        if spec.get(containers) and often(rng, 0.7):
            status[statuses] = [_container_status(rng, each) for each in spec[containers] if often(rng, 0.9)]
    if often(rng, 0.4):
        status["allocatedResources"] = _amounts(rng)
    if often(rng, 0.4):
        status["resources"] = {"requests": _amounts(rng)}
    if often(rng, 0.4):
        reason = pick(rng, ("Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


def _container_status(rng: random.Random, container: Object) -> Object:
    status: Object = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True}
    status["restartCount"] = 0
    if often(rng, 0.7):
        status["resources"] = {"requests": _amounts(rng)}
    if often(rng, 0.7):
        status["allocatedResources"] = _amounts(rng)
    return status


def _amounts(rng: random.Random) -> dict[str, str]:
    amounts = {"cpu": pick(rng, CPU), "memory": pick(rng, MEMORY)}
    if often(rng, 0.3):
        del amounts[pick(rng, ("cpu", "memory"))]
    return amounts


def _say_shape(rng: random.Random, case: Case) -> None:
    """How profiles score the use of a class's capacity, which releases without such scores refuse to hear."""
    for profile in case.config["profiles"]:
        if "VolumeBinding" in _disabled(profile) or not often(rng, 0.3):
            continue
        points = sorted(rng.sample(range(101), rng.randint(1, 4)))
        shape = [{"utilization": point, "score": rng.randint(0, 10)} for point in points]
        profile.setdefault("pluginConfig", []).append({"name": "VolumeBinding", "args": {"shape": shape}})


def _disabled(profile: Object) -> set[str]:
    multi_point: Object = profile.get("plugins", {}).get("multiPoint", {})
    return {entry["name"] for entry in multi_point.get("disabled", ())}


def _make_capacities_equal(case: Case) -> None:
    """Of several capacities that serve a node and class kube-scheduler takes any: so those of a class are equal."""
    first: dict[str, Object] = {}  # class -> its first capacity
    for capacity in case.cluster.get("csiStorageCapacities", ()):
        model = first.setdefault(capacity["storageClassName"], capacity)
        if capacity is model:
            continue
        for name in ("capacity", "maximumVolumeSize"):
            capacity.pop(name, None)
            if name in model:
                capacity[name] = model[name]


def _state_scored_capacities(case: Case) -> None:
    """A capacity that states the size of a volume alone makes kube-scheduler crash in scoring: DIFFERENCES.md."""
    for capacity in case.cluster.get("csiStorageCapacities", ()):
        if "maximumVolumeSize" in capacity:
            capacity.setdefault("capacity", capacity["maximumVolumeSize"])
