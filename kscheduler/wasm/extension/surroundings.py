"""The services of the scheduler that plugins of the extension ABI use, in addition to the framework's Handle.

All of them have defaults, so that a plugin can be made without a scheduler; a scheduler sets them before or after the
plugins are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kscheduler.clock import Clock
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.event_recorder import Recorder
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder, WholeObjects
from kscheduler.wasm.guest_log import LogRules
from kscheduler.wasm.pool import PoolObserver
from kscheduler.wasm.quarantine import QuarantineRules


@dataclass(slots=True)
class Surroundings:
    """The services that a scheduler gives to all its wasm plugins."""

    whole: WholeObjects | None = None  # None: no complete pod and node objects are stored
    encoder: ObjectEncoder | None = None  # one for all guests, so that each object is encoded once; None: one each
    recorder: Recorder | None = None  # None: Events are dropped
    clock: Clock | None = None  # for quarantines and limits of logs; None: the handle's stopwatch
    observer: PoolObserver | None = None
    threads: BindingThreads | None = None  # for binding cycles; None: the caller's thread, as in simulations
    quarantine: QuarantineRules = field(default_factory=QuarantineRules)
    log_rules: LogRules = field(default_factory=LogRules)
    filter_threads: BindingThreads | None = None  # for Filter on many nodes; None: the caller's thread
