"""Builds the Go commands of the folder go, once for each version of their sources, into a cache outside the checkout.

The same sources are built for each release of Kubernetes, with a go.mod for each; where the releases differ as a
library, a build tag chooses the file. A command's directory in the cache is named by a hash of the release's go.mod and
go.sum and the command's own sources. So another clone finds what one has built, and a change of one command does not
rebuild the others. A build holds a file lock, and is done in a temporary directory that is renamed when complete, so
that the cache contains complete builds only. A tool of another module, such as helm, is built and kept in the same way.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kscheduler.testing.controlplane.faults import HarnessError, MissingTool

MODULE = Path(__file__).resolve().parent / "go"
_INTERNAL = b'"kscheduler.test/controlplane/internal/'  # how imports of packages that commands share begin
CONTROL_PLANE_COMMANDS = ("controlplane", "kube-scheduler", "kwok")

RELEASES = ("1.36", "1.37")  # of Kubernetes, oldest first
DEFAULT_RELEASE = "1.36"

# The commands that are built for each release; one build of another, of the default release, serves them all.
COMMANDS_OF_EACH_RELEASE = frozenset({"controlplane", "device-oracle", "kube-scheduler", "oracle"})

# A build that was not used for this long is removed when the next one is made; each takes about 100 MB.
UNUSED_S = 14 * 24 * 3600.0

# Two compilers at a time: each may take a few GiB, and more of them gain little on small machines.
PARALLEL_COMPILERS = "2"


class Binaries:
    """The built commands of one release of Kubernetes, by name. Made by `ensure`."""

    def __init__(self, paths: dict[str, Path], release: str) -> None:
        self._paths = paths  # command -> executable
        self.release = release  # such as "1.36"

    def path(self, command: str) -> Path:
        """Return the path of the executable of a command in go/cmd."""
        if command not in self._paths:
            raise HarnessError(f"command {command!r} was not built; built are {sorted(self._paths)}")
        return self._paths[command]

    def component(self, name: str) -> list[str]:
        """Return the command with which a component (such as kube-apiserver) is started; flags are to be appended."""
        return [str(self.path("controlplane")), name]


def ensure(commands: Sequence[str] = CONTROL_PLANE_COMMANDS, release: str = DEFAULT_RELEASE) -> Binaries:
    """Return the commands of a release of Kubernetes, after building those that the cache lacks.

    A build takes minutes. Raises HarnessError for an unknown release or command, and if a build fails.
    """
    if release not in RELEASES:
        raise HarnessError(f"expected a release of Kubernetes among {', '.join(RELEASES)}, got {release!r}")
    paths: dict[str, Path] = {}
    for source, group in _by_release_built(commands, release).items():
        missing = [command for command in group if not _executable(command, source).exists()]
        if missing:
            _build(missing, source)
        paths |= {command: _executable(command, source) for command in group}
    for path in paths.values():
        os.utime(path.parent)
    return Binaries(paths, release)


def ensure_tool(module: Path) -> Path:
    """Return the executable of the one command that a Go module of its own names in its `tool` line, built if need be.

    `module` has a go.mod and go.sum, which pin all versions. The executable has the last part of the command's import
    path as its name. Raises MissingTool without Go, and HarnessError if go.mod names no tool, or the build fails.
    """
    text = (module / "go.mod").read_text()
    found = re.search(r"^tool (\S+)$", text, re.MULTILINE)
    if found is None:
        raise HarnessError(f"{module / 'go.mod'}: expected a line `tool IMPORT-PATH`, found none")
    package = found.group(1)
    digest = hashlib.sha256(f"{platform.machine()}\0{text}\0".encode())
    digest.update((module / "go.sum").read_bytes())
    name = package.rpartition("/")[2]
    executable = cache_directory() / f"{name}-{digest.hexdigest()[:16]}" / name
    if not executable.exists():
        with _lock():
            if not executable.exists():  # another process may have built it while this one waited for the lock
                _build_tool(module, package, executable)
    os.utime(executable.parent)
    return executable


def all_commands(release: str) -> list[str]:
    """Return the names of the commands in go/cmd that are built for a release; for the default one, of all."""
    names = {folder.name for folder in (MODULE / "cmd").iterdir() if folder.is_dir()}
    return sorted(names if release == DEFAULT_RELEASE else names & COMMANDS_OF_EACH_RELEASE)


def cache_directory() -> Path:
    """Return the directory of the builds: KSCHEDULER_CONTROLPLANE_CACHE, or one in the user's cache directory."""
    if own := os.environ.get("KSCHEDULER_CONTROLPLANE_CACHE"):
        return Path(own)
    user = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(user) / "kscheduler" / "controlplane"


def kubernetes_version(release: str = DEFAULT_RELEASE) -> str:
    """Return the patch release of Kubernetes that is built for a release, such as v1.36.3."""
    return _module_version("k8s.io/kubernetes", release)


def _by_release_built(commands: Sequence[str], release: str) -> dict[str, list[str]]:
    """Return release -> the commands to be taken from its builds."""
    groups: dict[str, list[str]] = {}
    for command in commands:
        source = release if command in COMMANDS_OF_EACH_RELEASE else DEFAULT_RELEASE
        groups.setdefault(source, []).append(command)
    return groups


