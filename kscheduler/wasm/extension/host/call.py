"""One call of a guest's export: what it may ask for while it runs, and what it answers beside its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.wasm.engine import Instance


class Call:
    """Inputs that the export has no use for are empty. Lists are written when first asked for, and once."""

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
        """`target`: the pod added or removed. `filtered`: the nodes that passed. `statuses`: node name -> code.

        `later`: where to leave what the guest sets going, if that is not for the calling thread to do.
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
        """Forget what was answered: the call is made again, for another node."""
        self.reason = ""
        self.events = b""
        self.node_names: list[str] | None = None
        self.nominated = ""
        self.normalized: bytes | None = None  # as JSON

    def act(self, action: Callable[[], None]) -> None:
        """What the guest sets going outside of it."""
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
        """Both calls of the guest get the same bytes."""
        value = self._lists[name]
        if not isinstance(value, bytes):
            if callable(value):
                value = value()
            value = go_json(nothing if value is None else value)
            self._lists[name] = value
        return value


def call_of(instance: Instance) -> Call:
    """The call that the instance is in; an empty one while it starts."""
    call = instance.data
    if not isinstance(call, Call):
        call = instance.data = Call()
    return call


def go_json(value: object) -> bytes:
    """As Go's encoder orders it: keys sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
