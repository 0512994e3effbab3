"""Compiles the example guests (wasm plugins) in Go, AssemblyScript and Rust that have changed.

    python plugins/sdk/build_examples.py [LANGUAGE ...]

They are written to build/guests/NAME-LANGUAGE.wasm. A language whose compiler is missing is skipped, with a message
that says what to install; with CI=true that is an error.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SDK = Path(__file__).parent
TARGET = SDK.parents[1] / "build" / "guests"
TOOLS = SDK.parents[1] / "build" / "assemblyscript"
ASSEMBLYSCRIPT = "assemblyscript@0.28.20"
WASM = "wasm32-unknown-unknown"
NO_RUST = (
    f"no rustc with the standard library for {WASM}: `rustup target add {WASM}`, "
    "or Debian's packages rustc, libstd-rust-dev-wasm32 and lld"
)


class MissingTool(Exception):
    """A compiler is missing; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Language:
    name: str
    source: str  # path of an example's source, in the language's folder, with {name}
    compile: Callable[[Path, Path], None]  # source, target

    def examples(self) -> dict[str, Path]:
        """Return name -> source file, for all examples in this language."""
        found = sorted((SDK / self.name).glob(self.source.format(name="*")))
        return {path.parent.name if path.stem == "main" else path.stem: path for path in found}

    def build(self, name: str) -> Path:
        """Compile an example if it has changed. Raises MissingTool, or CalledProcessError if compiling fails."""
        source, made = self.examples()[name], TARGET / f"{name}-{self.name}.wasm"
        TARGET.mkdir(parents=True, exist_ok=True)
        with made.with_suffix(".lock").open("w") as file:  # several may build at a time; one compiles
            fcntl.flock(file, fcntl.LOCK_EX)
            if not self._is_current(made, source):
                # A folder of its own: compilers write other files beside their target, under names of their choice.
                with tempfile.TemporaryDirectory(prefix="making-", dir=TARGET) as scratch:
                    fresh = Path(scratch) / made.name
                    self.compile(source, fresh)
                    fresh.replace(made)
        return made

    def _is_current(self, made: Path, source: Path) -> bool:
        return made.exists() and made.stat().st_mtime > max(path.stat().st_mtime for path in self._library(source))

    def _library(self, source: Path) -> Iterator[Path]:
        """Yield the files that an example depends on: its own source and the guest library."""
        yield Path(__file__)
        yield source
        yield from (path for path in (SDK / self.name).rglob("*.*") if "examples" not in path.parts and path.is_file())


def _run(command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] | None = None) -> None:
    everything = {**os.environ, **(environment or {})}
    subprocess.run(command, cwd=directory, env=everything, check=True, capture_output=True, text=True)


def _compile_go(source: Path, target: Path) -> None:
    if shutil.which("go") is None:
        raise MissingTool("no go on the path: Go 1.24 or newer is needed")
    command: list[str | Path] = ["go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", target]
    wasi = {"GOOS": "wasip1", "GOARCH": "wasm", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    _run([*command, f"./{source.parent.relative_to(SDK / 'go')}"], SDK / "go", wasi)


def _compile_assemblyscript(source: Path, target: Path) -> None:
    compiler = _assemblyscript()
    folder = SDK / "assemblyscript"
    flags = ["-O3", "--outFile", os.path.relpath(target, folder)]  # the compiler goes by the ending, .wasm
    _run(["node", compiler, source.relative_to(folder), *flags], folder)


def _assemblyscript() -> Path:
    """Return the path of the AssemblyScript compiler, after installing it by npm if needed. Raises MissingTool."""
    compiler = TOOLS / "node_modules" / "assemblyscript" / "bin" / "asc.js"
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise MissingTool("no node and npm on the path: Node.js 20 or newer is needed")
    TOOLS.mkdir(parents=True, exist_ok=True)
    with (TOOLS / "lock").open("w") as file:  # so that no process sees another's unfinished installation
        fcntl.flock(file, fcntl.LOCK_EX)
        if not compiler.exists():
            _install(TOOLS, ASSEMBLYSCRIPT)
    return compiler


def _install(folder: Path, package: str) -> None:
    quietly = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund"]
    try:
        _run(["npm", "install", *quietly, package], folder)
    except subprocess.CalledProcessError as error:
        raise MissingTool(f"npm could not install {package}: {error.stderr.strip()}") from error


def _compile_rust(source: Path, target: Path) -> None:
    compiler, folder = _rustc(), SDK / "rust"
    library = target.with_name("libks.rlib")
    common = [compiler, "--edition=2021", f"--target={WASM}", "-Copt-level=3"]
    _run([*common, "--crate-type=rlib", "--crate-name=ks", "src/lib.rs", "-o", library], folder)
    flags = ["--crate-type=cdylib", f"--crate-name={source.stem}", "-Clto", "-Cstrip=symbols"]
    _run([*common, *flags, f"--extern=ks={library}", source.relative_to(folder), "-o", target], folder)


def _rustc() -> str:
    """Return a Rust compiler that has the standard library for wasm, which not every installation has.

    Raises MissingTool.
    """
    for compiler in (os.environ.get("RUSTC"), shutil.which("rustc"), "/usr/bin/rustc"):
        if compiler is None or shutil.which(compiler) is None:
            continue
        ask = [compiler, f"--target={WASM}", "--print=target-libdir"]
        answer = subprocess.run(ask, check=False, capture_output=True, text=True)
        if answer.returncode == 0 and any(Path(answer.stdout.strip()).glob("libstd-*.rlib")):
            return compiler
    raise MissingTool(NO_RUST)


LANGUAGES = {
    language.name: language
    for language in (
        Language("go", "examples/{name}/main.go", _compile_go),
        Language("assemblyscript", "examples/{name}.ts", _compile_assemblyscript),
        Language("rust", "examples/{name}.rs", _compile_rust),
    )
}


def main(names: Sequence[str]) -> int:
    for language in LANGUAGES.values():
        if names and language.name not in names:
            continue
        try:
            for name in language.examples():
                made = language.build(name)
                print(f"build/guests/{made.name}  {made.stat().st_size:,} bytes")
        except MissingTool as missing:
            print(f"{language.name}: left out, {missing}", file=sys.stderr)
            if os.environ.get("CI") == "true":
                return 1
        except subprocess.CalledProcessError as error:
            print(error.stderr or error.stdout, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
