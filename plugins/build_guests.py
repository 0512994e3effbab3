"""Compiles the example guests (wasm plugins) in C that have changed: plugins/NAME/NAME.c to build/guests/NAME.wasm.

    python plugins/build_guests.py [NAME ...]

The compiler is zig's, from the package `ziglang`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PLUGINS = Path(__file__).parent
SDK = PLUGINS / "sdk" / "c"
TARGET = PLUGINS.parent / "build" / "guests"
FLAGS = (
    "-target", "wasm32-freestanding", "-O2", "-mbulk-memory", "-msimd128", "-Wall", "-Wextra", "-Werror",
    "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536",
)  # fmt: skip


def guests() -> list[Path]:
    """Return the source files of all examples in C."""
    return sorted(path for path in PLUGINS.glob("*/*.c") if path.stem == path.parent.name)


def build(source: Path, target: Path = TARGET) -> Path:
    """Compile one source with the guest library, if it has changed.

    Raises CalledProcessError with the compiler's output.
    """
    made = target / f"{source.stem}.wasm"
    needed = [source, *SDK.glob("*.[ch]"), Path(__file__)]
    if made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in needed):
        return made
    target.mkdir(parents=True, exist_ok=True)
    fresh = made.with_suffix(f".{os.getpid()}.tmp")  # several may build at a time
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, f"-I{SDK}", str(SDK / "ks.c"), str(source)]
    subprocess.run([*command, "-o", str(fresh)], check=True, capture_output=True, text=True)
    fresh.replace(made)
    return made


def main(names: Sequence[str]) -> int:
    for source in guests():
        if names and source.stem not in names:
            continue
        try:
            made = build(source)
        except subprocess.CalledProcessError as error:
            print(error.stderr, file=sys.stderr)
            return 1
        print(f"{made.relative_to(PLUGINS.parent)}  {made.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
