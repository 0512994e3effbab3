"""The wasm plugins of a configuration, as classes that the framework makes plugins of; and the watch for new versions.

One object serves the whole program: a configuration is read several times at start, and each guest is fetched once.
Which class a guest becomes is for the host of its binary interface. What it takes to load one is imported when the
first is loaded: most programs have none, and should start as fast.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kscheduler.client.concurrency import run_together
from kscheduler.clock import Clock
from kscheduler.errors import ConfigError, KSchedulerError

if TYPE_CHECKING:
    from kscheduler.api.documents import NodeDocument, PodDocument
    from kscheduler.wasm.engine import Engine
    from kscheduler.wasm.loading.abi import Abi
    from kscheduler.wasm.loading.download import DownloadLimits
    from kscheduler.wasm.loading.guest import Guest
    from kscheduler.wasm.loading.reload import Reloader, ReloadObserver
    from kscheduler.wasm.loading.scheduler_link import Lender, PluginClass, Recorder
    from kscheduler.wasm.pool import PoolObserver

T = TypeVar("T")


class GuestPlugins:
    """Implements `framework.out_of_tree.GuestClasses`."""

    def __init__(
        self,
        *,
        cache_dir: str | None = "",
        hosts: Mapping[Abi, PluginClass] | None = None,
        engine: Callable[[str], Engine] | None = None,
        limits: DownloadLimits | None = None,
        reloads: bool = True,
        is_trial: bool = False,
    ) -> None:
        """`cache_dir`: of compiled guests, as in `--plugin-cache-dir`: None for the default place, "" for none.

        Hosts, engines and limits are this program's own if they are None. `reloads` False: no guest is ever
        replaced, nor called on another thread, as in a simulation, which has a time of its own. `is_trial`: nor is
        any left alone after faults.
        """
        self._cache_dir = cache_dir
        self._hosts = hosts
        self._engine = engine
        self._limits = limits
        self._reloads = reloads
        self._is_trial = is_trial
        self._lender: Lender | None = None  # made with the first guest
        self._classes: dict[tuple[str, str], tuple[Guest, type[Any]]] = {}  # (plugin name, its arguments) -> made

    @property
    def guests(self) -> list[Guest]:
        return [guest for guest, _ in self._classes.values()]

    def is_guest(self, document: Any) -> bool:
        """Whether a plugin with these arguments is a wasm plugin."""
        from kscheduler.wasm.arguments import is_wasm

        return is_wasm(document)

    def class_of(self, name: str, document: Any, path: str) -> type[Any]:
        """The plugin's class; `path` is where its arguments stand. Fetches, so it may take as long as a download.

        Raises ConfigError.
        """
        key = (name, json.dumps(document, sort_keys=True, default=repr))
        if key not in self._classes:
            try:
                guest = self._load(name, document, path)
                self._classes[key] = guest, self._host(guest)(guest)
            except KSchedulerError as error:  # also an engine that is not installed, and a guest that cannot start
                text = str(error)
                raise ConfigError(text if path in text else f"{path}: {text}") from error
        return self._classes[key][1]

    def _load(self, name: str, document: Any, path: str) -> Guest:
        from kscheduler.wasm.arguments import read_arguments
        from kscheduler.wasm.engines import engine_named
        from kscheduler.wasm.loading.compiled_cache import open_cache
        from kscheduler.wasm.loading.download import DEFAULT_LIMITS
        from kscheduler.wasm.loading.fetch import Fetcher
        from kscheduler.wasm.loading.guest import Guest

        arguments = read_arguments(document, path)
        fetcher = Fetcher(
            arguments.guest_url,
            sha256=arguments.sha256,
            allow_insecure=arguments.allow_insecure,
            limits=self._limits or DEFAULT_LIMITS,
        )
        fetched = run_apart(fetcher.fetch())
        engine = self._engine or engine_named
        return Guest(name, arguments, fetcher, fetched, lambda: engine(arguments.engine), open_cache(self._cache_dir))

    def _host(self, guest: Guest) -> PluginClass:
        from kscheduler.wasm.loading.scheduler_link import Lender, host_of
        from kscheduler.wasm.quarantine import NO_QUARANTINE, QuarantineRules

        abi = guest.interface.abi
        assert abi is not None  # a guest without one is refused when it is read
        if self._hosts is not None:
            return self._hosts[abi]
        rules = NO_QUARANTINE if self._is_trial else QuarantineRules()
        self._lender = self._lender or Lender(has_threads=self._reloads, quarantine=rules)
        return host_of(abi, self._lender)

    # --- with a scheduler ---

    @property
    def needs_nodes(self) -> bool:
        """Does some guest want to see nodes whole?"""
        return any(guest.interface.sees_nodes for guest in self.guests)

    @property
    def needs_pods(self) -> bool:
        """The same of pods."""
        return any(guest.interface.sees_pods for guest in self.guests)

    @property
    def keep_answers(self) -> bool:
        """Does one not ask again as long as pod and node object are as they were?"""
        return any(guest.arguments.pure for guest in self.guests)

    def attach(
        self,
        *,
        clock: Clock,
        observer: PoolObserver,
        recorder: Recorder,
        nodes: Mapping[str, NodeDocument],
        pods: Mapping[str, PodDocument],
    ) -> None:
        """What the plugins of all guests use from now on; by the scheduler, in the thread of its loop.

        `nodes`: name -> node, whole; `pods`: uid -> pod that waits, whole. Empty unless somebody needs them.
        """
        if self._lender is not None:
            self._lender.attach(clock=clock, observer=observer, recorder=recorder, nodes=nodes, pods=pods)

    async def watch(self, observer: ReloadObserver) -> None:
        """Look for new versions of those guests that are to be reloaded. Runs until cancelled."""
        changing = [guest for guest in self.guests if self._reloads and guest.arguments.is_reloaded]
        await run_together(asyncio.Event().wait(), *(self.reloader(guest, observer).run() for guest in changing))

    def reloader(self, guest: Guest, observer: ReloadObserver) -> Reloader:
        """What looks for new versions of one guest."""
        from kscheduler.wasm.loading.canary import Canary
        from kscheduler.wasm.loading.reload import Reloader

        canary = Canary(guest, partial(self._host_aside, guest))
        return Reloader(guest, observer, canary=canary, recorder=self._lender)

    def _host_aside(self, guest: Guest, observer: PoolObserver) -> PluginClass:
        """For plugins that no scheduler knows of."""
        from kscheduler.wasm.loading.scheduler_link import Lender, host_of

        abi = guest.interface.abi
        assert abi is not None
        return self._hosts[abi] if self._hosts is not None else host_of(abi, Lender(observer=observer))


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Its result, from a loop of its own in a thread of its own: the caller may be inside a loop, or outside of any."""
    result: list[T] = []
    fault: list[BaseException] = []

    def run() -> None:
        try:
            result.append(asyncio.run(work))
        except BaseException as error:
            fault.append(error)

    thread = threading.Thread(target=run, name="guest-fetch")
    thread.start()
    thread.join()
    if fault:
        raise fault[0]
    return result[0]
