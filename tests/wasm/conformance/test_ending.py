"""The program ends while guests are open, run, or are in the middle of a host function: it does so in peace."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.wasm.conformance.conftest import made_engine

PROGRAM = """
import concurrent.futures, sys, threading, wasmtime
from kscheduler.wasm.engine import GuestFault, HostFunction, Limits
from kscheduler.wasm.engines import engine_named

engine, export, where = sys.argv[1:]
module = engine_named(engine).compile(bytes(wasmtime.wat2wasm('''
(module (import "host" "begin" (func $begin)) (memory (export "memory") 1)
  (func (export "spins") (call $begin) (loop br 0))
  (func (export "calls") (loop (call $begin) br 0))
  (func (export "traps") (call $begin) unreachable))''')))
begun = threading.Event()
limits = Limits(deadline_s=0.05 if where == "executor" else 1000.0)
guest = module.instantiate([HostFunction("host", "begin", "", "", lambda _: begun.set())], limits)
view = guest.view(0, 8)

def run():
    try:
        guest.call(export)
    except (GuestFault, RuntimeError):
        pass

if where == "executor":
    concurrent.futures.ThreadPoolExecutor(1).submit(run)
elif where == "daemon":
    threading.Thread(target=run, daemon=True).start()
else:
    run()
begun.wait()
"""


@pytest.mark.parametrize("engine", ["wasmtime", "wasmer"])
@pytest.mark.parametrize(
    ("export", "where"),
    [("traps", "main"), ("spins", "executor"), ("calls", "executor"), ("spins", "daemon"), ("calls", "daemon")],
)
def test_a_program_ends_in_peace_whatever_its_guests_do(engine: str, export: str, where: str) -> None:
    made_engine(engine)
    for _ in range(3):
        program = [sys.executable, "-c", PROGRAM, engine, export, where]
        ended = subprocess.run(program, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")
