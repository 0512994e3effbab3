"""Complete Pod objects of waiting pods, for wasm plugins that read fields which the scheduler itself does not decode.

For such plugins the watch brings pods as documents, and the scheduler decodes its own pods from these, so that a pod is
never known without its document. A document is kept while its pod waits; an attempt that has begun keeps its own
reference to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from typing import Final

import msgspec

from kscheduler.api.decode import decode_or_report
from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod, PodSpec, PodStatus
from kscheduler.client.informer import Handler
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder

log = logging.getLogger(__name__)

MAX_BYTES = 512 << 20  # some 100,000 pods; of further waiting pods guests see only the fields that the scheduler reads
_PER_POD: Final = 1_500  # approximate bytes of a pod without its spec and status

_decode_spec = json_decoder(PodSpec)
_decode_status = json_decoder(PodStatus)
_encode = msgspec.json.Encoder().encode


class PodDocuments:
    def __init__(self, is_ours: Container[str], max_bytes: int = MAX_BYTES) -> None:
        """Build an empty store. `is_ours`: the scheduler names whose pods are kept."""
        self.pods: dict[str, PodDocument] = {}  # by uid
        self.bytes = 0  # approximate size of these
        self._is_ours = is_ours
        self._max_bytes = max_bytes
        self._is_full = False

    def read(self, document: PodDocument) -> Pod | None:
        """Decode the scheduler's pod from the document, and keep the document if the pod waits; None if unreadable."""
        pod = _pod_of(document)
        self.forget(document.metadata.uid)
        if pod is not None and not pod.spec.node_name and pod.spec.scheduler_name in self._is_ours:
            self._keep(document)
        return pod

    def forget(self, uid: str) -> None:
        document = self.pods.pop(uid, None)
        if document is not None:
            self.bytes -= _size(document)
            self._is_full = False

    def reader(self, keep: Callable[[Pod], Pod]) -> Callable[[PodDocument], Pod]:
        """Return a decoder for an informer: `read`, then `keep` on the pod.

        It raises DecodeError for an unreadable pod.
        """

        def read(document: PodDocument) -> Pod:
            pod = self.read(document)
            if pod is None:
                raise DecodeError(f"{document.key}: logged already")
            return keep(pod)

        return read

    def follow(self, handler: Handler[Pod]) -> Handler[Pod]:
        """Return the handler, extended so that the document of a deleted pod is dropped."""
        return _Following(handler, self)

    def _keep(self, document: PodDocument) -> None:
        # Decoded parts are views of the whole response; a copy lets its memory be freed.
        mine = PodDocument(document.metadata, document.spec.copy(), document.status.copy())
        if self.bytes + _size(mine) > self._max_bytes:
            if not self._is_full:
                log.warning(
                    "too many pods wait to keep all whole: guests see less of some", extra={"kept": len(self.pods)}
                )
            self._is_full = True
            return
        self.pods[mine.metadata.uid] = mine
        self.bytes += _size(mine)


class _Following:
    def __init__(self, handler: Handler[Pod], documents: PodDocuments) -> None:
        self.on_add = handler.on_add
        self.on_update = handler.on_update
        self._on_delete = handler.on_delete
        self._documents = documents

    def on_delete(self, pod: Pod) -> None:
        self._documents.forget(pod.metadata.uid)
        self._on_delete(pod)


def _size(document: PodDocument) -> int:
    return len(document.spec) + len(document.status) + _PER_POD


def _pod_of(document: PodDocument) -> Pod | None:
    try:
        return Pod(document.metadata, _decode_spec(document.spec), _decode_status(document.status))
    except DecodeError:  # decode again, slowly: accept nulls as Go does, or report the field at fault
        return decode_or_report(msgspec.Raw(_encode(document)), Pod, _log_bad)


def _log_bad(key: str, what: str) -> None:
    log.warning("object skipped, it cannot be read", extra={"kind": "Pod", "object": key, "err": what})
