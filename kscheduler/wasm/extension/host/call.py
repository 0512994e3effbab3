"""One call of a guest's export: the inputs that host functions return, and the answers that the guest gives them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.wasm.engine import Instance

log = logging.getLogger(__name__)


class Call:
    """The inputs and answers of one call.

    Inputs that the export does not use are empty; lists are encoded when they are read.
    """

    __slots__ = (
        "_lists",
        "events",
        "later",
        "lines",
        "node_name",
        "node_names",
        "nominated",
        "normalized",
        "pod",
        "reason",
        "recorded",
        "target",
    )

    def __init__(
        self,
        pod: Pod | PodDocument | None = None,
        node_name: str = "",
        *,
        target: Pod | PodDocument | None = None,
        filtered: Sequence[str] | None = None,
        statuses: Callable[[], Mapping[str, int]] | None = None,
        scores: Mapping[str, int] | None = None,
        later: list[Callable[[], None]] | None = None,
    ) -> None:
        """Set the inputs of a call.

        `target` is the pod added or removed, `filtered` the feasible nodes; `statuses` returns codes by node name.
        `later` collects the guest's actions, such as Events, if the calling thread must not do them; None to do them at
        once.
        """
        self.pod = pod
        self.node_name = node_name.encode("utf-8", "replace")
        self.target = target
        self._lists: dict[str, object] = {"filtered": filtered, "statuses": statuses, "scores": scores}
        self.later = later
        self.lines = 0  # log messages so far
        self.recorded = 0  # Events so far
        self.begin()

    def begin(self) -> None:
        """Clear the answers before a call with the same inputs about another node."""
        self.reason = ""
        self.events = b""
        self.node_names: list[str] | None = None
        self.nominated = ""
        self.normalized: bytes | None = None  # as JSON

    def act(self, action: Callable[[], None]) -> None:
        """Do an action of the guest, such as recording an Event, or add it to `later` to be done on another thread."""
        if self.later is None:
            action()
        else:
            self.later.append(action)

    @property
    def filtered(self) -> bytes:
        return self._written("filtered", [])

    @property
    def statuses(self) -> bytes:
        return self._written("statuses", {})

    @property
    def scores(self) -> bytes:
        return self._written("scores", {})

    def _written(self, name: str, nothing: object) -> bytes:
        """Return an input as JSON, encoded only once so that a guest's two calls for its size and its bytes agree."""
        value = self._lists[name]
        if not isinstance(value, bytes):
            if callable(value):
                value = value()
            value = go_json(nothing if value is None else value)
            self._lists[name] = value
        return value


def call_of(instance: Instance) -> Call:
    """Return the current call of the instance; one without inputs while the instance starts."""
    call = instance.data
    if not isinstance(call, Call):
        call = instance.data = Call()
    return call


def invoke(instance: Instance, export: str, call: Call) -> Any:
    """Call the export with these inputs, and return its result."""
    instance.data = call
    value = instance.call(export)
    forget_output(instance)
    return value


def forget_output(instance: Instance) -> None:
    output = instance.output
    if output.data or output.dropped:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("guest printed", extra={"output": output.text()})
        output.clear()


def go_json(value: object) -> bytes:
    """Encode a value as compact JSON with sorted keys, as Go's encoder does."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
