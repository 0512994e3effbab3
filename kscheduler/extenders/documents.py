"""Nodes and pods whole, as extenders get to see them: fields that no decision of ours reads are kept as they came."""

from __future__ import annotations

import msgspec

from kscheduler.api.objects import APIStruct, ObjectMeta

_EMPTY = msgspec.Raw(b"{}")


class WholeMeta(ObjectMeta, frozen=True):
    """All of an object's metadata but managedFields, which only tell who wrote what."""

    generate_name: str = ""
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None


class NodeDocument(APIStruct, frozen=True):
    """A node with its spec and status as JSON."""

    metadata: WholeMeta = WholeMeta()
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY

    @property
    def key(self) -> str:
        return self.metadata.name
