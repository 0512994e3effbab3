"""Connects the plugins of both ABIs with a scheduler.

The plugin classes are made while a configuration is read, when there is no scheduler yet. So plugins get a `Lender`
with the scheduler's services, which the scheduler fills in later. Until then no metrics are counted and no Events
recorded.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Pod
from kscheduler.client.protocol import Regarding
from kscheduler.clock import Clock
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.event_recorder import Recorder
from kscheduler.wasm.guest_log import LogRules
from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.loading.guest import Guest
from kscheduler.wasm.pool import PoolObserver
from kscheduler.wasm.quarantine import QuarantineRules

if TYPE_CHECKING:
    from kscheduler.wasm.extension.encoding.objects import ObjectEncoder

# Makes a guest's plugin class, which is called with arguments and handle; its methods are the extension points.
PluginClass = Callable[[Guest], type[Any]]

BATCH_EVENT_ACTION = "Scheduling"  # action of Events: guests of the batch ABI cannot give one

CONFIGURATION = "KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1"  # Events about plugins regard it


class Lender:
    """A scheduler's clock, pool observer, Event recorder and complete objects, once a scheduler has set them."""

    def __init__(
        self,
        *,
        has_threads: bool = False,
        observer: PoolObserver | None = None,
        quarantine: QuarantineRules | None = None,
        log_rules: LogRules | None = None,
    ) -> None:
        """Start without a scheduler. `has_threads`: guests may also run on other threads.

        `observer` is used until a scheduler attaches its own.
        """
        self.quarantine = quarantine or QuarantineRules()
        self.log_rules = log_rules or LogRules()
        self.threads = BindingThreads() if has_threads else None
        # Separate threads, since those above may all wait for slow guests that bind. One core is left to the loop.
        cores = max(1, len(os.sched_getaffinity(0)) - 1)
        self.filter_threads = BindingThreads(cores) if has_threads else None
        self.encoder: ObjectEncoder | None = None  # made with the first guest of the extension ABI
        self._clock: Clock | None = None
        self._observer = observer
        self._recorder: Recorder | None = None
        self._thread = 0  # the scheduler's thread, which alone may record Events
        self._nodes: Mapping[str, NodeDocument] = {}  # by name
        self._pods: Mapping[str, PodDocument] = {}  # by uid

    def attach(
        self,
        *,
        clock: Clock,
        observer: PoolObserver,
        recorder: Recorder,
        nodes: Mapping[str, NodeDocument],
        pods: Mapping[str, PodDocument] = MappingProxyType({}),
    ) -> None:
        self._clock, self._observer, self._recorder = clock, observer, recorder
        self._nodes, self._pods = nodes, pods
        self._thread = threading.get_ident()

    # --- clock ---

    def now(self) -> float:
        return time.monotonic() if self._clock is None else self._clock.now()

    def wall(self) -> float:
        return time.time() if self._clock is None else self._clock.wall()

    # --- complete objects ---

    def pod(self, pod: Pod) -> PodDocument | None:
        """Return the complete object of a pod that waits; None for pods on nodes, which are too many to store."""
        return self._pods.get(pod.metadata.uid)

    def node(self, name: str) -> NodeDocument | None:
        return self._nodes.get(name)

    # --- pools ---

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        if self._observer is not None:
            self._observer.wasm_called(plugin, seconds, fault)

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        if self._observer is not None:
            self._observer.wasm_sizes(plugin, instances, memory_pages)

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        if self._observer is not None:
            self._observer.wasm_quarantined(plugin, quarantined, reason)
        kind, what = ("Warning", "PluginQuarantined") if quarantined else ("Normal", "PluginAdmitted")
        self._record_of_plugin(plugin, kind, what, reason or "its guest is called again")

    # --- Events ---

    def record_refusal(self, plugin: str, why: str) -> None:
        """Record an Event that a new version of a guest was refused."""
        self._record_of_plugin(plugin, "Warning", "PluginVersionRefused", f"{why}; the version that runs goes on")

    def record_replacement(self, plugin: str, sha256: str) -> None:
        self._record_of_plugin(plugin, "Normal", "PluginReplaced", f"now runs sha256 {sha256}")

    def _record_of_plugin(self, plugin: str, kind: str, reason: str, note: str) -> None:
        # An Event's repetitions are counted and keep its first note. The note's digest sets those with another apart,
        # such as the refusal of the next version.
        digest = hashlib.blake2b(note.encode(), digest_size=8).hexdigest()
        regarding = Regarding(*CONFIGURATION, "", _object_name(plugin), "", resource_version=digest)
        self.record(regarding, type=kind, reason=reason, action=BATCH_EVENT_ACTION, note=f"plugin {plugin}: {note}")

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
        """Record an Event on the scheduler's thread, also from a thread that runs a guest in a binding cycle.

        Events from other threads are dropped, as they come from the trial of a new version.
        """
        if self._recorder is None:
            return
        recording = partial(
            self._recorder.record,
            regarding,
            type=type,
            reason=reason,
            action=action,
            note=note,
            controller=controller,
            related=related,
        )
        if threading.get_ident() == self._thread:
            recording()
        elif self.threads is not None and self.threads.is_one_current:
            self.threads.hand_over(recording)

    def record_of_pod(self, pod: PodInfo, kind: str, reason: str, note: str) -> None:
        self.record(pod.pod, type=kind, reason=reason, action=BATCH_EVENT_ACTION, note=note)


def _object_name(plugin: str) -> str:
    """Return the plugin's name as a valid Kubernetes object name, with which the names of its Events begin."""
    return re.sub(r"[^a-z0-9]+", "-", plugin.lower()).strip("-") or "plugin"


def host_of(abi: Abi, lender: Lender) -> PluginClass:
    """Return the function that makes plugin classes for an ABI. Imports the ABI's modules only when they are needed."""
    if abi is Abi.BATCH:
        from kscheduler.wasm.batch.plugin_class import plugin_class as batch_class
        from kscheduler.wasm.batch.version import Surroundings as BatchSurroundings

        around = BatchSurroundings(
            clock=lender,
            observer=lender,
            record=lender.record_of_pod,
            threads=lender.threads,
            quarantine=lender.quarantine,
            log_rules=lender.log_rules,
        )
        return lambda guest: batch_class(guest, around)
    from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
    from kscheduler.wasm.extension.plugin import plugin_class as extension_class
    from kscheduler.wasm.extension.surroundings import Surroundings

    lender.encoder = lender.encoder or ObjectEncoder(lender)
    surroundings = Surroundings(
        whole=lender,
        encoder=lender.encoder,
        recorder=lender,
        clock=lender,
        observer=lender,
        threads=lender.threads,
        filter_threads=lender.filter_threads,
        quarantine=lender.quarantine,
        log_rules=lender.log_rules,
    )
    return lambda guest: extension_class(guest, surroundings)
