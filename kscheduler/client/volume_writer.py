"""Writes the patches of PersistentVolumes and claims that a pod needs before it is bound, while this replica leads.

Unlike a binding, a patch is not repeated here: it is made for one version of its object, and the plugin must decide
again when that version is outdated.
"""

from __future__ import annotations

from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.protocol import Client
from kscheduler.client.write_permission import WritePermission


class VolumeWriter:
    """Patches PersistentVolumes and PersistentVolumeClaims through a client."""

    def __init__(self, client: Client, permission: WritePermission) -> None:
        self._client = client
        self._permission = permission

    async def patch_volume(self, name: str, resource_version: str, patch: dict[str, object]) -> PersistentVolume:
        """Patch a PersistentVolume. Raises an APIError, which is Conflict if the volume has another version now."""
        self._permission.check(f"persistent volume {name} is not written")
        return await self._client.patch_volume(name, resource_version, patch)

    async def patch_claim(
        self, namespace: str, name: str, resource_version: str, patch: dict[str, object]
    ) -> PersistentVolumeClaim:
        """Patch a PersistentVolumeClaim. Raises an APIError, which is Conflict if the claim has another version now."""
        self._permission.check(f"claim {namespace}/{name} is not written")
        return await self._client.patch_claim(namespace, name, resource_version, patch)
