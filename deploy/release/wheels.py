"""Builds the sdist, the wheels and the list of what they need, the same bytes each time: `make wheels`.

    python -m deploy.release.wheels --into dist --python 3.11 --architecture x86_64

Cython translates the kernels once. For each target zig compiles them, which brings the headers and the C library's
names of every Linux, so the wheels neither depend on this machine's C library nor need a machine of the target's kind.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.release.archives import write_zip
from deploy.release.sbom import write_sbom
from deploy.release.source import REPOSITORY, BuildError, CModule, Source, copied
from deploy.release.targets import ARCHITECTURES, Target, find_interpreter, promised, targets

# What CPython's own makefile compiles modules with; setup.py says the rest, such as how far to optimise.
FLAGS = ("-shared", "-fPIC", "-DNDEBUG", "-fwrapv", "-fno-sanitize=all", "-fno-semantic-interposition", "-s")
LIBRARIES = ("-lm", "-lpthread")  # of their own before glibc 2.34
# Clang takes the extra declarations of Cython's code for mistakes.
QUIET = ("-Wno-unused-command-line-argument",)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="deploy.release.wheels", description="Build the sdist and the wheels.")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "dist", help="the folder of what is built")
    parser.add_argument("--python", action="append", metavar="3.X", help="instead of all versions; may be repeated")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES, help="instead of both")
    options = parser.parse_args(argv)
    try:
        build(options.into, options.python, options.architecture or ARCHITECTURES)
    except BuildError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


def build(into: Path, versions: Sequence[str] | None, architectures: Sequence[str]) -> list[Path]:
    """Build the sdist and the wheels into a folder; return their paths, the sdist's first.

    A version that was asked for by name must be installed. Others that are missing are named on stderr and left out.
    Raises BuildError.
    """
    found = {version: find_interpreter(version) for version in versions or promised()}
    missing = [version for version, one in found.items() if one is None]
    if missing and versions:
        raise BuildError(f"no CPython {', '.join(missing)} with its headers: on PATH, of pyenv, or below /opt")
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        source = copied(Path(work) / "source")
        built = [source.write_sdist(into)]
        version = built[0].name.removeprefix("kscheduler-").removesuffix(".tar.gz")
        print(write_sbom(into, source.folder, version, source.epoch_s))
        modules = source.translate()
        metadata = source.metadata()
        data = metadata[0].replace(".dist-info", ".data/data")
        shared = source.python_files() | {f"{data}/{path}": file for path, file in source.data_files().items()}
        interpreters = [one for one in found.values() if one is not None]
        for target in targets(interpreters, architectures, Path(work) / "headers"):
            compiled = compile_all(modules, target, source)
            built.append(write_wheel(into, target, shared | compiled, metadata, source.epoch_s))
            print(built[-1])
    for version in missing:
        print(f"wheels: no CPython {version} with its headers here, so no wheel for it", file=sys.stderr)
    return built


def compile_all(modules: Sequence[CModule], target: Target, source: Source) -> dict[str, bytes]:
    """Compile the modules for a target; return the files by their paths in the wheel."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tries = [pool.submit(_compile, module, target, source, Path(folder)) for module in modules]
        return dict(one.result() for one in tries)


def _compile(module: CModule, target: Target, source: Source, folder: Path) -> tuple[str, bytes]:
    made = folder / (module.name + target.suffix)
    # A path relative to the sources: what is compiled may name the file that it came from.
    code = module.path.relative_to(source.folder).as_posix()
    flags = [*FLAGS, *QUIET, *module.flags, f"-ffile-prefix-map={target.headers}=python{target.version}"]
    source.run(
        [*compiler(), "-target", target.triple, *flags, f"-I{target.headers}", code, "-o", str(made), *LIBRARIES]
    )
    return module.file(target.suffix), made.read_bytes()


def compiler() -> list[str]:
    """Return zig's C compiler: of the package ziglang, or what ZIG_CC names."""
    return shlex.split(os.environ.get("ZIG_CC", "")) or [sys.executable, "-m", "ziglang", "cc"]


def write_wheel(
    into: Path, target: Target, files: Mapping[str, bytes], metadata: tuple[str, Mapping[str, bytes]], epoch_s: int
) -> Path:
    """Write a wheel of these files and return its path."""
    folder, about = metadata
    wheel = f"Wheel-Version: 1.0\nGenerator: kscheduler\nRoot-Is-Purelib: false\nTag: {target.tag}\n"
    content = {**files, **about, f"{folder}/WHEEL": wheel.encode()}
    content[f"{folder}/RECORD"] = record(content, folder)
    path = into / f"{folder.removesuffix('.dist-info')}-{target.tag}.whl"
    write_zip(path, content, epoch_s, last=folder)
    return path


def record(files: Mapping[str, bytes], folder: str) -> bytes:
    """Return a wheel's RECORD: path, digest and length of every file but its own."""
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in sorted(files.items())]
    return "\n".join([*lines, f"{folder}/RECORD,,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.exit(main())
