"""The well-known labels of nodes and volumes that state where they are."""

from __future__ import annotations

from collections.abc import Iterable

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
BETWEEN_ZONES = "__"  # in the zone label of a volume that is in several
_FIRST_SHOWN = (REGION, ZONE, "node.kubernetes.io/instance-type")


def in_shown_order(keys: Iterable[str]) -> list[str]:
    """Return labels by which a page can group nodes: the well-known ones first, from wide to narrow, then by name."""
    place = {key: at for at, key in enumerate(_FIRST_SHOWN)}
    return sorted(keys, key=lambda key: (place.get(key, len(place)), key))
