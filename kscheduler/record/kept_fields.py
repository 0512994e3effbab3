"""Selects what a record contains of an object: the fields that decisions can depend on, and nothing that may be secret.

Objects are recorded as the structs of `api`, which have no field for environment variables, commands or names of
Secrets. Annotations may contain anything (`kubectl apply` stores the whole manifest in one), so only those of
Kubernetes and of this project are recorded, since decisions depend on some of them.
"""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from kscheduler.api.objects import APIObject

_DOMAINS = ("kubernetes.io", "k8s.io", "kscheduler.io")
# Domains not recorded: the manifests that kubectl applied; results of simulated decisions, which grow without end.
_LEFT_OUT = ("kubectl.kubernetes.io", "kube-scheduler-simulator.sigs.k8s.io")

LEFT_OUT = "record.kscheduler.io/left-out"  # annotation with the digest of those that are not recorded

_encode = msgspec.json.Encoder().encode


def encoded(obj: APIObject, key: bytes = b"") -> msgspec.Raw:
    """Return the object as JSON, with only what a record may contain.

    With a `key`, a digest under that key stands for the annotations that are left out, so that a change of them is a
    change in the record, too. Without the key, which is not recorded, the digest cannot be used to guess them.
    """
    annotations = obj.metadata.annotations
    if annotations:
        kept = {name: value for name, value in annotations.items() if _is_kept(name)}
        if len(kept) < len(annotations):
            if key:
                kept[LEFT_OUT] = _digest({name: annotations[name] for name in annotations.keys() - kept.keys()}, key)
            obj = replace(obj, metadata=replace(obj.metadata, annotations=kept or None))
    return msgspec.Raw(_encode(obj))


def _digest(annotations: dict[str, str], key: bytes) -> str:
    return hashlib.blake2b(_encode(sorted(annotations.items())), digest_size=8, key=key).hexdigest()


def _is_kept(annotation: str) -> bool:
    domain = annotation.partition("/")[0] if "/" in annotation else ""
    return domain not in _LEFT_OUT and any(domain == each or domain.endswith(f".{each}") for each in _DOMAINS)
