"""VolumeBinding among nodes and volumes: what it says of each node, with its two forms held against each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.volumebinding.plugin import VolumeBinding
from kscheduler.framework.status import SKIP, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes
from kscheduler.testing import NodeBuilder, PodBuilder

CODE = 7


class Judge:
    def __init__(self, nodes: Sequence[NodeBuilder] = (), **handle: Any) -> None:
        self.cache = Cache()
        for node in nodes:
            self.cache.set_node(node.obj())
        self.volumes = Volumes()
        self.handle = Handle(table=self.cache.table, rng=random.Random(0), volumes=self.volumes, **handle)
        self.plugin = VolumeBinding(self.handle, bind_timeout_s=10.0)
        self.state = CycleState()

    def pre_filter(self, pod: PodBuilder) -> Status | None:
        self.state = CycleState()
        return self.plugin.pre_filter(self.state, PodInfo(pod.obj()))[1]

    def filter(self, pod: PodBuilder) -> dict[str, Status | None]:
        """Node name -> why the pod cannot go there, as both forms say."""
        status = self.pre_filter(pod)
        if status is not None:
            return {node.name: None if status is SKIP else status for node in self.cache.table}
        info = PodInfo(pod.obj())
        found = {node.name: self.plugin.filter(self.state, info, node) for node in self.cache.table}
        assert self.filter_table(info) == found
        return found

    def filter_table(self, info: PodInfo) -> dict[str, Status | None]:
        table, verdicts = self.cache.table, Verdicts()
        verdicts.reset(table.columns)
        self.plugin.filter_table(self.state, info, table, verdicts, CODE)
        return {
            node.name: None
            if verdicts.code(node.row) == FEASIBLE
            else self.plugin.explain(self.state, info, verdicts.detail(node.row))
            for node in table
        }
