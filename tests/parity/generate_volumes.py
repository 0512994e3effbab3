"""Random claims, volumes, classes, drivers, capacities and attachments, as raw API JSON, for the pods of a cluster.

Claims have the same few names in each namespace, so that pods name them without knowing them. No two volumes have the
same size: of equal volumes kube-scheduler takes any, in the order of a map.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.parity.case import Object
from tests.parity.words import HOSTNAME, NAMESPACES, REGION, REGIONS, ZONE, ZONES, often, pick, some

VOLUME_PLUGINS = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})

CLAIMS = tuple(f"c{i}" for i in range(8))
RWO, RWX, ROX, RWOP = "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"
CSI, ZONAL, PD, EBS = "csi.example.com", "zonal.example.com", "pd.csi.storage.gke.io", "ebs.csi.aws.com"
DRIVERS = (CSI, ZONAL, PD, EBS, "disk.csi.azure.com", "cinder.csi.openstack.org", "pxd.portworx.com")
IN_TREE_DISKS = (
    "kubernetes.io/gce-pd",
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/cinder",
    "kubernetes.io/portworx-volume",
)
PROVISIONERS = {  # class -> who makes its volumes
    "fast": CSI,
    "now": CSI,
    "zonal": ZONAL,
    "static": "kubernetes.io/no-provisioner",
    "disk": IN_TREE_DISKS[0],
}
CLASSES = (
    *["fast"] * 6,
    *["static"] * 5,
    *["zonal"] * 3,
    *["now", "disk", "missing", ""] * 2,
)  # as often as claims ask
SIZES = ("1Gi", "1Gi", "2Gi", "5Gi", "10Gi", "30Gi", "1.5Gi", "3e9", "0.5")  # that claims ask for
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DRIVER_ZONES = (  # what migrated volumes ask of nodes
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "topology.cinder.csi.openstack.org/zone",
)
ZONE_LABELS = (
    *("a", "a", "b", "c", "a__b", "b__c", "a__b__c"),
    *("eu-x-a__eu-x-b", "a__eu-x-a"),  # as one driver wants several: of one region, or it has a fault
    *("a____b", ""),  # no zones, and not counted
)
DELETED = "2026-01-01T00:00:00Z"
VERSION = "5"  # of all volumes and claims


def label_for_drivers(rng: random.Random, node: Object) -> None:
    """Zones under the names that drivers use, and under the old ones."""
    labels: dict[str, str] = node["metadata"]["labels"]
    zone = labels.get(ZONE, "a")
    labels |= {key: zone for key in DRIVER_ZONES if often(rng, 0.6)}
    for beta, stable in ((BETA_ZONE, ZONE), (BETA_REGION, REGION)):
        if stable in labels and often(rng, 0.2):
            labels[beta] = labels[stable] if often(rng, 0.7) else labels.pop(stable)


# --- what pods mount ---


def claimed(rng: random.Random, name: str) -> Object:
    """A volume of a pod that is a claim's: one that is there for several pods, or one of its own."""
    if often(rng, 0.15):
        template = {"spec": {"accessModes": [RWO], "resources": {"requests": {"storage": "1Gi"}}}}
        return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}
    return {"name": name, "persistentVolumeClaim": {"claimName": pick(rng, CLAIMS), "readOnly": often(rng, 0.2)}}


def disk(rng: random.Random, name: str) -> Object:
    """A volume of a pod that is a disk, without a claim."""
    read_only = often(rng, 0.5)
    number = rng.randint(1, 3)
    kinds: tuple[Object, ...] = (
        {"gcePersistentDisk": {"pdName": f"d{number}", "readOnly": read_only}},
        {"awsElasticBlockStore": {"volumeID": pick(rng, ("vol-1", "vol-2", "aws://a/vol-1")), "readOnly": read_only}},
        {"iscsi": {"targetPortal": "10.0.0.1", "iqn": f"iqn-{number}", "lun": 0, "readOnly": read_only}},
        {"rbd": {"monitors": some(rng, ("m1", "m2", "m3"), 2), "image": "i", "pool": "p", "readOnly": read_only}},
        {"azureDisk": {"diskName": f"d{number}", "diskURI": f"/d{number}", "kind": _azure_kind(rng)}},
        {"cinder": {"volumeID": f"d{number}"}},
        {"azureFile": {"secretName": "s", "shareName": f"d{number}"}},
        {"portworxVolume": {"volumeID": f"d{number}"}},
        {"vsphereVolume": {"volumePath": f"d{number}"}},
        {"csi": {"driver": CSI}},
    )
    return {"name": name, **pick(rng, kinds)}


