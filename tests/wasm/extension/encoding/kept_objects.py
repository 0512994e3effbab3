"""Objects that a test keeps whole."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Pod


class KeptObjects:
    """As watches keep them. `pods`: uid -> pod; `nodes`: name -> node."""

    def __init__(self, pods: Mapping[str, PodDocument], nodes: Mapping[str, NodeDocument]) -> None:
        self._pods = pods
        self._nodes = nodes

    def pod(self, pod: Pod) -> PodDocument | None:
        return self._pods.get(pod.metadata.uid)

    def node(self, name: str) -> NodeDocument | None:
        return self._nodes.get(name)
