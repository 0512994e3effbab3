"""The pods and nodes of the cluster, encoded for guests."""

from __future__ import annotations

import operator

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Node, Pod
from kscheduler.errors import DecodeError
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.wasm.engine import FaultKind, GuestFault
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
from kscheduler.wasm.extension.host.call import go_json


class World:
    def __init__(self, table: NodeTable, encoder: ObjectEncoder) -> None:
        self._table = table
        self._encoder = encoder
        self._list: tuple[list[Node], bytes] = [], b""  # all nodes and their bytes, replaced as a pair: threads read it

    def whole(self, pod: Pod) -> Pod | PodDocument:
        """Return the pod's complete object if it is stored, otherwise the pod as given."""
        return self._encoder.whole(pod)

    def pod(self, pod: Pod | PodDocument | None) -> bytes:
        if pod is None:
            return b""
        try:
            return self._encoder.pod(pod)
        except DecodeError as error:
            raise GuestFault(FaultKind.HOST, f"pod {pod.key} cannot be shown to the guest: {error}") from error

    @property
    def node_changes(self) -> int:
        """The number of node changes so far, in the fields that scheduling decisions read."""
        return self._table.node_changes.count

    def node_object(self, row: int) -> object:
        """Return the object that guests get for the node in this row, a new object after a change; None for no node."""
        info = self._table.find(row)
        return None if info is None else self._encoder.source(info.node)

    def node(self, name: str) -> bytes:
        """Return the encoded node; b"" for an unknown node. Raises GuestFault if it cannot be encoded."""
        info = self._table.get(name)
        if info is None:
            return b""
        try:
            return self._encoder.node(info.node)
        except DecodeError as error:
            raise GuestFault(FaultKind.HOST, f"node {name} cannot be shown to the guest: {error}") from error

    def node_list(self) -> bytes:
        """Return the encoded list of all nodes, encoded again if one has changed.

        Raises GuestFault if it cannot be encoded.
        """
        nodes = [info.node for info in self._table]
        listed, data = self._list
        if not data or len(nodes) != len(listed) or not all(map(operator.is_, nodes, listed)):
            try:
                data = self._encoder.node_list(nodes)
            except DecodeError as error:
                raise GuestFault(FaultKind.HOST, f"the nodes cannot be shown to the guest: {error}") from error
            self._list = nodes, data
        return data

    def image_states(self, name: str) -> bytes:
        """Return the states of a node's images as JSON; `null` for an unknown node."""
        info = self._table.get(name)
        if info is None:
            return b"null"
        found: dict[str, object] = {}
        for image in info.node.status.images or ():
            for image_name in image.names or ():
                state = self._table.images.get(image_name)
                if state is not None:
                    found[image_name] = {"Size": state.size_bytes, "NumNodes": len(state), "Nodes": None}
        return go_json(found)