def _azure_kind(rng: random.Random) -> str:
    return "Managed" if often(rng, 0.95) else "Shared"  # which no driver has: a fault


# --- the cluster ---


def generate_volumes(rng: random.Random, nodes: Sequence[str], pods: Sequence[Object]) -> dict[str, list[Object]]:
    """The cluster's lists of volumes and what belongs to them; `pods` are all that may have claims of their own."""
    nodes = [*nodes, "elsewhere"]
    volumes = [_volume(rng, f"v{i}", gib, nodes) for i, gib in enumerate(rng.sample(range(1, 60), rng.randint(6, 20)))]
    free = list(volumes)
    claims = [_claim(rng, namespace, name, nodes) for namespace in NAMESPACES for name in CLAIMS if often(rng, 0.93)]
    claims += _own_claims(rng, pods, nodes)
    for claim in rng.sample(claims, len(claims)):
        _settle(rng, claim, free)
    return {
        "storageClasses": [_class(rng, name) for name in PROVISIONERS if often(rng, 0.93)],
        "persistentVolumes": volumes,
        "persistentVolumeClaims": claims,
        "csiNodes": [_csi_node(rng, name) for name in nodes if often(rng, 0.85)],
        "csiDrivers": [_csi_driver(rng, name) for name in DRIVERS if often(rng, 0.8)],
        "csiStorageCapacities": [_capacity(rng, f"k{i}", nodes) for i in range(rng.randint(0, 8))],
        "volumeAttachments": [_attachment(rng, f"a{i}", nodes, volumes) for i in range(rng.randint(0, 8))],
    }


def _class(rng: random.Random, name: str) -> Object:
    made: Object = {
        "metadata": {"name": name},
        "provisioner": PROVISIONERS[name],
        "volumeBindingMode": "Immediate" if name == "now" else "WaitForFirstConsumer",
    }
    if name == "zonal" or often(rng, 0.15):
        made["allowedTopologies"] = [_topology(rng) for _ in range(1 if often(rng, 0.7) else 2)]
    return made


def _topology(rng: random.Random) -> Object:
    requirements = [{"key": ZONE, "values": some(rng, ZONES, 2)}]
    if often(rng, 0.2):
        requirements.append({"key": REGION, "values": some(rng, REGIONS, 1)})
    return {"matchLabelExpressions": requirements}


def _volume(rng: random.Random, name: str, gib: int, nodes: Sequence[str]) -> Object:
    metadata: Object = {"name": name, "uid": name, "resourceVersion": VERSION, "labels": _volume_labels(rng)}
    spec: Object = {
        "capacity": {"storage": f"{gib}Gi"},
        "accessModes": some(rng, (RWO, RWX, ROX, RWOP), 3) if often(rng, 0.4) else [RWO, RWX],
        **_source(rng, name),
    }
    _say_class(rng, metadata, spec, pick(rng, ("fast", "fast", "static", "static", "static", "zonal", "disk", "")))
    if often(rng, 0.6):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": _places(rng, nodes)}}
    if often(rng, 0.5):
        spec["volumeMode"] = "Block" if often(rng, 0.2) else "Filesystem"
    if often(rng, 0.05):
        spec["volumeAttributesClassName"] = "gold"
    if often(rng, 0.04):
        metadata["deletionTimestamp"] = DELETED
    phase = "Available" if often(rng, 0.9) else pick(rng, ("Pending", "Released", "Failed"))
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def _volume_labels(rng: random.Random) -> dict[str, str]:
    labels = {"tier": pick(rng, ("1", "2"))} if often(rng, 0.5) else {}
    if often(rng, 0.5):
        labels[pick(rng, (ZONE, ZONE, BETA_ZONE))] = pick(rng, ZONE_LABELS)
    if often(rng, 0.1):
        labels[pick(rng, (REGION, BETA_REGION))] = pick(rng, REGIONS)
    return labels


