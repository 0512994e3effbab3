"""The image that is built without a container engine: what it says, what is in it, and that it runs."""

from __future__ import annotations

import compileall
import io
import platform
import posixpath
import py_compile
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.release import container, debian, image, oci, wheels
from deploy.release.debian import NotOnMirror
from deploy.release.file_tree import File, FileTree, Link
from deploy.release.image import Base
from deploy.release.oci import Image, digest_of
from deploy.release.sbom import BUILD_ONLY, LOCK
from deploy.release.source import REPOSITORY, epoch_of
from deploy.release.targets import find_interpreter
from kscheduler import __version__
from tests.support.skips import missing_tool, package

MACHINE = platform.machine()
PROGRAM = "/opt/kscheduler/bin/kscheduler"
PYTHON = "/opt/kscheduler/bin/python"


class Built(NamedTuple):
    path: Path
    image: Image
    wheel: Path
    root: Path  # where the image is unpacked
    epoch_s: int  # the time of all files


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    package("ziglang")
    python = image.python_version()
    if find_interpreter(python) is None:
        missing_tool(f"no CPython {python} with its headers, which the image's wheel is compiled with")
    folder = tmp_path_factory.mktemp("dist")
    _, wheel = wheels.build(folder, [python], [MACHINE])
    epoch_s = epoch_of()  # before somebody commits
    try:
        path = image.build(folder, {MACHINE: wheel})
    except NotOnMirror as error:
        missing_tool(f"Debian's mirror no longer has {error}")
    (made,) = oci.images(oci.read_layout(path))
    oci.unpack(made, folder / "root")
    return Built(path, made, wheel, folder / "root", epoch_s)


