"""Checks whether the holder of the Lease has provably ended, so that a candidate need not wait for the Lease to expire.

The proof is the status of exactly that Pod, recognised by its uid, as the kubelet reports it: every container is
terminated. A missing Pod is no proof: it may have been deleted by force while its process still runs behind a broken
network. The phase Failed alone is no proof either, because controllers set it for nodes that no longer respond. There
is one other proof: if the holder was an earlier container of our own Pod and this process is the first one of the
current container, then the earlier container ended before this one was started.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping

import msgspec

from kscheduler.api.documents import PodDocument
from kscheduler.client.concurrency import within
from kscheduler.client.protocol import Client
from kscheduler.errors import APIError, ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder

log = logging.getLogger(__name__)

QUESTION_S = 1.0  # a longer wait for the answer is not worth it: the Lease runs out as well


class _State(msgspec.Struct, frozen=True):
    terminated: dict[str, object] | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: list[msgspec.Raw] = []


_decode_status = json_decoder(_Status)
_decode_spec = json_decoder(_Spec)


class GoneHolder:
    """Checks Lease holders that are Pods of our own namespace; any other holder is never considered to have ended."""

    def __init__(self, client: Client, namespace: str, pod_name: str, pod_uid: str, *, is_first_process: bool) -> None:
        self._client = client
        self._namespace = namespace
        self._pod_uid = pod_uid
        self._is_first_process = is_first_process
        self.identity = f"{pod_name}_{pod_uid}_{uuid.uuid4()}"

    @classmethod
    def from_environment(cls, client: Client, environ: Mapping[str, str] = os.environ) -> GoneHolder:
        """Create a checker from POD_NAMESPACE, POD_NAME and POD_UID, as the downward API sets them.

        Raises ConfigError.
        """
        missing = [name for name in ("POD_NAMESPACE", "POD_NAME", "POD_UID") if not environ.get(name)]
        if missing:
            raise ConfigError(f"--leader-elect-replace-ended-holder: not in the environment: {', '.join(missing)}")
        # In a container of its own the first process, or a child of it; one that was executed in it later is neither.
        is_first = os.getpid() == 1 or os.getppid() == 1
        return cls(client, environ["POD_NAMESPACE"], environ["POD_NAME"], environ["POD_UID"], is_first_process=is_first)

    async def __call__(self, identity: str) -> bool:
        """Return True if the process that wrote this identity into the Lease has ended. Never raises."""
        name, _, rest = identity.partition("_")
        uid, _, process = rest.partition("_")
        if not (name and uid and process) or identity == self.identity:
            return False
        if uid == self._pod_uid:
            return self._is_first_process
        try:
            pod = await within(QUESTION_S, self._client.get_pod_document(self._namespace, name))
            has_ended = pod.metadata.uid == uid and all_containers_ended(pod)
        except (TimeoutError, APIError, DecodeError) as error:
            log.debug("holder of the lease not known to have ended", extra={"holder": identity, "err": str(error)})
            return False
        if has_ended:
            log.info("the holder of the lease has ended: not waiting for its lease", extra={"holder": identity})
        return has_ended


def all_containers_ended(pod: PodDocument) -> bool:
    """Return True if the kubelet reports that each container and the Pod have ended. Raises DecodeError."""
    status = _decode_status(pod.status)
    containers = _decode_spec(pod.spec).containers
    reported = status.container_statuses or []
    return (
        status.phase in ("Succeeded", "Failed")
        and 0 < len(containers) == len(reported)
        and all(container.state.terminated is not None for container in reported)
    )
