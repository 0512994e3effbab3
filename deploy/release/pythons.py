"""Unpacks CPythons of Debian's other releases below /opt, to build wheels for and to try them: `make release-pythons`.

    python -m deploy.release.pythons 3.14 x86_64

For this machine's kind there are the headers, and a script that starts Python with its own C library, which is newer
than that of an older Debian. For other kinds there is what QEMU's user emulation needs to run it.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.release.debian import KEYS, MACHINES, apt_options, mirrors, run_tool
from deploy.release.source import BuildError
from deploy.release.targets import ARCHITECTURES, find_emulated, find_interpreter, promised

# Versions of CPython, and the release of Debian that has them. None has 3.12.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
OPT = Path("/opt")
_START = """\
#!/bin/sh
libraries={libraries}
exec $libraries/{loader} --argv0 "$0" --library-path $libraries:/usr/lib/{triplet} {program} "$@"
"""


def main(argv: Sequence[str] | None = None) -> int:
    asked = list(sys.argv[1:] if argv is None else argv)
    wanted = [(asked[0], asked[1])] if len(asked) == 2 else missing()
    failed = 0
    for version, architecture in wanted:
        try:
            print(unpack(version, architecture))
        except BuildError as error:
            print(f"CPython {version} for {architecture}: {error}", file=sys.stderr)
            failed = 1
    return failed


def missing() -> list[tuple[str, str]]:
    """Return the promised versions of Python that are not here, with their kind of machine."""
    return [
        (version, architecture)
        for version in promised()
        for architecture in ARCHITECTURES
        if (find_interpreter(version) if architecture == platform.machine() else find_emulated(version, architecture))
        is None
    ]


def unpack(version: str, architecture: str, below: Path = OPT) -> Path:
    """Unpack Debian's packages of a CPython and all that they need, and return the folder. Raises BuildError."""
    if version not in SUITES:
        raise BuildError("Debian has no such package")
    own = architecture == platform.machine()
    folder = below / (f"python{version}" if own else f"python{version}-{architecture}")
    folder.mkdir(parents=True, exist_ok=True)
    packages = [f"python{version}", "libstdc++6", *([f"libpython{version}-dev"] if own else [])]
    for package in _download(SUITES[version], MACHINES[architecture], packages, folder):
        run_tool(["dpkg-deb", "--extract", str(package), str(folder)])
        package.unlink()
    for name in ("lib", "lib64"):  # Debian's newer packages leave these links to another one
        if not (folder / name).exists() and (folder / "usr" / name).is_dir():
            (folder / name).symlink_to(f"usr/{name}")
    if own:
        start_with_own_libraries(folder, version, architecture)
        link_headers(folder, version, architecture)
    return folder


def _download(suite: str, of_debian: str, packages: Sequence[str], folder: Path) -> list[Path]:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        source = f"deb [signed-by={KEYS} arch={of_debian}] {mirrors()['debian']} {suite} main"
        apt = ["apt-get", "--quiet=2", *apt_options(Path(work), [source], of_debian)]
        run_tool([*apt, "update"])
        run_tool([*apt, "--download-only", "--no-install-recommends", "--yes", "install", *packages])
        found = sorted((Path(work) / "archives").glob("*.deb"))
        return [path.rename(folder / path.name) for path in found]


def start_with_own_libraries(folder: Path, version: str, architecture: str) -> None:
    """Put a script in the interpreter's place, which starts it with the libraries beside it."""
    program = folder / f"usr/bin/python{version}"
    real = program.rename(program.with_suffix(f"{program.suffix}.debian"))
    triplet = f"{architecture}-linux-gnu"
    libraries = folder / f"usr/lib/{triplet}"
    loader = next(path.name for path in sorted(libraries.glob("ld-linux-*.so.*")))
    program.write_text(
        _START.format(libraries=libraries, loader=loader, triplet=triplet, program=real), encoding="utf-8"
    )
    program.chmod(0o755)


def link_headers(folder: Path, version: str, architecture: str) -> None:
    """Let the headers be found from each other: Debian's pyconfig.h includes another of the machine's kind."""
    of_machine = f"{architecture}-linux-gnu"
    link = folder / f"usr/include/python{version}" / of_machine
    link.unlink(missing_ok=True)
    link.symlink_to(f"../{of_machine}")


if __name__ == "__main__":
    sys.exit(main())
