"""A configured guest: its source, its current version, and the plugin objects that run it.

The plugin objects are its followers. Each of them first tries out a new version (`try_out`, in a worker thread). If
none has raised, each switches to it (`replace`, on the event loop's thread, while no scheduling cycle is in the middle
of a step). A plugin itself decides with which version it finishes a cycle or binding that has begun.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.engine import Engine
from kscheduler.wasm.loading.abi import Interface
from kscheduler.wasm.loading.compiled_cache import CompiledCache
from kscheduler.wasm.loading.compiling import Version, compile_version, read_interface
from kscheduler.wasm.loading.fetch import Fetched, Fetcher


class Follower(Protocol):
    """The methods of a plugin object that handle new versions of its guest."""

    def try_out(self, version: Version) -> None:
        """Raise if the version cannot be used, and change nothing. Called in a worker thread."""
        ...

    def replace(self, version: Version) -> None:
        """Switch to this version. It must be quick, because the event loop waits for it."""
        ...


class Guest:
    """One guest of the configuration; it is compiled when the first plugin object needs it."""

    def __init__(
        self,
        name: str,
        arguments: WasmArguments,
        fetcher: Fetcher,
        fetched: Fetched,
        engine: Callable[[], Engine],
        cache: CompiledCache | None,
    ) -> None:
        """Create a guest from its bytes (`fetched`). `engine` is called when a version is to be compiled.

        Raises LoadError for a module that cannot be a plugin.
        """
        self.name = name
        self.arguments = arguments
        self.fetcher = fetcher
        self.mark = fetched.mark  # the state that the source is compared with
        self.sha256 = fetched.sha256  # digest of the version in use
        self.interface: Interface = read_interface(fetched.data)[1]
        self._data: bytes | None = fetched.data  # None once it is compiled
        self._engine = engine
        self._cache = cache
        self._version: Version | None = None
        self._lock = threading.Lock()
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()

    @property
    def version(self) -> Version:
        """The current version; the first access compiles it. Raises LoadError or EngineUnavailable."""
        with self._lock:
            if self._version is None:
                assert self._data is not None
                self._version = self._compile(self._data, self.sha256)
                self._data = None
            return self._version

    def compile_aside(self, fetched: Fetched) -> Version:
        """Compile a version without using it; to be called in a worker thread.

        Raises LoadError or EngineUnavailable.
        """
        return self._compile(fetched.data, fetched.sha256)

    def _compile(self, wasm: bytes, sha256: str) -> Version:
        return compile_version(wasm, sha256, self._engine(), self._cache, plugin=self.name)

    def follow(self, follower: Follower) -> None:
        """Register a plugin object for new versions of the guest. It is held by a weak reference."""
        self._followers.add(follower)

    @property
    def followers(self) -> list[Follower]:
        return list(self._followers)

    def adopt(self, version: Version) -> None:
        """Use this version for plugin objects that are made from now on."""
        with self._lock:
            self._version, self._data, self.sha256 = version, None, version.sha256
