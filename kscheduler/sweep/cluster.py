"""Creates a sweep's Job on a cluster with the user's kubeconfig, and reads the logs of its pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from kscheduler.client.credentials import load_credentials
from kscheduler.client.transport import Transport
from kscheduler.clock import Clock
from kscheduler.errors import APIError
from kscheduler.input.decoding import decode_document
from kscheduler.sweep.job import CONTAINER, JOB_LABEL, Manifest, owned_by

TIMEOUT_S = 60.0
MAX_LOG_BYTES = 1 << 28
MAX_LIST_BYTES = 1 << 28
_PLURALS = {"Job": "apis/batch/v1/namespaces/{}/jobs", "ConfigMap": "api/v1/namespaces/{}/configmaps"}


class SweepCluster:
    """The requests of a sweep to one apiserver."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(self, manifests: Sequence[Manifest]) -> None:
        """Create the Job, which comes first, and its ConfigMaps, which it owns. Raises APIError."""
        job = decode_document(await self._post(manifests[0]))
        for manifest in manifests[1:]:
            await self._post(owned_by(manifest, job))

    async def pods(self, namespace: str, job: str) -> list[tuple[str, str]]:
        """Return (name, phase) of the Job's pods, by name. Raises APIError."""
        query = urlencode({"labelSelector": f"{JOB_LABEL}={job}"})
        path = f"/api/v1/namespaces/{quote(namespace)}/pods?{query}"
        answer: Any = decode_document(
            await self._transport.request("GET", path, timeout_s=TIMEOUT_S, limit_bytes=MAX_LIST_BYTES)
        )
        items = answer.get("items") if isinstance(answer, dict) else None
        found = [(pod["metadata"]["name"], (pod.get("status") or {}).get("phase", "")) for pod in items or ()]
        return sorted(found)

    async def log(self, namespace: str, pod: str) -> bytes:
        """Return what the pod has printed. Raises APIError."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log?container={CONTAINER}"
        return await self._transport.request("GET", path, timeout_s=TIMEOUT_S, accept="*/*", limit_bytes=MAX_LOG_BYTES)

    async def _post(self, manifest: Manifest) -> bytes:
        path = "/" + _PLURALS[manifest["kind"]].format(quote(manifest["metadata"]["namespace"]))
        try:
            return await self._transport.request("POST", path, timeout_s=TIMEOUT_S, body=msgspec.json.encode(manifest))
        except APIError as error:
            if error.reason == "AlreadyExists":
                raise APIError(f"{error}: delete it, or choose another --job-name", status=error.status) from error
            raise


@asynccontextmanager
async def connected(clock: Clock, kubeconfig: str) -> AsyncIterator[SweepCluster]:
    """Connect with a kubeconfig, by default that of the environment. Raises ConfigError."""
    transport = Transport(await load_credentials(clock, kubeconfig=kubeconfig), clock)
    try:
        yield SweepCluster(transport)
    finally:
        await transport.close()
