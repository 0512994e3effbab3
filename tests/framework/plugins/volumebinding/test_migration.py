"""In-tree volumes as their CSI drivers see them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kscheduler.api.objects import (
    AWSElasticBlockStore,
    AzureDisk,
    Cinder,
    GCEPersistentDisk,
    NodeSelector,
    PortworxVolume,
    VsphereVolume,
)
from kscheduler.api.storage import PersistentVolume
from kscheduler.framework.csi_migration import NotTranslatable
from kscheduler.framework.plugins.volumebinding.migration import (
    in_tree_plugin,
    is_migrated,
    migrated_affinity,
)
from tests.framework.plugins.volumebinding.objects import make_csi_node, make_volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
GKE = "topology.gke.io/zone"


def disk(on: Mapping[str, list[str]] | None = None, **labels: str) -> PersistentVolume:
    """A GCE disk; labels by their short names."""
    names = {"zone": ZONE, "beta_zone": BETA_ZONE}
    named = {names[label]: value for label, value in labels.items()}
    return make_volume("v", on=on, labels=named, gce_persistent_disk=GCEPersistentDisk("d"))


def needs(selector: NodeSelector | None) -> list[dict[str, list[str]]] | None:
    if selector is None:
        return None
    return [
        {need.key: need.values or [] for need in term.match_expressions or ()} for term in selector.node_selector_terms
    ]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (disk({ZONE: ["a"], REGION: ["r"]}), [{GKE: ["a"], REGION: ["r"]}]),
        (disk({BETA_ZONE: ["a"], BETA_REGION: ["r"]}), [{GKE: ["a"], REGION: ["r"]}]),
        (disk({"rack": ["1"]}), [{"rack": ["1"]}]),
        # The volume's label counts where the affinity does not speak of zones.
        (disk({"rack": ["1"]}, zone="a"), [{"rack": ["1"], GKE: ["a"]}]),
        (disk(zone="a"), [{GKE: ["a"]}]),
        (disk(beta_zone="us-r1-b__us-r1-a"), [{GKE: ["us-r1-a", "us-r1-b"]}]),
        (disk({ZONE: ["a"]}, zone="b"), [{GKE: ["a"]}]),
        (disk({ZONE: ["a"]}, beta_zone="b"), [{GKE: ["a"]}]),
        (disk(zone=""), None),
        (disk(), None),
    ],
)
def test_zones_go_under_the_drivers_label(volume: PersistentVolume, expected: object) -> None:
    assert needs(migrated_affinity(volume)) == expected


@pytest.mark.parametrize(
    ("volume", "plugin", "expected"),
    [
        (
            make_volume("v", on={ZONE: ["a"]}, aws_elastic_block_store=AWSElasticBlockStore("aws://a/vol-1")),
            "kubernetes.io/aws-ebs",
            [{"topology.ebs.csi.aws.com/zone": ["a"]}],
        ),
        (
            make_volume("v", on={ZONE: ["a"]}, cinder=Cinder("1")),
            "kubernetes.io/cinder",
            [{"topology.cinder.csi.openstack.org/zone": ["a"]}],
        ),
        (
            make_volume("v", on={ZONE: ["a"]}, azure_disk=AzureDisk(kind="Managed")),
            "kubernetes.io/azure-disk",
            [{ZONE: ["a"]}],
        ),
        (
            make_volume("v", on={ZONE: ["a"]}, portworx_volume=PortworxVolume("1")),
            "kubernetes.io/portworx-volume",
            [{ZONE: ["a"]}],
        ),
        # Kube-scheduler leaves this one as it is.
        (make_volume("v", on={ZONE: ["a"]}, vsphere_volume=VsphereVolume("1")), "", [{ZONE: ["a"]}]),
        (make_volume("v"), "", None),
    ],
)
def test_each_plugin_has_its_label(volume: PersistentVolume, plugin: str, expected: object) -> None:
    assert in_tree_plugin(volume) == plugin
    assert needs(migrated_affinity(volume)) == expected


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        (make_volume("v", azure_disk=AzureDisk(kind="Shared")), "kind(Shared) is not supported in csi migration"),
        (
            make_volume("v", aws_elastic_block_store=AWSElasticBlockStore("aws://a/nonsense")),
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://a/nonsense)",
        ),
        (
            disk(zone="a__b"),
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            disk(zone="us-r1-a__us-r2-a"),
            "failed to get region from zones: multiple or no regions gotten from zones, got: map[us-r1:{} us-r2:{}]",
        ),
    ],
)
def test_what_a_driver_cannot_have_is_reported(volume: PersistentVolume, words: str) -> None:
    with pytest.raises(NotTranslatable) as fault:
        migrated_affinity(volume)
    assert str(fault.value) == words


def test_a_node_says_what_is_migrated_there() -> None:
    csi_node = make_csi_node("n", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd")
    assert is_migrated("kubernetes.io/gce-pd", csi_node)
    assert not is_migrated("kubernetes.io/cinder", csi_node)
    assert not is_migrated("kubernetes.io/cinder", make_csi_node("n"))
    assert not is_migrated("kubernetes.io/cinder", None)