def test_the_settings_are_those_of_the_dockerfile() -> None:
    settings = image.image_settings("9.8")
    assert settings.user == f"{debian.USER}:{debian.USER}"
    assert settings.entrypoint == [PROGRAM]
    assert settings.cmd == ["run"]
    assert settings.ports == ["10259/tcp"]
    assert settings.env == {
        "PATH": f"/opt/kscheduler/bin:{image.PATH}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert settings.labels.pop("org.opencontainers.image.description")
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", settings.labels.pop("org.opencontainers.image.revision"))
    assert settings.labels == {
        "org.opencontainers.image.title": "kscheduler",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": "9.8",
    }


def test_the_dockerfile_labels_the_image_with_this_version_and_makes_the_same_environment() -> None:
    text = (REPOSITORY / "deploy/Dockerfile").read_text()
    assert f"\nARG VERSION={__version__}\n" in text
    assert f" /{image.HOME} /{image.HOME}\n" in text
    assert image.python_version() in {name.removeprefix("python").removesuffix("-minimal") for name in debian.PACKAGES}


def test_every_locked_package_is_installed_but_those_that_compile() -> None:
    lock = (REPOSITORY / LOCK).read_text()
    names = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    chosen = re.findall(r"^([\w.-]+)==", "".join(image._installed(lock, "3.13")), re.MULTILINE)
    # typing-extensions is for older versions of Python.
    assert set(names) - set(chosen) == {*BUILD_ONLY, "typing-extensions"}


@pytest.mark.slow
def test_it_runs_without_a_shell_as_a_user_of_no_rights_on_a_file_system_that_is_read_only(built: Built) -> None:
    def run(*command: str) -> str:
        done = container.run(built.root, config, *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    if reason := container.reason_against():
        missing_tool(reason)
    config = built.image.config["config"]
    assert f"kscheduler {__version__} (CPython {image.python_version()}." in run(*config["Entrypoint"], "version")
    assert "compiled kernels" in run(PROGRAM, "version")
    assert "placed 500 of 500 pods" in run(PROGRAM, "simulate", "--nodes", "50", "--pods", "500")
    assert run(PYTHON, "-c", "import os; print(os.getuid(), os.getgid(), os.getgroups())") == "65532 65532 [65532]\n"
    assert "Read-only file system" in container.run(built.root, config, PYTHON, "-c", "open('/tmp/x', 'w')").stderr
    assert int(run(PYTHON, "-c", "import ssl; print(len(ssl.create_default_context().get_ca_certs()))")) > 100
    for shell in ("sh", "bash", "busybox"):
        assert "No such file" in container.run(built.root, config, f"/bin/{shell}").stderr


@pytest.mark.slow
def test_the_default_command_starts_the_scheduler(built: Built) -> None:
    config = built.image.config["config"]
    if reason := container.reason_against():
        missing_tool(reason)
    done = container.run(built.root, config, *config["Entrypoint"], *config["Cmd"], "--config=/nowhere.yaml")
    assert done.returncode != 0
    assert "/nowhere.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_every_library_that_is_needed_is_there(built: Built) -> None:
    elffile, dynamic = package("elftools.elf.elffile"), package("elftools.elf.dynamic")
    there = {posixpath.basename(path) for path in _paths(built.image)}
    needed = set()
    for path in built.root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            with path.open("rb") as file:
                for section in elffile.ELFFile(file).iter_sections():
                    if isinstance(section, dynamic.DynamicSection):
                        needed |= {(tag.needed, path.name) for tag in section.iter_tags("DT_NEEDED")}
    assert len({library for library, _ in needed}) > 10
    assert not {(library, by) for library, by in needed if library not in there}


@pytest.mark.slow
def test_nothing_but_folders_for_mounts_can_be_written_by_others_and_nothing_is_privileged(built: Built) -> None:
    open_to_all = {name for name, mode in _modes(built.image) if mode & 0o002}
    assert open_to_all == {"tmp", "var/tmp"}
    assert not [name for name, mode in _modes(built.image) if mode & 0o6000]


@pytest.mark.slow
def test_all_python_is_compiled(built: Built) -> None:
    paths = _paths(built.image)
    sources = [path for path, _ in _modes(built.image) if path.endswith(".py")]
    assert len(sources) > 1000
    tag = f"cpython-{image.python_version().replace('.', '')}"
    for path in sources:
        folder, name = posixpath.split(path)
        assert f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc" in paths


@pytest.mark.slow
def test_the_base_and_kscheduler_are_the_same_bytes_when_they_are_made_again(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "download", lambda machine, python: [])  # the packages would take a minute more
    pins = debian.read_lock()
    base = Base(image.python_version(), {MACHINE: debian.base(MACHINE, pins)})
    again = image.layers(MACHINE, built.wheel, base, pins)
    made = [digest_of(layer.files.tar(built.epoch_s)) for layer in again]
    before = built.image.config["rootfs"]["diff_ids"]
    assert (made[0], made[2]) == (before[0], before[2])


def test_bytecode_does_not_depend_on_the_folder_in_which_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def compile_here(system: Path, folder: Path, python: str) -> None:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(folder, quiet=1, stripdir=str(folder), prependdir="/", invalidation_mode=mode)

    monkeypatch.setattr(image, "_compile", compile_here)
    base = Base("3.13", {MACHINE: FileTree()})
    for _ in range(2):
        tree = FileTree({"a/b.py": File(b"x = {1, 2}\n"), "lib": Link("usr/lib")})
        image.add_bytecode([tree], base)
        made.append(tree.tar(0))
    assert made[0] == made[1]
    assert b"b.cpython-" in made[0]


def test_what_compiles_bytecode_does_not_keep_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python writes functools another way if its own library was read from bytecode, which others may write."""
    environments: list[dict[str, str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        environments.append(env)
        return subprocess.CompletedProcess(command, 0, "", "")

    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/ld-linux-x86-64.so.2").touch()
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    monkeypatch.setattr(subprocess, "run", run)
    image._compile(tmp_path, tmp_path, "3.13")
    assert [one["PYTHONDONTWRITEBYTECODE"] for one in environments] == ["1"]


def _paths(made: Image) -> set[str]:
    """All paths, those of links too."""
    found = set()
    for layer in made.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            found |= set(archive.getnames())
    return found


def _modes(made: Image) -> Iterator[tuple[str, int]]:
    """Paths and modes of files and folders."""
    for layer in made.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            yield from ((member.name, member.mode) for member in archive if not member.issym())
