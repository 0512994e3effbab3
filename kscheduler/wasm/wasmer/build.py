"""Builds libwasmer with cargo where the engine looks for it. Needed once per machine; takes 11 minutes of CPU time.

    python -m kscheduler.wasm.wasmer.build
    python -m kscheduler.wasm.wasmer.build --force

libwasmer/Cargo.lock pins wasmer and its dependencies. The library file is replaced atomically; if two builds run at
once, the second waits and then finds the library.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kscheduler.wasm.wasmer import calls
from kscheduler.wasm.wasmer.library import MAJOR, VERSION, cached_library

RUST = (1, 95)  # the version that wasmer-c-api 7.4.2 requires; also in libwasmer/Cargo.toml
CRATE = Path(__file__).parent / "libwasmer"
_BUILT = "libkscheduler_libwasmer.so"


@dataclass(frozen=True, slots=True)
class Rust:
    """The paths of cargo and rustc."""

    cargo: str
    compiler: str


class BuildError(Exception):
    """The library cannot be built; the text says what is missing."""


class NothingToBuildWith(BuildError):
    """This machine has no Rust that is new enough, or the crates cannot be fetched."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kscheduler.wasm.wasmer.build", description="Build libwasmer with cargo.")
    parser.add_argument("--force", action="store_true", help="build it even if it is there")
    options = parser.parse_args(argv)
    target = cached_library(os.environ)
    try:
        print(build(target, os.environ, force=options.force))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def build(target: Path, environment: Mapping[str, str], *, force: bool = False) -> Path:
    """Build the library into `target`, unless it exists and not `force`. Raises BuildError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(target.parent / "lock"):
        if target.exists() and not force:
            return target
        rust = find_rust(environment)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unfinished-") as folder:
            made = _run_cargo(rust, Path(folder), environment)
            _check(made)
            os.replace(made, target)
    return target


def find_rust(environment: Mapping[str, str]) -> Rust:
    """Return the cargo that CARGO names, or the first on PATH, with a new enough rustc. Raises NothingToBuildWith."""
    named = environment.get("CARGO")
    path = environment.get("PATH", os.defpath)
    cargos = [Path(named)] if named else [Path(each) / "cargo" for each in path.split(os.pathsep) if each]
    found = []
    for cargo in filter(Path.is_file, cargos):
        # cargo itself would use the first rustc on PATH, which may be another one.
        compiler = environment.get("RUSTC") or str(cargo.with_name("rustc"))
        version = _version_of(compiler)
        if version >= RUST:
            return Rust(str(cargo), compiler)
        found.append(f"{compiler} {version[0]}.{version[1]}" if version > (0, 0) else f"no {compiler}")
    raise NothingToBuildWith(
        f"libwasmer needs cargo and rustc {RUST[0]}.{RUST[1]} or later, found {', '.join(found) or 'no cargo'}: "
        "install Rust with rustup, or a distribution's packages of it (Debian: cargo-web, rustc-web); CARGO names a "
        "cargo that is not on PATH"
    )


def _version_of(compiler: str) -> tuple[int, int]:
    """Return the version of a rustc; (0, 0) if it does not run."""
    try:
        answer = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0, 0
    version = re.match(r"rustc (\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _run_cargo(rust: Rust, folder: Path, environment: Mapping[str, str]) -> Path:
    print(f"building libwasmer {VERSION} with {rust.cargo}: some 11 minutes of CPU", file=sys.stderr)
    target = folder / "target"  # wasmer's build script requires this name
    environment = {**environment, "RUSTC": rust.compiler, "CARGO_TARGET_DIR": str(target)}
    where = ["--locked", "--manifest-path", str(CRATE / "Cargo.toml")]
    if subprocess.run([rust.cargo, "fetch", *where], env=environment, check=False).returncode != 0:
        raise NothingToBuildWith("cargo could not fetch the crates that libwasmer is built of")
    done = subprocess.run([rust.cargo, "build", "--release", *where], env=environment, check=False)
    if done.returncode != 0:
        raise BuildError(f"cargo ended with status {done.returncode}; what it needs beside Rust: a C compiler")
    return target / "release" / _BUILT


def _check(library: Path) -> None:
    """Raise BuildError if the new library lacks a function, so that it does not replace a working one."""
    try:
        calls.bind(str(library), MAJOR)
    except calls.LibraryError as error:
        raise BuildError(f"what cargo built cannot be used: {error}") from error


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
