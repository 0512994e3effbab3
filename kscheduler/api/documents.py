"""Complete nodes and pods, as extenders receive them: fields that scheduling does not use are kept unchanged."""

from __future__ import annotations

import msgspec

from kscheduler.api.objects import APIStruct, Node, ObjectMeta, OwnerReference, Pod
from kscheduler.input.decoding import convert

_EMPTY = msgspec.Raw(b"{}")


class WholeOwner(OwnerReference, frozen=True):
    """An owner reference with the fields that only garbage collection reads."""

    block_owner_deletion: bool | None = None


class WholeMeta(ObjectMeta, frozen=True):
    """All of an object's metadata except managedFields."""

    owner_references: list[WholeOwner] | None = None  # type: ignore[assignment]
    generate_name: str = ""
    self_link: str = ""
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None


class _Document(APIStruct, frozen=True):
    """An object whose spec and status are kept as JSON."""

    metadata: WholeMeta = WholeMeta()
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY


class NodeDocument(_Document, frozen=True):
    @property
    def key(self) -> str:
        return self.metadata.name


class PodDocument(_Document, frozen=True):
    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


def node_document(node: Node) -> NodeDocument:
    """Return a node with the types of a complete one, made from the fields that scheduling uses."""
    return NodeDocument(*_parts(node))


def pod_document(pod: Pod) -> PodDocument:
    """Return a pod with the types of a complete one, made from the fields that scheduling uses."""
    return PodDocument(*_parts(pod))


def _parts(whole: Node | Pod) -> tuple[WholeMeta, msgspec.Raw, msgspec.Raw]:
    metadata = convert(whole.metadata, WholeMeta, from_attributes=True)
    return metadata, msgspec.Raw(msgspec.json.encode(whole.spec)), msgspec.Raw(msgspec.json.encode(whole.status))
