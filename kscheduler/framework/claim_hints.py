"""The PersistentVolumeClaims that waiting pods use, for queueing hints; shared by the volume plugins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from kscheduler.api.objects import Pod
from kscheduler.api.storage import PersistentVolumeClaim, claim_name_of
from kscheduler.framework.events import Grouping
from kscheduler.framework.narrowing import Narrowing, Options


def claim_names(pod: Pod) -> list[str]:
    """Return the names of a pod's claims, possibly repeated, without the claims of its generic ephemeral volumes."""
    volumes = pod.spec.volumes or ()
    return [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]


def claim_keys(pod: Pod) -> frozenset[str]:
    """Return the namespace/name of a pod's claims, including the claims of its generic ephemeral volumes."""
    names = (claim_name_of(pod, volume)[0] for volume in pod.spec.volumes or ())
    return frozenset(f"{pod.metadata.namespace}/{name}" for name in names if name)


def after_claim(waiting: Pod, old: object, new: object) -> bool:
    """Return True for an event about one of the pod's own claims; a queueing hint. False for other pods' claims."""
    return not isinstance(new, PersistentVolumeClaim) or new.key in claim_keys(waiting)


def by_claims(claims_of: Callable[[Pod], frozenset[str]]) -> Grouping:
    """Return the Grouping of waiting pods by their claims (namespace/name), with a hint index by claim."""
    return Grouping(lambda pod: claims_of(pod.pod), lambda: Narrowing(_options, _brought))


def _options(claims: Hashable) -> Sequence[Options]:
    return [[tuple(claims)]] if isinstance(claims, frozenset) else [[]]


def _brought(old: object, new: object) -> Sequence[str] | None:
    return [new.key] if isinstance(new, PersistentVolumeClaim) else None


BY_CLAIMS = by_claims(claim_keys)