def _mod_file(release: str) -> Path:
    """Return the release's go.mod; its go.sum has the same name but for the suffix."""
    return MODULE / ("go.mod" if release == DEFAULT_RELEASE else f"go-{release}.mod")


def _executable(command: str, release: str) -> Path:
    return cache_directory() / f"{command}-{_sources_hash(command, release)}" / command


def _sources_hash(command: str, release: str) -> str:
    folder = MODULE / "cmd" / command
    if not folder.is_dir():
        raise HarnessError(f"{command!r} is no command: there is no {folder}")
    digest = hashlib.sha256(platform.machine().encode())
    mod = _mod_file(release)
    for path in [mod, mod.with_suffix(".sum"), *_sources(folder)]:
        digest.update(str(path.relative_to(MODULE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(folder: Path) -> list[Path]:
    """Return the Go files of a command, and those in go/internal if it imports any of them."""
    own = sorted(folder.rglob("*.go"))
    if any(_INTERNAL in path.read_bytes() for path in own):
        own += sorted((MODULE / "internal").rglob("*.go"))
    return own


def _build(commands: Sequence[str], release: str) -> None:
    with _lock():
        # Another process may have built them while this one waited for the lock.
        commands = [command for command in commands if not _executable(command, release).exists()]
        if not commands:
            return
        go = _go()
        version = kubernetes_version(release)
        _say(f"building {', '.join(commands)} of Kubernetes {version} (minutes when cold, then cached)")
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="build-", dir=cache_directory()) as scratch:
            _compile(go, commands, release, Path(scratch))
            for command in commands:
                _install(Path(scratch) / command, _executable(command, release))
        _say(f"built in {time.monotonic() - began:.0f} s into {cache_directory()}")
        _drop_unused()


def _build_tool(module: Path, package: str, executable: Path) -> None:
    line = [_go(f"building {executable.name}"), "build", "-p", PARALLEL_COMPILERS, "-trimpath", "-ldflags", "-s -w"]
    _say(f"building {package} (minutes when cold, then cached)")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache_directory()) as scratch:
        built = Path(scratch) / executable.name
        _run_go([*line, "-o", str(built), package], module)
        _install(built, executable)
    _say(f"built in {time.monotonic() - began:.0f} s into {cache_directory()}")
    _drop_unused()


def _compile(go: str, commands: Sequence[str], release: str, target: Path) -> None:
    line = [go, "build", "-p", PARALLEL_COMPILERS, "-trimpath", f"-modfile={_mod_file(release).name}"]
    line += ["-tags", f"kubernetes_{release.replace('.', '_')}", "-ldflags", _linker_flags(release), "-o", f"{target}/"]
    line += [f"./cmd/{command}" for command in commands]
    _run_go(line, MODULE)


def _run_go(line: Sequence[str], module: Path) -> None:
    """Run `go build` in a module's directory."""
    # -mod=readonly: a build never edits go.mod, or its hash would change under it.
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
    done = subprocess.run(line, cwd=module, env=environment, capture_output=True, text=True, check=False)
    if "requires go >=" in done.stderr:
        raise MissingTool(f"{line[0]} is too old to build {module}: {done.stderr.strip()[-500:]}")
    if done.returncode != 0:
        raise HarnessError(f"go build in {module} failed with exit code {done.returncode}:\n{done.stderr[-4000:]}")


def _linker_flags(release: str) -> str:
    version = kubernetes_version(release)
    major, minor, _ = version.lstrip("v").split(".", 2)
    values = {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitCommit": "module",
        "sigs.k8s.io/kwok/pkg/consts.Version": _module_version("sigs.k8s.io/kwok", release).lstrip("v"),
    }
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def _install(built: Path, executable: Path) -> None:
    """Move a complete build into the cache by renaming its directory, which is atomic."""
    staged = built.parent / executable.parent.name
    staged.mkdir()
    built.rename(staged / executable.name)
    staged.rename(executable.parent)


def _go(what: str = "building etcd, kube-apiserver and kube-scheduler") -> str:
    go = shutil.which("go")
    if go is None:
        raise MissingTool(f"'go' is not on PATH: {what} needs Go {_go_version()} or newer")
    return go


def _go_version() -> str:
    return _in_go_mod(r"^go (\S+)$", "a go line", DEFAULT_RELEASE)


def _module_version(module: str, release: str) -> str:
    return _in_go_mod(rf"^\s*{re.escape(module)} (v\S+)", f"a version of {module}", release)


def _in_go_mod(pattern: str, what: str, release: str) -> str:
    found = re.search(pattern, _mod_file(release).read_text(), re.MULTILINE)
    if found is None:
        raise HarnessError(f"{_mod_file(release)}: expected {what}, found none")
    return found.group(1)


@contextmanager
def _lock() -> Iterator[None]:
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _drop_unused() -> None:
    for entry in cache_directory().iterdir():
        if entry.is_dir() and time.time() - entry.stat().st_mtime > UNUSED_S:
            shutil.rmtree(entry, ignore_errors=True)


def _say(line: str) -> None:
    print(f"controlplane: {line}", file=sys.stderr, flush=True)
