"""The example plugins in C, built."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

from kscheduler.config.duration import Duration
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.engines import engine_named
from tests.wasm.batch.plugins import URL, Made

PLUGINS = Path(__file__).parents[3] / "plugins"
builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "build_guests.py")))
GPU = "nvidia.com/gpu"
PATIENCE = Duration.parse("10s")  # a busy machine is no fault of a guest


def load(name: str, table: NodeTable, config: str = "", *, wasm: Path | None = None) -> Made:
    """An example, or what was compiled elsewhere."""
    wasm = wasm or builder.build(PLUGINS / name / f"{name}.c")
    assert wasm is not None
    module = engine_named("wasmtime").compile(wasm.read_bytes())
    return Made(module, table, WasmArguments(guest_url=SecretURL(URL), guest_config=Secret(config), deadline=PATIENCE))
