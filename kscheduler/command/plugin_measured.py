"""Wraps a wasm engine and records the instances it makes, to measure how much memory a guest (wasm plugin) uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    """Wraps a wasm engine and records the instances it makes. Implements `engine.Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name, self.version = engine.name, engine.version
        self.instances: list[Instance] = []  # all instances made so far

    def compile(self, wasm: bytes) -> Module:
        return _MeasuredModule(self._engine.compile(wasm), self.instances)

    def load(self, serialized: bytes) -> Module:
        return _MeasuredModule(self._engine.load(serialized), self.instances)


class _MeasuredModule:
    def __init__(self, module: Module, made: list[Instance]) -> None:
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
        self._made.append(instance)
        return instance