def _source(rng: random.Random, name: str) -> Object:
    sources: tuple[Object, ...] = (
        *({"csi": {"driver": pick(rng, DRIVERS[:4]), "volumeHandle": name}} for _ in range(4)),
        {"gcePersistentDisk": {"pdName": pick(rng, ("d1", "d2", name))}},
        {"awsElasticBlockStore": {"volumeID": pick(rng, ("vol-1", "aws://a/vol-2", "aws://a/nonsense"))}},
        {"azureDisk": {"diskName": "d1", "diskURI": "/d1", "kind": _azure_kind(rng)}},
        {"cinder": {"volumeID": "d1"}},
        {"azureFile": {"secretName": "s", "shareName": "d1", "secretNamespace": "default"}},
        {"portworxVolume": {"volumeID": "d1"}},
        {"vsphereVolume": {"volumePath": "d1"}},
        {"nfs": {"server": "nfs", "path": "/"}},
        {"local": {"path": "/mnt"}},
    )
    return pick(rng, sources)


def _places(rng: random.Random, nodes: Sequence[str]) -> list[Object]:
    return [_place(rng, nodes) for _ in range(1 if often(rng, 0.8) else 2)]


def _place(rng: random.Random, nodes: Sequence[str]) -> Object:
    if often(rng, 0.04):  # a volume's affinity is to labels alone, so this matches no node
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pick(rng, nodes)]}]}
    requirements: list[Object] = []
    if often(rng, 0.6):
        key = pick(rng, (ZONE, ZONE, BETA_ZONE, *DRIVER_ZONES))
        requirements.append({"key": key, "operator": pick(rng, ("In", "In", "NotIn")), "values": some(rng, ZONES, 2)})
    if often(rng, 0.3) or not requirements:
        requirements.append({"key": HOSTNAME, "operator": "In", "values": some(rng, list(nodes), 4)})
    if often(rng, 0.1):
        requirements.append({"key": pick(rng, (REGION, BETA_REGION)), "operator": "Exists"})
    return {"matchExpressions": requirements}


def _claim(rng: random.Random, namespace: str, name: str, nodes: Sequence[str]) -> Object:
    uid = f"{namespace}-{name}"
    metadata: Object = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": VERSION}
    spec: Object = {
        "accessModes": [pick(rng, (RWO, RWO, RWO, RWX, RWOP))],
        "resources": {"requests": {"storage": pick(rng, SIZES)}},
    }
    _say_class(rng, metadata, spec, pick(rng, CLASSES))
    if often(rng, 0.15):
        spec["selector"] = pick(
            rng,
            (
                {"matchLabels": {"tier": "1"}},
                {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["2"]}]},
                {},
            ),
        )
    if often(rng, 0.5):
        spec["volumeMode"] = "Block" if often(rng, 0.15) else "Filesystem"
    if often(rng, 0.04):
        spec["volumeAttributesClassName"] = "gold"
    if often(rng, 0.08):
        metadata.setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = pick(rng, nodes)
    if often(rng, 0.04):
        metadata["deletionTimestamp"] = DELETED
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _say_class(rng: random.Random, metadata: Object, spec: Object, name: str) -> None:
    """In the field or in the old annotation, which counts more."""
    if often(rng, 0.1):
        metadata["annotations"] = {BETA_CLASS: name}
        name = "fast"
    if name or often(rng, 0.3):
        spec["storageClassName"] = name


def _own_claims(rng: random.Random, pods: Sequence[Object], nodes: Sequence[str]) -> Iterator[Object]:
    """Claims of pods' ephemeral volumes: some are not there yet, and few belong to another pod."""
    for pod in pods:
        for volume in pod["spec"].get("volumes", ()):
            if "ephemeral" not in volume or often(rng, 0.15):
                continue
            metadata = pod["metadata"]
            claim = _claim(rng, metadata["namespace"], f"{metadata['name']}-{volume['name']}", nodes)
            owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            strange = often(rng, 0.2 if "nodeName" not in pod["spec"] else 0.02)
            if strange and often(rng, 0.5):
                owner["uid"] = "another"
            claim["metadata"]["ownerReferences"] = [{**owner, "controller": not strange or owner["uid"] == "another"}]
            yield claim


