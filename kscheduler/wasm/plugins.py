"""The wasm plugins of a configuration, as plugin classes for the framework; they are replaced when new versions appear.

One object serves the whole program: a configuration is read several times at start, and each guest is downloaded only
once. Each of the two ABIs has a function that makes plugin classes. The modules needed to load guests are imported with
the first guest: most configurations have none, and their start should not be slower for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kscheduler.client.concurrency import run_together
from kscheduler.clock import Clock
from kscheduler.errors import ConfigError, KSchedulerError

if TYPE_CHECKING:
    from kscheduler.api.documents import NodeDocument, PodDocument
    from kscheduler.wasm.engine import Engine
    from kscheduler.wasm.event_recorder import Recorder
    from kscheduler.wasm.loading.abi import Abi
    from kscheduler.wasm.loading.guest import Guest
    from kscheduler.wasm.loading.reload import Reloader, ReloadObserver
    from kscheduler.wasm.pool import PoolObserver
    from kscheduler.wasm.scheduler_link import Lender, PluginClass


class GuestPlugins:
    """The wasm plugins of all profiles, as plugin classes. Implements `framework.out_of_tree.GuestClasses`."""

    def __init__(
        self,
        *,
        cache_dir: str | None = "",
        hosts: Mapping[Abi, PluginClass] | None = None,
        engine: Callable[[str], Engine] | None = None,
        reloads: bool = True,
        is_trial: bool = False,
    ) -> None:
        """Create an empty collection; guests are loaded when a configuration names them.

        `cache_dir` is the directory of compiled guests, as `--plugin-cache-dir`: None for the default, "" for none.
        `hosts` and `engine` have defaults if they are None. With `reloads` False guests are never replaced,
        nor called on other threads, as a simulation in virtual time needs. With `is_trial` guests are never quarantined
        after faults, and may log without a limit.
        """
        self._cache_dir = cache_dir
        self._hosts = hosts
        self._engine = engine
        self._reloads = reloads
        self._is_trial = is_trial
        self._lender: Lender | None = None  # made with the first guest
        self._classes: dict[tuple[str, str], tuple[Guest, type[Any]]] = {}  # by (plugin name, arguments as JSON)

    @property
    def guests(self) -> list[Guest]:
        return [guest for guest, _ in self._classes.values()]

    def is_guest(self, document: Any) -> bool:
        """Return whether a plugin with these arguments is a wasm plugin."""
        from kscheduler.wasm.arguments import is_wasm

        return is_wasm(document)

    def class_of(self, name: str, document: Any, path: str) -> type[Any]:
        """Return the plugin's class, downloading the guest if needed. `path` locates the arguments, for messages.

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
        from kscheduler.wasm.loading.apart import run_apart
        from kscheduler.wasm.loading.compiled_cache import open_cache
        from kscheduler.wasm.loading.fetch import Fetcher
        from kscheduler.wasm.loading.guest import Guest

        arguments = read_arguments(document, path)
        fetcher = Fetcher(
            arguments.guest_url,
            sha256=arguments.sha256,
            allow_insecure=arguments.allow_insecure,
        )
        fetched = run_apart(fetcher.fetch())
        engine = self._engine or engine_named
        return Guest(name, arguments, fetcher, fetched, lambda: engine(arguments.engine), open_cache(self._cache_dir))

    def _host(self, guest: Guest) -> PluginClass:
        from kscheduler.wasm.guest_log import NO_LOG_LIMIT, LogRules
        from kscheduler.wasm.quarantine import NO_QUARANTINE, QuarantineRules
        from kscheduler.wasm.scheduler_link import Lender, host_of

        abi = guest.interface.abi
        assert abi is not None  # a guest without one is refused when it is read
        if self._hosts is not None:
            return self._hosts[abi]
        if self._lender is None:
            quarantine, log_rules = (NO_QUARANTINE, NO_LOG_LIMIT) if self._is_trial else (QuarantineRules(), LogRules())
            self._lender = Lender(has_threads=self._reloads, quarantine=quarantine, log_rules=log_rules)
        return host_of(abi, self._lender)

    # --- with a scheduler ---

    @property
    def needs_nodes(self) -> bool:
        """True if any guest needs complete node objects."""
        return any(guest.interface.sees_nodes for guest in self.guests)

    @property
    def needs_pods(self) -> bool:
        """True if any guest needs complete pod objects."""
        return any(guest.interface.sees_pods for guest in self.guests)

    @property
    def keep_answers(self) -> bool:
        """True if any guest is declared pure, so that its answers are cached until the pod or node objects change."""
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
        """Connect the plugins of all guests to a scheduler's clock, observer, recorder and objects.

        Call it on its loop's thread. `nodes` are complete nodes by name, `pods` complete waiting pods by uid. Both are
        empty unless a guest needs them.
        """
        if self._lender is not None:
            self._lender.attach(clock=clock, observer=observer, recorder=recorder, nodes=nodes, pods=pods)

    async def watch(self, observer: ReloadObserver) -> None:
        """Check regularly for new versions of the guests whose reloading is configured, until cancelled."""
        changing = [guest for guest in self.guests if self._reloads and guest.arguments.is_reloaded]
        await run_together(asyncio.Event().wait(), *(self.reloader(guest, observer).run() for guest in changing))

    def reloader(self, guest: Guest, observer: ReloadObserver) -> Reloader:
        """Create the Reloader that checks one guest for new versions."""
        from kscheduler.wasm.loading.canary import try_out
        from kscheduler.wasm.loading.reload import Reloader

        canary = partial(try_out, guest, partial(self._host_aside, guest))
        return Reloader(
            guest,
            observer,
            canary=canary,
            recorder=self._lender,
            keeps_nodes=self.needs_nodes,
            keeps_pods=self.needs_pods,
        )

    def _host_aside(self, guest: Guest, observer: PoolObserver) -> PluginClass:
        """Return a function that makes plugin classes for trials: without a scheduler, and reporting to `observer`."""
        from kscheduler.wasm.scheduler_link import Lender, host_of

        abi = guest.interface.abi
        assert abi is not None
        return self._hosts[abi] if self._hosts is not None else host_of(abi, Lender(observer=observer))
