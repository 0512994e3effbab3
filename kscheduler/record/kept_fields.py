"""What a record keeps of an object: the fields that a decision can read, and nothing that may be a secret.

Objects are recorded as the structs of `api`, which have no field for an environment, a command or a Secret's name. Of
annotations, which may hold anything (`kubectl apply` puts the whole manifest there), those of Kubernetes and of this
project are kept, since decisions read some of them.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kscheduler.api.objects import APIObject

_DOMAINS = ("kubernetes.io", "k8s.io", "kscheduler.io")
# Manifests as they were applied; results of simulated decisions, which grow without end.
_LEFT_OUT = ("kubectl.kubernetes.io", "kube-scheduler-simulator.sigs.k8s.io")

_encode = msgspec.json.Encoder().encode


def encoded(obj: APIObject) -> msgspec.Raw:
    """Return the object as JSON, as it is recorded."""
    annotations = obj.metadata.annotations
    if annotations:
        kept = {name: value for name, value in annotations.items() if _is_kept(name)}
        if len(kept) < len(annotations):
            obj = replace(obj, metadata=replace(obj.metadata, annotations=kept or None))
    return msgspec.Raw(_encode(obj))


def _is_kept(annotation: str) -> bool:
    domain = annotation.partition("/")[0] if "/" in annotation else ""
    return domain not in _LEFT_OUT and any(domain == each or domain.endswith(f".{each}") for each in _DOMAINS)