def _settle(rng: random.Random, claim: Object, free: list[Object]) -> None:
    """Bind the claim, or not, or something in between. `free`: volumes that no claim has."""
    state = rng.random()
    if state < 0.35 and free:
        _bind(claim, free.pop(rng.randrange(len(free))))
    elif state < 0.37:
        _bind(claim, None)
    elif state < 0.39:
        claim["spec"]["volumeName"] = free[0]["metadata"]["name"] if free else "nowhere"  # to be bound, not yet
    elif state < 0.41:
        claim["spec"]["volumeName"] = "nowhere"
        claim["status"]["phase"] = "Lost"
    elif state < 0.47 and free:
        _promise(rng, claim, free.pop(rng.randrange(len(free))))


def _bind(claim: Object, volume: Object | None) -> None:
    """None: to a volume that is not there any more."""
    claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
    claim["spec"]["volumeName"] = "nowhere" if volume is None else volume["metadata"]["name"]
    claim["status"] = {"phase": "Bound"}
    if volume is not None:
        volume["spec"]["claimRef"] = _reference(claim)
        volume["status"] = {"phase": "Bound"}


def _promise(rng: random.Random, claim: Object, volume: Object) -> None:
    """The volume waits for this claim, or for one that had its name."""
    reference = _reference(claim)
    if often(rng, 0.4):
        del reference["uid"]
    elif often(rng, 0.2):
        reference["uid"] = "former"
    volume["spec"]["claimRef"] = reference


def _reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _csi_node(rng: random.Random, name: str) -> Object:
    metadata: Object = {"name": name}
    if often(rng, 0.6):
        metadata["annotations"] = {
            "storage.alpha.kubernetes.io/migrated-plugins": ",".join(sorted(some(rng, IN_TREE_DISKS, 4)))
        }
    drivers: list[Object] = []
    for driver in some(rng, DRIVERS, len(DRIVERS)) if often(rng, 0.9) else ():
        drivers.append({"name": driver, "nodeID": name, "topologyKeys": []})
        if often(rng, 0.7):
            drivers[-1]["allocatable"] = {"count": pick(rng, (0, 1, 1, 2, 3, 8))} if often(rng, 0.95) else {}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _csi_driver(rng: random.Random, name: str) -> Object:
    spec = {"storageCapacity": True} if often(rng, 0.6) else {}
    return {"metadata": {"name": name}, "spec": spec}


def _capacity(rng: random.Random, name: str, nodes: Sequence[str]) -> Object:
    made: Object = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": pick(rng, ("fast", "fast", "zonal", "disk")),
    }
    if often(rng, 0.9):
        made["nodeTopology"] = pick(
            rng,
            (
                {"matchLabels": {ZONE: pick(rng, ZONES)}},
                {"matchLabels": {HOSTNAME: pick(rng, nodes)}},
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": some(rng, ZONES, 2)}]},
                {},
            ),
        )
    sizes = ("0", "1Gi", "4Gi", "20Gi", "100Gi", "1e12")
    if often(rng, 0.9):
        made["capacity"] = pick(rng, sizes)
    if often(rng, 0.3):
        made["maximumVolumeSize"] = pick(rng, sizes)
    return made


def _attachment(rng: random.Random, name: str, nodes: Sequence[str], volumes: Sequence[Object]) -> Object:
    source: Object = {"persistentVolumeName": "nowhere" if often(rng, 0.1) else pick(rng, volumes)["metadata"]["name"]}
    if often(rng, 0.05):
        source = {"inlineVolumeSpec": {"csi": {"driver": CSI, "volumeHandle": "inline"}}}
    spec = {"attacher": pick(rng, DRIVERS[:4]), "nodeName": pick(rng, nodes), "source": source}
    return {"metadata": {"name": name}, "spec": spec}
