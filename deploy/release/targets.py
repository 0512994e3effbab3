"""What a wheel is built for: a version of CPython on a kind of machine, with the headers that its C code needs.

The headers are those of the interpreters of this machine, also for other kinds of machines: the pyconfig.h of CPython
3.13 for arm64 and for x86-64 differ only in macros for inline assembler, wchar_t and the tier of support, which no
module here looks at.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.release.source import REPOSITORY

# google-re2, which every installation needs, has wheels for no older C library.
GLIBC = (2, 28)
ARCHITECTURES = ("x86_64", "aarch64")
_PATHS = "import json, sysconfig as s; print(json.dumps([s.get_path('include'), s.get_config_h_filename()]))"


class Interpreter(NamedTuple):
    """An installed CPython with its headers."""

    version: str  # such as 3.11
    executable: str
    include: Path  # the folder of Python.h
    pyconfig: Path  # which Debian keeps in another folder


class Target(NamedTuple):
    version: str
    architecture: str
    headers: Path

    @property
    def python_tag(self) -> str:
        return "cp" + self.version.replace(".", "")

    @property
    def tag(self) -> str:
        """The wheel's tag, such as cp311-cp311-manylinux_2_28_x86_64."""
        return f"{self.python_tag}-{self.python_tag}-manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.architecture}"

    @property
    def suffix(self) -> str:
        """What the file names of extension modules end with."""
        return f".cpython-{self.version.replace('.', '')}-{self.architecture}-linux-gnu.so"

    @property
    def triple(self) -> str:
        """What zig calls the machine and its C library."""
        return f"{self.architecture}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"


def promised(repository: Path = REPOSITORY) -> list[str]:
    """Return the versions of CPython in pyproject.toml's classifiers, oldest first."""
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    classifiers = tomllib.loads(text)["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", one) for one in classifiers)
    return [f"3.{minor}" for minor in sorted(int(match[1]) for match in found if match)]


def find_interpreter(version: str) -> Interpreter | None:
    """Return an interpreter of this version with its headers: of PATH, of pyenv, or unpacked below /opt."""
    for place in _places(version):
        done = subprocess.run([place, "-c", _PATHS], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            include, pyconfig = map(Path, json.loads(done.stdout))
            if (include / "Python.h").is_file() and pyconfig.is_file():
                return Interpreter(version, place, include, own_pyconfig(include, pyconfig))
    return None


def find_emulated(version: str, architecture: str, below: Path = Path("/opt")) -> Path | None:
    """Return the folder of a CPython for another kind of machine, with its libraries: /opt/python3.11-aarch64."""
    folder = below / f"python{version}-{architecture}"
    return folder if (folder / f"usr/bin/python{version}").is_file() else None


def own_pyconfig(include: Path, pyconfig: Path) -> Path:
    """Return the pyconfig.h of this kind of machine, where Debian's only includes it by its path below usr/include."""
    name = f"{platform.machine()}-linux-gnu/{include.name}/pyconfig.h"
    if f"<{name}>" in pyconfig.read_text(encoding="utf-8"):
        return next((path for path in (include / name, include.parent / name) if path.is_file()), pyconfig)
    return pyconfig


def _places(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")))
    yield from map(str, Path("/opt").glob(f"python{version}/usr/bin/python{version}"))


def pip_options(version: str, architecture: str) -> list[str]:
    """Return the options by which pip takes wheels for this CPython and kind of machine, whatever runs pip."""
    tags = [f"manylinux_2_{minor}" for minor in range(GLIBC[1], 16, -1)]
    tags += ["manylinux2014", "manylinux2010", "manylinux1"]
    platforms = [f"--platform={tag}_{architecture}" for tag in tags]
    return ["--only-binary=:all:", f"--python-version={version}", "--implementation=cp", *platforms]


def copy_headers(interpreter: Interpreter, into: Path) -> Path:
    """Copy an interpreter's headers into one folder that serves every kind of machine; return the folder."""
    folder = into / interpreter.version
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(interpreter.include, folder, ignore=shutil.ignore_patterns("*-linux-gnu"))
    shutil.copyfile(interpreter.pyconfig, folder / "pyconfig.h")
    return folder


def targets(interpreters: Iterable[Interpreter], architectures: Iterable[str], headers: Path) -> list[Target]:
    """Return all combinations; copies of the headers go below the folder `headers`."""
    kinds = list(architectures)
    return [
        Target(one.version, architecture, folder)
        for one in interpreters
        for folder in [copy_headers(one, headers)]
        for architecture in kinds
    ]
