"""Guests in WebAssembly's text format, as plugins, and what surrounds them in tests."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import wasmtime

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.client.protocol import Regarding
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, NoPermitWaits, PermitWaits
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod
from kscheduler.wasm.arguments import read_arguments
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.extension.plugin import plugin_class
from kscheduler.wasm.extension.surroundings import Surroundings
from kscheduler.wasm.loading.compiling import Version, compile_version
from kscheduler.wasm.loading.guest import Follower
from tests.support.clocks import ManualClock

# Host functions under short names, for guests to import those they use.
_IMPORTS = {
    "config": ("k8s.io/scheduler", "get_config", "i32 i32", "i32"),
    "pod": ("k8s.io/scheduler", "currentPod", "i32 i32", "i32"),
    "target": ("k8s.io/scheduler", "targetPod", "i32 i32", "i32"),
    "node_name": ("k8s.io/scheduler", "currentNodeName", "i32 i32", "i32"),
    "filtered": ("k8s.io/scheduler", "filteredNodeList", "i32 i32", "i32"),
    "images": ("k8s.io/scheduler", "nodeImageStates", "i32 i32 i32 i32", "i32"),
    "statuses": ("k8s.io/scheduler", "nodeToStatusMap", "i32 i32", "i32"),
    "scores": ("k8s.io/scheduler", "nodeScoreList", "i32 i32", "i32"),
    "events": ("k8s.io/scheduler", "result.cluster_events", "i32 i32", ""),
    "names": ("k8s.io/scheduler", "result.node_names", "i32 i32", ""),
    "nominate": ("k8s.io/scheduler", "result.nominated_node_name", "i32 i32", ""),
    "reason": ("k8s.io/scheduler", "result.status_reason", "i32 i32", ""),
    "normalized": ("k8s.io/scheduler", "result.normalized_score_list", "i32 i32", ""),
    "eventf": ("k8s.io/scheduler", "handle.eventrecorder.eventf", "i32 i32", ""),
    "reject": ("k8s.io/scheduler", "handle.reject_waiting_pod", "i32 i32 i32 i32", ""),
    "waiting": ("k8s.io/scheduler", "handle.get_waiting_pod", "i32 i32 i32 i32", ""),
    "node": ("k8s.io/api", "node", "i32 i32 i32 i32", "i32"),
    "node_list": ("k8s.io/api", "nodeList", "i32 i32", "i32"),
    "log": ("k8s.io/klog", "log", "i32 i32 i32", ""),
    "logs": ("k8s.io/klog", "logs", "i32 i32 i32 i32 i32", ""),
    "severity": ("k8s.io/klog", "severity", "", "i32"),
    "exit": ("wasi_snapshot_preview1", "proc_exit", "i32", ""),
    "print": ("wasi_snapshot_preview1", "fd_write", "i32 i32 i32 i32", "i32"),
}
_RESULTS = {"postfilter": "i64", "score": "i64", "permit": "i64"}
_NO_RESULT = {"enqueue", "unreserve", "postbind", "_start", "_initialize"}


def module(*imports: str, text: str = "", globals_: str = "", **exports: str) -> bytes:
    """A guest with `memory`, the imports named, and exports of these bodies. `text` stands at address 16."""
    lines = ["(module"]
    for name in imports:
        where, function, params, result = _IMPORTS[name]
        signature = (f"(param {params})" if params else "") + (f"(result {result})" if result else "")
        lines.append(f'(import "{where}" "{function}" (func ${name} {signature}))')
    lines.append(f'(memory (export "memory") 2) {globals_}')
    data = "".join(f"\\{byte:02x}" for byte in text.encode())
    lines.append(f'(data (i32.const 16) "{data}")')
    for name, body in exports.items():
        result = "" if name in _NO_RESULT else f"(result {_RESULTS.get(name, 'i32')})"
        lines.append(f'(func (export "{name}") {result} {body})')
    return wasm("\n".join([*lines, ")"]))


def wasm(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def pair(high: int, low: int) -> int:
    """The i64 that an export with two results returns."""
    value = (high & 0xFFFF_FFFF) << 32 | low & 0xFFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


def reason(text: str) -> str:
    """Instructions that set the status's reason to text at address 16."""
    return f"(call $reason (i32.const 16) (i32.const {len(text.encode())}))"


