"""An engine that records the instances it made, to find how much memory a guest used. It wraps any other engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kscheduler.wasm.engine import (
    DEFAULT_LIMITS,
    Engine,
    ExternType,
    HostFunction,
    Import,
    Instance,
    Limits,
    Module,
    Wasi,
)


class MeasuredEngine:
    """Wraps an engine and records its instances. Implements `engine.Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name, self.version = engine.name, engine.version
        self._instances: list[Instance] = []
        self._most_bytes = 0  # the largest memory of one instance seen so far

    def compile(self, wasm: bytes) -> Module:
        return _MeasuredModule(self._engine.compile(wasm), self._made)

    def load(self, serialized: bytes) -> Module:
        return _MeasuredModule(self._engine.load(serialized), self._made)

    def _made(self, instance: Instance) -> None:
        self._instances.append(instance)

    def most_bytes(self) -> int:
        """Return the largest memory of an instance. Memories never shrink, so calling this after each pod suffices."""
        for instance in self._instances:
            self._most_bytes = max(self._most_bytes, instance.memory_bytes)
        return self._most_bytes

    @property
    def instances(self) -> int:
        """The number of instances that were made."""
        return len(self._instances)


class _MeasuredModule:
    def __init__(self, module: Module, made: Callable[[Instance], None]) -> None:
        self._module = module
        self._made = made
        self.exports: Mapping[str, ExternType] = module.exports
        self.imports: Sequence[Import] = module.imports

    def serialize(self) -> bytes:
        return self._module.serialize()

    def instantiate(
        self, functions: Iterable[HostFunction] = (), limits: Limits = DEFAULT_LIMITS, *, wasi: Wasi | None = None
    ) -> Instance:
        instance = self._module.instantiate(functions, limits, wasi=wasi)
        self._made(instance)
        return instance
