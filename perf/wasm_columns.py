"""Measures scoring packed columns in a wasm guest, compared with native code that reads the same columns.

    python -m perf.wasm_columns
    python -m perf.wasm_columns --rounds 100

The score is LeastAllocated over cpu and memory: four columns of 64-bit integers in, one out. It is first checked that
all forms give the same scores; they take turns within each round. A figure is the median of the rounds, a ratio the
median of the ratios within a round. `kernel` is kscheduler's own score_least_allocated. `native` is the code in
perf/wasm_guests/least_allocated.c, one loop for this score alone, compiled as the kernels are, with AVX2 or AVX-512
where the machine has them; `narrow` is the same loop with vectors of 128 bits, which is what guests have. `bare`: the
columns are in the guest's memory, as they are after the first message about the table, and the scores stay there.
`scores` also reads them, and `columns` also writes all columns before each call, which a guest sees only when every
node has changed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import random
import statistics
import subprocess
import sys
import sysconfig
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kscheduler._fast import COMPILED, NodeColumns, PodRequest, Scores, Verdicts, score_least_allocated
from kscheduler.wasm.engine import Limits
from kscheduler.wasm.engines import engine_named

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "perf" / "wasm_guests" / "least_allocated.c"
HEADERS = ROOT / "plugins" / "sdk" / "c"
BUILT = ROOT / "build" / "guests"
WASM_FLAGS = (
    "-target", "wasm32-freestanding", "-O2", "-msimd128", "-Wall", "-Wextra", "-Werror", "-nostdlib",
    "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536", f"-I{HEADERS}",
)  # fmt: skip
NATIVE_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared")  # as setup.py
ROWS = 5_008  # whole turns of the guest's loop
TIMES = 20  # calls that are timed together
MOST_ROWS = 16_384  # that the guest has room for
TURN = 16  # rows in a turn of the guest's loop
GOAL = 1.5  # times what the kernel takes
MI = 1 << 20

Amounts = tuple[list[int], list[int], list[int], list[int]]  # cpu and memory there are, cpu and memory in use


@dataclass(frozen=True, slots=True)
class Form:
    """One way to compute the scores of all rows."""

    name: str
    score: Callable[[], object]
    scores: Callable[[], array[int]]  # returns the scores that it computed


def cluster(rows: int, seed: int = 5) -> Amounts:
    """Nodes of several sizes, some full, a few without cpu or memory."""
    rng = random.Random(seed)
    cpu = [rng.choice((0, 4_000, 32_000, 64_000)) for _ in range(rows)]
    memory = [rng.choice((0, 16, 128, 256)) * 1024 * MI for _ in range(rows)]
    return cpu, memory, [rng.randrange(40_000) for _ in cpu], [rng.randrange(200_000) * MI for _ in memory]


def scores_by_hand(amounts: Amounts, cpu: int, memory: int) -> array[int]:
    found = array("q")
    for has_cpu, has_memory, used_cpu, used_memory in zip(*amounts, strict=True):
        parts = [
            max(0, has - used - asked) * 100 // has
            for has, used, asked in ((has_cpu, used_cpu, cpu), (has_memory, used_memory, memory))
            if has > 0
        ]
        found.append(sum(parts) // len(parts) if parts else 0)
    return found


def kernel_form(amounts: Amounts, cpu: int, memory: int) -> Form:
    columns, verdicts, scores = NodeColumns(len(amounts[0])), Verdicts(), Scores()
    for has_cpu, has_memory, used_cpu, used_memory in zip(*amounts, strict=True):
        row = columns.add_row()
        columns.set_allocatable(row, 0, has_cpu)
        columns.set_allocatable(row, 1, has_memory)
        entries = [(resource, used) for resource, used in ((0, used_cpu), (1, used_memory)) if used]
        columns.add_pod(row, PodRequest(entries, used_cpu, used_memory))
    verdicts.reset(columns)
    scores.reset(columns)
    request, resources = PodRequest([(0, cpu), (1, memory)], cpu, memory), [(0, 1), (1, 1)]

    def read() -> array[int]:
        return array("q", (scores.raw(row) for row in range(columns.rows)))

    return Form("kernel", lambda: score_least_allocated(columns, verdicts, scores, request, resources), read)


def native_forms(amounts: Amounts, cpu: int, memory: int) -> list[Form]:
    """None of them where there is no C compiler."""
    try:
        wide = ctypes.CDLL(str(built("least_allocated.so", [*_compiler(), *NATIVE_FLAGS])))
        narrow = _narrow()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no native form: {error}", file=sys.stderr)
        return []
    rows = len(amounts[0])
    packed = array("q", [*(amount for column in amounts for amount in column), *[0] * rows])
    reported = (ctypes.c_void_p(packed.buffer_info()[0]), rows, ctypes.c_int64(cpu), ctypes.c_int64(memory))
    calls = {"native, doubles": wide.by_doubles, "native, integers": wide.by_integers}
    if narrow is not None:
        calls["native, narrow"] = narrow.by_doubles
    return [Form(name, partial(call, *reported), lambda: packed[4 * rows :]) for name, call in calls.items()]


def _narrow() -> ctypes.CDLL | None:
    if platform.machine() != "x86_64":
        return None  # others have no wider vectors that we would use
    flags = (*NATIVE_FLAGS, "-msse4.2", "-DNARROW")
    return ctypes.CDLL(str(built("least_allocated_narrow.so", [*_compiler(), *flags])))


def guest_forms(amounts: Amounts, cpu: int, memory: int) -> list[Form]:
    module = engine_named("wasmtime").compile(
        built("least_allocated.wasm", [sys.executable, "-m", "ziglang", "cc", *WASM_FLAGS]).read_bytes()
    )
    guest = module.instantiate([], Limits(deadline_s=60.0))
    rows = len(amounts[0])
    if rows > MOST_ROWS or rows % TURN:
        raise ValueError(f"rows: expected a multiple of {TURN} up to {MOST_ROWS}, got {rows}")
    at = guest.call("columns", rows)
    assert isinstance(at, int)
    packed = array("q", (amount for column in amounts for amount in column)).tobytes()
    by_pairs, by_integers = guest.prepare("by_pairs"), guest.prepare("by_integers")

    def read() -> bytes:
        return bytes(guest.read(at + len(packed), 8 * rows))

    def answer() -> bytes:
        by_pairs(at, rows, cpu, memory)
        return read()

    def be_asked_and_answer() -> bytes:
        guest.write(at, packed)
        return answer()

    guest.write(at, packed)
    calls: dict[str, Callable[[], object]] = {
        "guest, bare": partial(by_pairs, at, rows, cpu, memory),
        "guest, scores": answer,
        "guest, columns and scores": be_asked_and_answer,
        "guest, integers, bare": partial(by_integers, at, rows, cpu, memory),
    }
    return [Form(name, call, lambda: array("q", read())) for name, call in calls.items()]


def built(name: str, command: Sequence[str]) -> Path:
    """Compile the source if it has changed; return the library. Raises CalledProcessError or OSError."""
    made = BUILT / name
    if made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in (SOURCE, HEADERS / "ks_pair.h")):
        return made
    BUILT.mkdir(parents=True, exist_ok=True)
    fresh = made.with_suffix(f".{os.getpid()}.tmp")
    subprocess.run([*command, str(SOURCE), "-o", str(fresh)], check=True, capture_output=True, text=True)
    fresh.replace(made)
    return made


def _compiler() -> list[str]:
    return str(sysconfig.get_config_var("CC") or "cc").split()


def measured(forms: Sequence[Form], rounds: int) -> dict[str, list[float]]:
    """Form -> microseconds of a call, by round."""
    took: dict[str, list[float]] = {form.name: [] for form in forms}
    for _ in range(rounds):
        for form in forms:
            form.score()
            started = time.perf_counter()
            for _ in range(TIMES):
                form.score()
            took[form.name].append((time.perf_counter() - started) / TIMES * 1e6)
    return took


def ratio(took: dict[str, list[float]], name: str, to: str) -> float:
    return statistics.median(one / other for one, other in zip(took[name], took[to], strict=True))


def table(took: dict[str, list[float]]) -> str:
    others = [name for name in ("kernel", "native, doubles", "native, narrow") if name in took]
    lines = [f"{'us a call':28} {'median':>8} {'least':>8}" + "".join(f"{'/ ' + name:>20}" for name in others)]
    for name, each in took.items():
        ratios = "".join(f"{ratio(took, name, other):20.2f}" for other in others)
        lines.append(f"{name:28} {statistics.median(each):8.2f} {min(each):8.2f}{ratios}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.wasm_columns", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(argv)
    if not COMPILED:
        print("the extensions are not built: there is nothing to measure", file=sys.stderr)
        return 1
    amounts, asked = cluster(options.rows), (300, 1024 * MI)
    forms = [kernel_form(amounts, *asked), *native_forms(amounts, *asked), *guest_forms(amounts, *asked)]
    expected = scores_by_hand(amounts, *asked)
    for form in forms:
        form.score()
        if form.scores() != expected:
            print(f"{form.name}: expected the scores of integers, got others", file=sys.stderr)
            return 1
    took = measured(forms, options.rounds)
    print(table(took))
    for name in ("guest, bare", "guest, columns and scores"):
        found = ratio(took, name, "kernel")
        print(f"{name} / kernel: {found:.2f}, goal <= {GOAL:g}: {'met' if found <= GOAL else 'NOT met'}")
    print("load average", *(f"{load:.2f}" for load in os.getloadavg()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
