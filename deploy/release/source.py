"""The sources of a release: git's files in a folder of their own, their Python, their C code and their metadata.

What is built of them depends on nothing else of the checkout, and on no clock: the time of every file is that of the
last commit, or SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deploy.release.archives import files_below, write_tar_gz

REPOSITORY = Path(__file__).resolve().parents[2]
C_FILES = "build/cython"  # below the sources; setup.py's
_MODULES = """
import json, setup
print(json.dumps([[one.name, one.sources, one.extra_compile_args] for one in setup.extensions()]))
"""


class BuildError(Exception):
    """Something of a release cannot be built; the text says what and why."""


class CModule(NamedTuple):
    """An extension module as C code."""

    name: str  # such as kscheduler._fast.placement
    path: Path
    flags: tuple[str, ...]  # of the compiler

    def file(self, suffix: str) -> str:
        """Return the module's path in a wheel."""
        return self.name.replace(".", "/") + suffix


@dataclass(frozen=True)
class Source:
    """A copy of the sources in `folder`, with the time of all that is made of it."""

    folder: Path
    epoch_s: int

    def run(self, command: Sequence[str]) -> str:
        """Run a program in the folder and return what it prints. Raises BuildError if it fails."""
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(self.epoch_s), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        environment.pop("KSCHEDULER_DEBUG", None)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout

    def write_sdist(self, into: Path) -> Path:
        """Write the source distribution and return its path.

        Its files are setuptools' choice: what is needed to build a wheel, without C files, which Cython makes again.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.run([sys.executable, "setup.py", "--quiet", "sdist", "--formats=tar", "--dist-dir", folder])
            (made,) = Path(folder).iterdir()
            with tarfile.open(made) as archive:
                archive.extractall(folder, filter="data")
            name = made.name.removesuffix(".tar")
            files = files_below(Path(folder) / name, f"{name}/")
        path = into / f"{name}.tar.gz"
        write_tar_gz(path, {name: content for name, content in files.items() if not name.endswith(".c")}, self.epoch_s)
        return path

    def translate(self) -> list[CModule]:
        """Translate the Cython modules into C, for all versions of Python alike; return them, the longest first."""
        self.run([sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", "build/python"])
        listed = json.loads(self.run([sys.executable, "-c", _MODULES]))
        return [CModule(name, self._c_file(name), tuple(flags)) for name, _, flags in listed]

    def _c_file(self, module: str) -> Path:
        return self.folder / C_FILES / f"{module.replace('.', '/')}.c"

    def python_files(self) -> dict[str, bytes]:
        """Return the files of a wheel that are the same for all targets. Call `translate` first."""
        return files_below(self.folder / "build/python")

    def data_files(self) -> dict[str, bytes]:
        """Return the files that an installation puts outside the packages, by their paths below its prefix."""
        settings = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))
        listed: dict[str, list[str]] = settings["tool"]["setuptools"]["data-files"]
        paths = ((into, self.folder / file) for into, files in listed.items() for file in files)
        return {f"{into}/{path.name}": path.read_bytes() for into, path in paths}

    def metadata(self) -> tuple[str, dict[str, bytes]]:
        """Return the name of a wheel's .dist-info, and its files but for WHEEL and RECORD."""
        with tempfile.TemporaryDirectory() as folder:
            self.run([sys.executable, "setup.py", "--quiet", "dist_info", "--output-dir", folder])
            (made,) = Path(folder).glob("*.dist-info")
            return made.name, files_below(made, f"{made.name}/")


def copied(folder: Path, repository: Path = REPOSITORY) -> Source:
    """Copy git's files, with changes that are not committed, into a new folder. Raises BuildError without git."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in filter(
        None, _git(repository, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    ):
        if (repository / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, folder / name)
    return Source(folder, epoch_of(repository))


def epoch_of(repository: Path = REPOSITORY) -> int:
    """Return SOURCE_DATE_EPOCH, or the time of the last commit, in seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given and not given.isdigit():
        raise BuildError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970, not {given!r}")
    return int(given or _git(repository, "log", "-1", "--format=%ct"))


def revision_of(repository: Path = REPOSITORY) -> str:
    """Return the last commit, with -dirty behind it if there are changes that are not committed."""
    changed = _git(repository, "status", "--porcelain")
    return _git(repository, "rev-parse", "HEAD").strip() + ("-dirty" if changed.strip() else "")


def _git(repository: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError("git is not on PATH: it knows which files are of the project") from None
    if done.returncode != 0:
        raise BuildError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout
