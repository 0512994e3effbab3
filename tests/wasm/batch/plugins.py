"""Plugins of fake guests, on a table of nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.plugin_class import make_class
from kscheduler.wasm.batch.version import BatchVersion, Surroundings
from kscheduler.wasm.engine import Module
from tests.support.clocks import ManualClock
from tests.wasm.batch.fake_guest import FakeModule, ListGuest

URL = "file:///guest.wasm"


async def bind_nothing(pod: PodInfo, node_name: str) -> None:
    pass


def make_table(*nodes: NodeBuilder) -> NodeTable:
    table = NodeTable()
    for node in nodes or (make_node("a"), make_node("b"), make_node("c")):
        table.set_node(node.obj())
    return table


def info(pod: Pod | PodBuilder) -> PodInfo:
    return PodInfo(pod.obj() if isinstance(pod, PodBuilder) else pod)


class Made:
    """A plugin, its table, and what is behind it."""

    def __init__(
        self, module: Module, table: NodeTable, arguments: WasmArguments, around: Surroundings | None = None
    ) -> None:
        self.clock = ManualClock()
        self.events: list[tuple[str, str, str, str]] = []
        self.module: Any = module
        self.table = table
        self.handle = Handle(table=table, rng=random.Random(0), bind=bind_nothing)
        around = around or Surroundings(clock=self.clock, record=self._record)
        self.kind = make_class("Fake", BatchVersion("Fake", module, arguments, around), around)
        self.plugin: Any = self.kind({}, self.handle)

    def _record(self, pod: PodInfo, kind: str, reason: str, note: str) -> None:
        self.events.append((pod.key, kind, reason, note))

    @property
    def guest(self) -> ListGuest:
        """The one that was instantiated last."""
        found: ListGuest = self.module.made[-1].guest
        return found


def make(
    answer: Callable[[ListGuest, int, Any], Any] = lambda guest, point, question: {},
    *,
    points: Sequence[str] = ("score",),
    table: NodeTable | None = None,
    policy: str = "fail",
    config: str = "",
    guest: ListGuest | None = None,
    **describe: Any,
) -> Made:
    module = FakeModule(guest or ListGuest(points=points, describe=describe, answer=answer))
    arguments = WasmArguments(guest_url=SecretURL(URL), failure_policy=policy, guest_config=Secret(config))
    return Made(module, make_table() if table is None else table, arguments)


POD = info(make_pod("web").label(app="web"))


def one(**answer: Any) -> dict[str, Any]:
    return {"pods": [answer]}


def filter_all(made: Made, state: CycleState | None = None, pod: PodInfo = POD) -> Verdicts:
    verdicts = Verdicts()
    verdicts.reset(made.table.columns)
    made.plugin.filter_table(state or CycleState(), pod, made.table, verdicts, 1)
    return verdicts


def score_all(made: Made, state: CycleState | None = None) -> list[int]:
    verdicts, scores = Verdicts(), Scores()
    verdicts.reset(made.table.columns)
    scores.reset(made.table.columns)
    state = state or CycleState()
    made.plugin.score_table(state, POD, made.table, verdicts, scores)
    if hasattr(made.plugin, "normalize_table"):
        made.plugin.normalize_table(state, POD, made.table, verdicts, scores)
    return [scores.raw(row) for row in range(scores.rows)]
