"""Encodes pods and nodes for guests, once for each version of an object.

Guests get the complete object if it is stored; otherwise the fields that the scheduler decodes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Node, Pod
from kscheduler.input.decoding import decode_document
from kscheduler.wasm.extension.encoding.messages import delimited, encode, tag

T = TypeVar("T")

_LIST_META = tag(1) + delimited(encode("ListMeta", {}))
_ITEM = tag(2)

# Limits: a pod's bytes are needed while it is scheduled and bound; all nodes of a large cluster must fit.
MAX_POD_BYTES = 16 << 20
MAX_NODE_BYTES = 256 << 20
_PER_ENTRY = 256  # approximate overhead of an entry, in bytes


class WholeObjects(Protocol):
    """Returns complete pod and node objects with all fields; None for an object that is not stored, or not yet."""

    def pod(self, pod: Pod) -> PodDocument | None: ...

    def node(self, name: str) -> NodeDocument | None: ...


class ObjectEncoder:
    """Encodes pods and nodes as protobuf. Raises DecodeError for an object with a value of the wrong type."""

    def __init__(self, whole: WholeObjects | None = None) -> None:
        """Build the encoder. `whole` is None if no complete objects are stored."""
        self._whole = whole
        self._pods: _Kept[str] = _Kept(MAX_POD_BYTES)  # pod uid -> its bytes
        self._nodes: _Kept[str] = _Kept(MAX_NODE_BYTES)  # node name -> its bytes

    def whole(self, pod: Pod) -> Pod | PodDocument:
        """Return the pod's complete object if there is one, else the pod.

        Callers keep it, as it is stored only while the pod waits.
        """
        return (None if self._whole is None else self._whole.pod(pod)) or pod

    def pod(self, source: Pod | PodDocument) -> bytes:
        """Encode the pod. `source` is what `whole` returned."""
        uid = source.metadata.uid
        return self._pods.find(uid, source) or self._pods.keep(uid, source, encode("Pod", _document(source)))

    def source(self, node: Node) -> Node | NodeDocument:
        """Return the object that `node` would encode: the complete node if it is stored, otherwise the node itself."""
        return (None if self._whole is None else self._whole.node(node.metadata.name)) or node

    def node(self, node: Node) -> bytes:
        name = node.metadata.name
        source = self.source(node)
        return self._nodes.find(name, source) or self._nodes.keep(name, source, encode("Node", _document(source)))

    def node_list(self, nodes: Iterable[Node]) -> bytes:
        parts = [_LIST_META]
        for node in nodes:
            parts.append(_ITEM)
            parts.append(delimited(self.node(node)))
        return b"".join(parts)


def _document(source: Pod | Node | PodDocument | NodeDocument) -> dict[str, Any]:
    if isinstance(source, (PodDocument, NodeDocument)):
        return {
            "metadata": msgspec.to_builtins(source.metadata),
            "spec": decode_document(source.spec),
            "status": decode_document(source.status),
        }
    document: dict[str, Any] = msgspec.to_builtins(source)
    return document


class _Kept(Generic[T]):
    """A cache of encoded objects, limited in bytes; it drops the least recently used first. It is thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the two below
        self._bytes = 0
        self._entries: OrderedDict[T, tuple[object, bytes]] = OrderedDict()  # key -> the object, its bytes

    def find(self, key: T, source: object) -> bytes | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[0] is not source:
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def keep(self, key: T, source: object, data: bytes) -> bytes:
        """Store the bytes of an object and return them.

        A different `source` object under the key means another version.
        """
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self._bytes -= len(replaced[1]) + _PER_ENTRY
            self._entries[key] = (source, data)
            self._bytes += len(data) + _PER_ENTRY
            while self._bytes > self._limit and len(self._entries) > 1:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= len(dropped) + _PER_ENTRY
        return data
