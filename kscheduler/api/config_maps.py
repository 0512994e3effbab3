"""ConfigMaps: their metadata and texts."""

from __future__ import annotations

import msgspec

from kscheduler.api.objects import APIStruct, ObjectMeta


class ConfigMap(APIStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"