class Guest:
    """A guest as configured, with a version that is compiled already."""

    def __init__(self, data: bytes, name: str = "guest", **arguments: Any) -> None:
        self.name = name
        self.arguments = read_arguments({"guestURL": "file:///guest.wasm", "deadline": "200ms", **arguments}, "args")
        self.version = compiled(data, self.arguments.engine)
        self.followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        self.followers.append(follower)


@functools.lru_cache(maxsize=16)
def compiled(data: bytes, engine: str = "wasmtime") -> Version:
    """A large guest takes seconds, and what is compiled has no state."""
    return compile_version(data, "", engine_named(engine), None)


class Recorded:
    """Events that a guest asked for."""

    def __init__(self) -> None:
        self.events: list[tuple[Regarding, str, str, str, str, Regarding | None]] = []

    def record(
        self,
        regarding: Pod | Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None:
        assert isinstance(regarding, Regarding)
        self.events.append((regarding, type, reason, action, note, related))


class Room:
    """A plugin among nodes, asked by its methods, without a fence."""

    def __init__(
        self,
        data: bytes,
        nodes: Sequence[NodeBuilder | Node] = (),
        *,
        waiting_pods: PermitWaits | None = None,
        **arguments: Any,
    ) -> None:
        self.cache = Cache()
        for node in nodes or (make_node("n1"), make_node("n2"), make_node("n3")):
            self.cache.set_node(node if isinstance(node, Node) else node.obj())
        self.clock = ManualClock()
        self.recorder = Recorded()
        self.surroundings = Surroundings(recorder=self.recorder, clock=self.clock)
        self.guest = Guest(data, **arguments)
        handle = Handle(
            table=self.cache.table,
            rng=random.Random(0),
            waiting_pods=waiting_pods or NoPermitWaits(),
        )
        self.plugin: Any = plugin_class(self.guest, self.surroundings)({}, handle)
        self.handle = handle

    @property
    def pool(self) -> Any:
        return self.plugin._cycles.pool

    def node(self, name: str = "n1") -> Any:
        return self.cache.table.get(name)

    def filter(self, node: str = "n1", pod: Pod | PodBuilder | None = None, state: CycleState | None = None) -> Any:
        return self.plugin.filter(state or CycleState(), info(pod), self.node(node))


def info(pod: Pod | PodBuilder | None = None) -> PodInfo:
    if pod is None:
        pod = make_pod("p")
    return PodInfo(pod if isinstance(pod, Pod) else pod.obj())


OK = "(i32.const 0)"
OK64 = "(i64.const 0)"
STATUS_POINTS = {  # export that returns a status -> how the framework asks it
    "addpod": lambda room: room.plugin.add_pod(CycleState(), info(), info(), room.node()),
    "removepod": lambda room: room.plugin.remove_pod(CycleState(), info(), info(), room.node()),
    "filter": lambda room: room.filter(),
    "reserve": lambda room: room.plugin.reserve(CycleState(), info(), "n1"),
    "prebind": lambda room: run(room.plugin.pre_bind(CycleState(), info(), "n1")),
    "bind": lambda room: run(room.plugin.bind(CycleState(), info(), "n1")),
    "prefilter": lambda room: room.plugin.pre_filter(CycleState(), info())[1],
    "postfilter": lambda room: room.plugin.post_filter(CycleState(), info(), {})[1],
    "score": lambda room: room.plugin.score(CycleState(), info(), room.node())[1],
    "permit": lambda room: room.plugin.permit(CycleState(), info(), "n1")[0],
    "normalizescore": lambda room: room.plugin.normalize_score(CycleState(), info(), {}),
}


def run(work: Any) -> Any:
    """The answer of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def guest_with(export: str, body: str, **options: Any) -> bytes:
    """With what the export cannot be without."""
    others = {"prebind": "reserve", "addpod": "prefilter", "removepod": "prefilter", "postfilter": "filter"}
    exports = {export: body}
    if export in others:
        exports[others[export]] = OK
    if export == "normalizescore":
        exports["score"] = OK64
    return module("reason", **options, **exports)


def score_all(room: Room, state: CycleState, pod: Any) -> dict[str, int]:
    """As the framework does."""
    table, verdicts, scores = room.cache.table, Verdicts(), Scores()
    verdicts.reset(table.columns)
    scores.reset(table.columns)
    room.plugin.score_table(state, pod, table, verdicts, scores)
    room.plugin.normalize_table(state, pod, table, verdicts, scores)
    return {table.at(row).name: scores.raw(row) for row in verdicts.feasible_rows()}
