"""The wasm plugins of a configuration, as classes that the framework makes plugins of; and the watch for new versions.

One object serves the whole program: a configuration is read several times at start, and each guest is fetched once.
Which class a guest becomes is for the host of its binary interface.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kscheduler.client.concurrency import run_together
from kscheduler.errors import ConfigError
from kscheduler.wasm.arguments import is_wasm, read_arguments
from kscheduler.wasm.engine import Engine
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.loading.compiled_cache import CompiledCache
from kscheduler.wasm.loading.download import DEFAULT_LIMITS, DownloadLimits
from kscheduler.wasm.loading.fetch import Fetcher, LoadError
from kscheduler.wasm.loading.guest import Guest
from kscheduler.wasm.loading.reload import Reloader, ReloadObserver

T = TypeVar("T")

# From a guest to the class of its plugin: called with arguments and handle, its methods are the extension points.
PluginClass = Callable[[Guest], type[Any]]


class GuestPlugins:
    """Implements `framework.out_of_tree.GuestClasses`."""

    def __init__(
        self,
        *,
        hosts: Mapping[Abi, PluginClass] | None = None,
        engine: Callable[[str], Engine] = engine_named,
        cache: CompiledCache | None = None,
        limits: DownloadLimits = DEFAULT_LIMITS,
        reloads: bool = True,
    ) -> None:
        """`hosts` None: those of this program, imported when the first guest asks for one.

        `reloads` False: no guest is ever replaced, as in a simulation, which has a time of its own.
        """
        self._hosts = hosts
        self._engine = engine
        self._cache = cache
        self._limits = limits
        self._reloads = reloads
        self._classes: dict[tuple[str, str], tuple[Guest, type[Any]]] = {}  # (plugin name, its arguments) -> made

    @property
    def guests(self) -> list[Guest]:
        return [guest for guest, _ in self._classes.values()]

    def is_guest(self, document: Any) -> bool:
        """Whether a plugin with these arguments is a wasm plugin."""
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
            except LoadError as error:
                raise ConfigError(f"{path}: {error}") from error
        return self._classes[key][1]

    def _load(self, name: str, document: Any, path: str) -> Guest:
        arguments = read_arguments(document, path)
        fetcher = Fetcher(
            arguments.guest_url,
            sha256=arguments.sha256,
            allow_insecure=arguments.allow_insecure,
            limits=self._limits,
        )
        fetched = run_apart(fetcher.fetch())
        return Guest(name, arguments, fetcher, fetched, lambda: self._engine(arguments.engine), self._cache)

    def _host(self, guest: Guest) -> PluginClass:
        abi = guest.interface.abi
        assert abi is not None  # a guest without one is refused when it is read
        host = _own_host(abi) if self._hosts is None else self._hosts.get(abi)
        if host is None:
            raise LoadError(f"the guest speaks {abi.text}, which this program does not run")
        return host

    async def watch(self, observer: ReloadObserver) -> None:
        """Look for new versions of those guests that are to be reloaded. Runs until cancelled."""
        changing = [guest for guest in self.guests if self._reloads and guest.arguments.is_reloaded]
        reloaders = [Reloader(guest, observer) for guest in changing]
        await run_together(asyncio.Event().wait(), *(reloader.run() for reloader in reloaders))


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


def _own_host(abi: Abi) -> PluginClass | None:
    """The hosts are imported for guests that need them: most configurations name none."""
    try:
        host = importlib.import_module(_HOSTS[abi])
    except ModuleNotFoundError as error:
        if error.name != _HOSTS[abi]:
            raise
        return None
    made: PluginClass = host.plugin_class
    return made


_HOSTS: Mapping[Abi, str] = {
    Abi.EXTENSION: "kscheduler.wasm.extension.plugin",
    Abi.BATCH: "kscheduler.wasm.batch.plugin",
}
