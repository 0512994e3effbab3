"""Reads pods from the lines of a watch by their JSON text: of pods with equal texts only the first is decoded.

Pods of one template differ in their names, uids and resource versions, in the node that they are bound to, and in the
name of the volume with their service account's token, which the scheduler ignores. So only the outline of a line is
decoded. The parts are taken from an earlier pod whose text was equal byte by byte, except for the names of node and
volume in the same places. A line with anything unusual is left to the ordinary decoder, which also reports what is
wrong with it.
"""

from __future__ import annotations

import msgspec

from kscheduler._fast import cut_names
from kscheduler.api.objects import APIStruct, ObjectMeta, Pod, PodSpec, PodStatus
from kscheduler.api.sharing import OF_SPEC, PENDING, PodParts, PodSharing, Shared
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import FAULTS, bare_json_decoder, json_decoder

MAX_TEXT_BYTES = 8 << 20  # of texts: 4,000 plain templates, pending and bound, or 400 of 10 kB; twice while they change
MAX_LINE_BYTES = 4 << 10  # longer ones are decoded as fast as their texts are looked through; below MAX_TEXT
MAX_STATUS_BYTES = 512  # of a status that may be any other pod's: before the kubelet has written to it
MOST_LUCK = 512  # lines: when so many more were new than known, lines are not looked at
PASSED_OVER = 1_000  # that many

_NODE = b'"nodeName":"'
_CLAIMS = b"esourceClaimStatus"  # of a field that names claims, which no other pod's status does
_BOUND = b"\x01"  # no JSON holds this byte
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_NONE = msgspec.Raw(b"")
_UNKNOWABLE: PodParts = ()  # stored for a text with which pods may still have different parts

_encode = msgspec.msgpack.Encoder().encode


class _Meta(APIStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: msgspec.Raw = _NONE
    annotations: msgspec.Raw = _NONE
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: msgspec.Raw = _NONE


class _Outline(APIStruct, frozen=True):
    metadata: _Meta
    spec: msgspec.Raw = _NONE
    status: msgspec.Raw = _NONE


class _Line(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _Outline


class _WholeLine(msgspec.Struct, frozen=True, gc=False):
    object: Pod


_decode = bare_json_decoder(_Line)
_decode_whole = json_decoder(_WholeLine)
_decode_status = json_decoder(PodStatus)


class PodTexts:
    """Remembers the JSON texts of pods, so that a pod with an equal text need not be decoded again.

    One instance serves one informer, whose `sharing` it uses.
    """

    def __init__(self, sharing: PodSharing, max_bytes: int = MAX_TEXT_BYTES) -> None:
        self._sharing = sharing
        self._strings = sharing.strings
        self._parts: Shared[PodParts] = Shared(max_bytes)  # text of labels, annotations, owners and spec -> parts
        self._statuses: Shared[PodStatus] = Shared()  # text -> status
        self._luck = MOST_LUCK
        self._passing_over = 0  # lines

    def read(self, line: bytes) -> tuple[str, Pod] | None:
        """Return a watch line's event type and its pod, made smaller by `PodSharing.keep`; None if it must be decoded.

        The line must be valid UTF-8.
        """
        if len(line) > MAX_LINE_BYTES:
            return None
        if self._passing_over:
            self._passing_over -= 1
            return None
        try:
            event = _decode(line)
        except FAULTS:
            return None
        if event.type not in _CHANGES:
            return None
        try:
            pod = event.object
            # 1. The names that are each pod's own are cut out of its text.
            meta = pod.metadata
            key, node, token = cut_names(pod.spec, meta.labels, meta.annotations, meta.owner_references)
            node_name = node.decode()
            # 2. What is left is looked up.
            parts = self._parts.young.get(key)
            if parts is None:
                parts = self._parts.find(key)
            if parts is None:
                parts = self._learn(key, line, node_name, token)
            elif self._luck < MOST_LUCK:
                self._luck += 1
            if not parts:
                return None
            text = bytes(pod.status)
            status = self._statuses.young.get(text + _BOUND if node_name else text)
            if status is None:
                status = self._status(text, bool(node_name))
        except (DecodeError, UnicodeDecodeError):
            return None
        # 3. The pod is put together.
        # Nearly all are there. To look them up by `strings[text]` costs more, since a class of ours has `__missing__`.
        strings, known, created = self._strings, self._strings.get, meta.creation_timestamp
        namespace = known(meta.namespace) or strings[meta.namespace]
        labels, annotations, owners = parts[:PENDING]
        return event.type, Pod(
            ObjectMeta(
                meta.name,
                namespace,
                meta.uid,
                meta.resource_version,
                meta.generation,
                labels,
                annotations,
                created and (known(created) or strings[created]),
                meta.deletion_timestamp,
                owners,
            ),
            PodSpec(known(node_name) or strings[node_name], *parts[OF_SPEC:]) if node_name else parts[PENDING],
            status,
        )

    def _learn(self, key: bytes, line: bytes, node_name: str, token: bytes) -> PodParts:
        """Decode a whole line, and store the pod's parts for further lines with an equal text. Raises DecodeError."""
        self._luck -= 1
        if self._luck < 0:
            self._luck = MOST_LUCK // 2
            self._passing_over = PASSED_OVER
            self._parts.clear()  # most of them are of templates with one pod, and take more memory than the pod
        pod = _decode_whole(line).object
        parts = self._sharing.template(pod.metadata, pod.spec)
        # Was the name cut out that of the node, and is the other one nowhere else but in what nobody reads?
        is_node = pod.spec.node_name == node_name and line.count(_NODE) == bool(node_name)
        if not is_node or (token and token in _encode(parts)):
            parts = _UNKNOWABLE
        self._parts.keep(key, parts)
        return parts

    def _status(self, text: bytes, is_bound: bool) -> PodStatus:
        if len(text) > MAX_STATUS_BYTES or _CLAIMS in text:
            return self._sharing.share_status(_decode_status(text), is_bound)
        key = text + _BOUND if is_bound else text
        found = self._statuses.find(key)
        if found is None:
            status = _decode_status(text) if text else PodStatus()
            found = self._sharing.share_status(status, is_bound)
            self._statuses.keep(key, found)
        return found
