"""What the scheduler lends the plugins of this interface, beside the Handle that every plugin gets.

All of it has a default that does without, so that a plugin can be made where no scheduler runs; whoever builds one
fills it in, before or after the plugins are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.client.protocol import Regarding
from kscheduler.clock import Clock
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.extension.encoding.objects import NoWholeObjects, ObjectEncoder, WholeObjects
from kscheduler.wasm.pool import PoolObserver
from kscheduler.wasm.quarantine import QuarantineRules


class Recorder(Protocol):
    """Where guests' Events go; `client.recorder.EventRecorder` is one."""

    def record(
        self,
        regarding: Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None: ...


@dataclass(slots=True)
class Surroundings:
    """One for all plugins of a scheduler."""

    whole: WholeObjects = field(default_factory=NoWholeObjects)
    encoder: ObjectEncoder | None = None  # one for all guests, so that each object is encoded once; None: one each
    recorder: Recorder | None = None  # None: Events are left out
    clock: Clock | None = None  # for quarantines; None: the handle's stopwatch
    observer: PoolObserver | None = None
    threads: BindingThreads | None = None  # for binding cycles; None: guests run on the caller's, as in a simulation
    quarantine: QuarantineRules = field(default_factory=QuarantineRules)
    filter_threads: BindingThreads | None = None  # the same, where a guest is asked about many nodes
