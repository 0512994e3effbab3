"""Builds the image without a container engine, the same bytes each time: `make image`.

    python -m deploy.release.image --into dist --architecture x86_64

It has three layers: Debian's packages, the locked Python packages, and kscheduler. Settings and labels are those of the
Dockerfile. All bytecode is compiled here, since the file system is read-only where the image runs.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from deploy.release import debian, dockerfile, oci, wheels
from deploy.release.debian import Pin
from deploy.release.dockerfile import Settings
from deploy.release.file_tree import EXECUTABLE, SHARED_FOLDER, File, FileTree, Folder, Link
from deploy.release.oci import Document, Layer
from deploy.release.sbom import BUILD_ONLY, LOCK
from deploy.release.source import REPOSITORY, BuildError, epoch_of, revision_of
from deploy.release.targets import ARCHITECTURES, pip_options

HOME = "opt/kscheduler"  # the virtual environment, as in the Dockerfile
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of the base, as of Debian's images
_START = """\
#!/{home}/bin/python
import sys
from kscheduler.command.start import main
sys.exit(main())
"""


class Base(NamedTuple):
    """What images are made on: the version of Python, and Debian's files by kind of machine."""

    python: str  # such as 3.13
    files: Mapping[str, FileTree]

    def packages(self) -> str:
        """Return the folder of Python packages."""
        return f"{HOME}/lib/python{self.python}/site-packages"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="deploy.release.image", description="Build the image without an engine.")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "dist", help="the folder of what is built")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES, help="instead of both")
    options = parser.parse_args(argv)
    architectures = options.architecture or ARCHITECTURES
    try:
        _, *built = wheels.build(options.into, [python_version()], architectures)
        path = build(options.into, dict(zip(architectures, built, strict=True)))
    except BuildError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print(path, digest(path))
    return 0


def build(into: Path, built: Mapping[str, Path]) -> Path:
    """Build an image of wheels of kscheduler, by kind of machine; return the path of its layout, a tar archive.

    Raises BuildError if a package is not to be had, or not the one that is locked.
    """
    version = {path.name.split("-")[1] for path in built.values()}.pop()
    pins, epoch_s = debian.read_lock(), epoch_of()
    kinds = {*built, platform.machine()}  # this machine's too, since its Python compiles the bytecode of all
    base = Base(python_version(), {machine: debian.base(machine, pins) for machine in kinds})
    settings = image_settings(version)
    blobs = oci.Blobs()
    manifests = [
        oci.add_image(blobs, machine, layers(machine, wheel, base, pins), settings, epoch_s)
        for machine, wheel in sorted(built.items())
    ]
    path = into / f"kscheduler-{version}.oci.tar"
    path.write_bytes(oci.layout(blobs, manifests, version, settings.labels).tar(epoch_s))
    return path


def digest(layout: Path) -> str:
    """Return the digest by which the image can be pinned: that of the index of its platforms."""
    index: Document = oci.top(oci.read_layout(layout))
    return str(index["digest"])


def python_version(file: Path = REPOSITORY / "deploy/Dockerfile") -> str:
    """Return the version of Python that the Dockerfile takes. Raises BuildError if it is not the base's."""
    version = dockerfile.read(file.read_text(encoding="utf-8"), {"PATH": PATH}, {}).arguments.get("PYTHON_VERSION", "")
    if f"python{version}-minimal" not in debian.PACKAGES:
        raise BuildError(f"{file.name} takes Python {version}, and deploy/release/debian.py has no package of it")
    return version


def image_settings(version: str, file: Path = REPOSITORY / "deploy/Dockerfile") -> Settings:
    """Return the settings of the image of this version of kscheduler."""
    return dockerfile.read(
        file.read_text(encoding="utf-8"), {"PATH": PATH}, {"VERSION": version, "REVISION": revision_of()}
    )


