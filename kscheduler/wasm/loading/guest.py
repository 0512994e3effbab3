"""A guest of the configuration: where it is from, which version of it runs, and who runs it.

The plugin objects made from it follow it. A new version is first shown to each of them, aside (`try_out`, in a worker
thread); when all have agreed, each is told to go on with it (`replace`, on the event loop's thread, where no
scheduling cycle is in the middle of a step). What a cycle or a binding has begun, a plugin finishes as it likes.
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
    """A plugin object, as far as new versions go."""

    def try_out(self, version: Version) -> None:
        """Raise if the version cannot be used. Changes nothing; called in a worker thread."""
        ...

    def replace(self, version: Version) -> None:
        """Use the version from now on. Quick: the event loop waits."""
        ...


class Guest:
    """Knows the extension points from the start; compiles when the first plugin object asks for the version."""

    def __init__(
        self,
        name: str,
        arguments: WasmArguments,
        fetcher: Fetcher,
        fetched: Fetched,
        engine: Callable[[], Engine],
        cache: CompiledCache | None,
    ) -> None:
        """`engine` is asked when something is to be compiled. Raises LoadError for what can be no plugin."""
        self.name = name
        self.arguments = arguments
        self.fetcher = fetcher
        self.mark = fetched.mark  # what the source is compared with
        self.sha256 = fetched.sha256  # of the version that runs, or will
        self.interface: Interface = read_interface(fetched.data)[1]
        self._data: bytes | None = fetched.data  # until it is compiled
        self._engine = engine
        self._cache = cache
        self._version: Version | None = None
        self._lock = threading.Lock()
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()

    @property
    def version(self) -> Version:
        """What runs; compiled here when first asked for. Raises LoadError, or EngineUnavailable."""
        with self._lock:
            if self._version is None:
                assert self._data is not None
                self._version = compile_version(self._data, self.sha256, self._engine(), self._cache)
                self._data = None
            return self._version

    def compile_aside(self, fetched: Fetched) -> Version:
        """A version that does not run yet. For a worker thread. Raises as `version` does."""
        return compile_version(fetched.data, fetched.sha256, self._engine(), self._cache)

    def follow(self, follower: Follower) -> None:
        """Tell it of new versions for as long as somebody else holds it."""
        self._followers.add(follower)

    @property
    def followers(self) -> list[Follower]:
        return list(self._followers)

    def adopt(self, version: Version) -> None:
        """Plugin objects made from now on use this version."""
        with self._lock:
            self._version, self._data, self.sha256 = version, None, version.sha256
