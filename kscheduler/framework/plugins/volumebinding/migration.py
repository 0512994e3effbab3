"""Node affinity of in-tree volumes on nodes where a CSI driver has replaced the in-tree plugin.

A node's CSINode lists the in-tree plugins that are migrated there. On such a node the affinity of their volumes uses
the CSI driver's zone label, which is the one that the node then has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.api.storage import MIGRATED_PLUGINS, CSINode, PersistentVolume
from kscheduler.api.topology_labels import BETA_REGION, BETA_ZONE, BETWEEN_ZONES, REGION, ZONE
from kscheduler.framework.csi_migration import (
    MIGRATED,
    NotTranslatable,
    gce_region,
    gce_zones,
    kind_of,
)

_EBS_URL = re.compile(r"aws://[^/?#]*/+vol-[^/]*/*")


def in_tree_plugin(volume: PersistentVolume) -> str:
    """Return the name of a volume's in-tree plugin if kube-scheduler knows its migration to CSI; else ""."""
    kind = kind_of(volume)
    return kind.plugin if kind in MIGRATED else ""


def is_migrated(plugin: str, csi_node: CSINode | None) -> bool:
    if csi_node is None:
        return False
    return plugin in (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "").split(",")


def migrated_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Return the volume's required node affinity for nodes where its plugin is migrated. Raises NotTranslatable."""
    spec = volume.spec
    if spec.aws_elastic_block_store is not None:
        _check_ebs(spec.aws_elastic_block_store.volume_id)
        return _under_zone_label(volume, "topology.ebs.csi.aws.com/zone")
    if spec.gce_persistent_disk is not None:
        _check_gce(volume)
        return _under_zone_label(volume, "topology.gke.io/zone")
    if spec.azure_disk is not None and (spec.azure_disk.kind or "Managed").lower() != "managed":
        raise NotTranslatable(f"kind({spec.azure_disk.kind}) is not supported in csi migration")
    if spec.cinder is not None:
        return _under_zone_label(volume, "topology.cinder.csi.openstack.org/zone")
    return _required(volume)  # azure and portworx keep their labels


def _check_ebs(volume_id: str) -> None:
    if volume_id.startswith("aws://") and not _EBS_URL.fullmatch(volume_id):
        raise NotTranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )


def _check_gce(volume: PersistentVolume) -> None:
    """Raise NotTranslatable unless the zones of a regional disk of GCE are in one region."""
    zones = gce_zones(volume)
    if len(zones) > 1:
        try:
            gce_region(zones)
        except NotTranslatable as error:
            raise NotTranslatable(f"failed to get region from zones: {error}") from None


def _under_zone_label(volume: PersistentVolume, csi_zone: str) -> NodeSelector | None:
    """Return the affinity with the zone under the CSI driver's label: renamed, or taken from the volume's labels."""
    zone, region = _labels_in_use(volume)
    terms = _terms(volume)
    if _has_values(terms, zone):
        terms = _rename(terms, zone, csi_zone)
    elif zone in (volume.metadata.labels or {}):
        terms = _add(terms, csi_zone, (volume.metadata.labels or {})[zone].split(BETWEEN_ZONES))
    if region == BETA_REGION and _has_values(terms, region):
        terms = _rename(terms, region, REGION)
    if not terms:
        return _required(volume)
    return NodeSelector(node_selector_terms=terms)


def _labels_in_use(volume: PersistentVolume) -> tuple[str, str]:
    """Return the keys of the (zone, region) labels that the volume uses, in its affinity or else among its labels."""
    keys = {need.key for term in _terms(volume) for need in term.match_expressions or ()}
    for found in (keys, set(volume.metadata.labels or {})):
        if ZONE in found:
            return ZONE, REGION
        if BETA_ZONE in found:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _required(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.node_affinity
    return None if affinity is None else affinity.required


def _terms(volume: PersistentVolume) -> list[NodeSelectorTerm]:
    required = _required(volume)
    return [] if required is None else required.node_selector_terms


def _has_values(terms: Sequence[NodeSelectorTerm], key: str) -> bool:
    return any(need.key == key and need.values for term in terms for need in term.match_expressions or ())


def _rename(terms: Sequence[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        replace(
            term,
            match_expressions=[
                replace(need, key=new) if need.key == old else need for need in term.match_expressions or ()
            ],
        )
        for term in terms
    ]


def _add(terms: Sequence[NodeSelectorTerm], key: str, zones: Sequence[str]) -> list[NodeSelectorTerm]:
    values = sorted({zone.strip() for zone in zones} - {""})
    if not values:
        return list(terms)
    need = SelectorRequirement(key, "In", values)
    return [
        replace(term, match_expressions=[*(term.match_expressions or ()), need])
        for term in terms or [NodeSelectorTerm()]
    ]