def layers(machine: str, wheel: Path, base: Base, pins: Iterable[Pin]) -> list[Layer]:
    """Return the layers of the image for a kind of machine, each with its bytecode."""
    system = base.files[machine]
    for name in ("tmp", "var/tmp"):
        system.entries[name] = Folder(SHARED_FOLDER)
    dependencies = environment(base.python)
    for each in download(machine, base.python):
        dependencies.add_wheel(each, base.packages())
    own = FileTree()
    own.add_wheel(wheel, base.packages())
    own.add(f"{HOME}/bin/kscheduler", File(_START.format(home=HOME).encode(), EXECUTABLE))
    of_debian = " ".join(f"{pin.name}={pin.version}" for pin in pins if pin.machine == machine)
    named = [
        Layer(system, f"Debian {debian.SUITE}: {of_debian}"),
        Layer(dependencies, f"packages of {LOCK}"),
        Layer(own, wheel.name),
    ]
    add_bytecode([layer.files for layer in named], base)
    return named


def environment(python: str) -> FileTree:
    """Return a virtual environment without packages."""
    tree = FileTree()
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    tree.add(f"{HOME}/pyvenv.cfg", File(settings.encode()))
    for name in ("python", f"python{python}"):
        tree.add(f"{HOME}/bin/{name}", Link(f"/usr/bin/python{python}"))
    return tree


def download(machine: str, python: str, kept: Path = REPOSITORY / "build/image/wheels") -> list[Path]:
    """Return the wheels of the locked packages for a kind of machine, whose digests pip has checked."""
    into = kept / f"{machine}-{python}"
    into.mkdir(parents=True, exist_ok=True)
    lock = "".join(_installed((REPOSITORY / LOCK).read_text(encoding="utf-8"), python))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", *pip_options(python, machine), f"--find-links={into}", "--requirement"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / LOCK).write_text(lock, encoding="utf-8")
        command += [str(Path(folder) / LOCK), f"--dest={folder}"]
        for choice in (["--no-index"], []):  # what was downloaded before saves asking for each of the packages
            done = subprocess.run([*command, *choice], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            raise BuildError(f"pip download for {machine}: exit code {done.returncode}\n{done.stderr[-4000:]}")
        found = sorted(Path(folder).glob("*.whl"))
        for path in found:
            path.replace(into / path.name)
        return [into / path.name for path in found]


def _installed(lock: str, python: str) -> Iterable[str]:
    """Yield the locked packages that are installed with this Python, which need not be the one that runs this."""
    from packaging.requirements import Requirement

    for block in re.split(r"(?m)^(?=\S)", lock):
        if block and not block.startswith("#"):
            first = block.splitlines()[0].removesuffix("\\").strip()
            requirement = Requirement(first)
            marker = {"python_version": python, "python_full_version": f"{python}.0"}
            if requirement.name not in BUILD_ONLY and (
                requirement.marker is None or requirement.marker.evaluate(marker)
            ):
                yield block.replace(first, first.partition(";")[0].strip())


def add_bytecode(trees: Sequence[FileTree], base: Base) -> None:
    """Add to each tree the bytecode of its Python files, compiled by the base's Python without running the image.

    It is never compared with its source, whose time a read-only layer does not need to keep.
    """
    here = platform.machine()
    if here not in base.files:
        raise BuildError(f"no Python for this machine, {here}, is pinned")
    with tempfile.TemporaryDirectory() as work:
        system, compiled = Path(work) / "system", Path(work) / "compiled"
        base.files[here].write(system)
        folders = [compiled / str(number) for number in range(len(trees))]
        for tree, folder in zip(trees, folders, strict=True):
            FileTree({path: file for path, file in tree.files() if path.endswith(".py")}).write(folder)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done in [pool.submit(_compile, system, folder, base.python) for folder in folders]:
                done.result()
        for tree, folder in zip(trees, folders, strict=True):
            for made in sorted(folder.rglob("*.pyc")):
                tree.add(made.relative_to(folder).as_posix(), File(made.read_bytes()))


def _compile(system: Path, folder: Path, python: str) -> None:
    (loader,) = (system / "usr").glob("lib*/ld-linux-*.so.*")
    (libraries,) = (system / "usr/lib").glob("*-linux-gnu")
    command = [str(loader), "--library-path", str(libraries), str(system / f"usr/bin/python{python}"), "-s", "-S"]
    command += ["-m", "compileall", "-q", "-r", "40"]
    command += ["--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/", str(folder)]
    variables = {"PYTHONHOME": str(system / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    # Otherwise a process would find bytecode of its own library, or not, depending on how far the one beside it is.
    # Which of the two it was can be seen in what it compiles, such as functools.
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"bytecode: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
