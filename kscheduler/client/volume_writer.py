"""Writes the patches that a pod's volumes need before the pod is bound; only while this replica leads.

Unlike a binding, a patch is not repeated here: it is for one version of its object, and its author must decide
again when that version has gone.
"""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.protocol import Client
from kscheduler.errors import NotLeading


class VolumeWriter:
    """Patches through a client. `may_write` is called before each patch."""

    def __init__(self, client: Client, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._may_write = may_write

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        """Patch a PersistentVolume. Raises APIErrors: Conflict if it is not in that version any more."""
        self._check(f"persistent volume {name}")
        return await self._client.patch_volume(name, resource_version, patch)

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        """Patch a PersistentVolumeClaim. Raises APIErrors: Conflict if it is not in that version any more."""
        self._check(f"claim {namespace}/{name}")
        return await self._client.patch_claim(namespace, name, resource_version, patch)

    def _check(self, what: str) -> None:
        if not self._may_write():
            raise NotLeading(f"{what} is not written: this replica does not hold the lease")
