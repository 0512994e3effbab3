"""Builds all that is published, and checks it: `make release VERSION=1.2.0`.

    python -m deploy.release.release 1.2.0 --into dist/1.2.0

Each step says what it found, how long it took, and what failed. What cannot be checked on this machine is said, too.
Steps that others need end the release when they fail; checks of what is built are all made.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from deploy.release import chart, checksums, container, image, oci, versions, wheels
from deploy.release.installed import Emulated, Installation, check_version, try_out, try_plugin
from deploy.release.sbom import write_sbom
from deploy.release.source import REPOSITORY, BuildError, copied, epoch_of, revision_of
from deploy.release.targets import ARCHITECTURES, Target, find_emulated, find_interpreter, promised


class NotHere(Exception):
    """A check that this machine cannot make; the text says why."""


class Step(NamedTuple):
    name: str
    action: Callable[[], str]  # returns what it found; raises BuildError or NotHere
    needed: bool = False  # whether nothing can follow when it fails


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="deploy.release.release", description="Build a release and check it.")
    parser.add_argument("version", help="such as 1.2.0")
    parser.add_argument("--into", type=Path, help="the folder of what is built, which is emptied (dist/VERSION)")
    parser.add_argument("--check", action="store_true", help="check what is there, and build nothing")
    options = parser.parse_args(argv)
    into = (options.into or REPOSITORY / "dist" / options.version).absolute()
    building = [] if options.check else builds(options.version, into)
    return run([*preparations(options.version), *building, *checks(options.version, into)])


def run(steps: Iterable[Step], say: Callable[[str], None] = print) -> int:
    """Make the steps in turn; return 1 if one failed, otherwise 0."""
    failed, left_out = 0, 0
    for step in steps:
        start = time.monotonic()
        try:
            state, text = "ok", step.action()
        except NotHere as reason:
            state, text = "NOT CHECKED", str(reason)
            left_out += 1
        except BuildError as error:
            state, text = "FAILED", str(error)
            failed += 1
        say(f"{state:12}{step.name} ({time.monotonic() - start:.0f} s): {text}")
        if state == "FAILED" and step.needed:
            say("The release ends here: what follows needs this.")
            return 1
    unchecked = f", {left_out} could not be checked here" if left_out else ""
    say(f"{failed or 'no'} step{'s' if failed > 1 else ''} failed{unchecked}")
    return 1 if failed else 0


# --- before ------------------------------------------------------------------------------------------------------


def preparations(version: str) -> Iterator[Step]:
    yield Step("the version is the same everywhere", partial(check_versions, version), needed=True)
    yield Step("everything is committed", check_tree, needed=True)
    yield Step("every promised Python is here", check_interpreters, needed=True)


def check_versions(version: str, repository: Path = REPOSITORY) -> str:
    if wrong := versions.differences(version, repository):
        raise BuildError("\n  ".join([f"expected {version}", *wrong]))
    return f"{version} in {len(versions.PLACES)} places"


def check_tree(repository: Path = REPOSITORY) -> str:
    revision = revision_of(repository)
    if revision.endswith("-dirty"):
        raise BuildError("there are changes that are not committed: see `git status`")
    return f"commit {revision}, time {epoch_of(repository)}"


def check_interpreters() -> str:
    if missing := [version for version in promised() if find_interpreter(version) is None]:
        raise BuildError(f"no CPython {', '.join(missing)} with its headers: on PATH, of pyenv, or below /opt")
    return ", ".join(promised())


# --- building ----------------------------------------------------------------------------------------------------


def builds(version: str, into: Path) -> Iterator[Step]:
    yield Step("build sdist, wheels and their list of packages", partial(build_wheels, into), needed=True)
    yield Step("build the image", partial(build_image, version, into), needed=True)
    yield Step("pack the chart", lambda: chart.package(into, version, epoch_of()).name, needed=True)
    yield Step("write the digests of all files", lambda: checksums.write(into).name, needed=True)


def build_wheels(into: Path) -> str:
    shutil.rmtree(into, ignore_errors=True)
    return f"{len(wheels.build(into, promised(), ARCHITECTURES)) - 1} wheels"


def build_image(version: str, into: Path) -> str:
    path = image.build(into, image_wheels(version, into))
    return f"{path.name} {image.digest(path)}, {path.stat().st_size / 1e6:.0f} MB"


def image_wheels(version: str, into: Path) -> dict[str, Path]:
    """Return the wheels that the image is made of, by kind of machine."""
    return {one: into / wheel_name(version, image.python_version(), one) for one in ARCHITECTURES}


def wheel_name(version: str, python: str, architecture: str) -> str:
    return f"kscheduler-{version}-{Target(python, architecture, Path()).tag}.whl"


def contents(version: str) -> set[str]:
    """Return the names of all files of a release."""
    built = {wheel_name(version, python, one) for python in promised() for one in ARCHITECTURES}
    endings = ("tar.gz", "tgz", "cdx.json", "oci.tar")
    return built | {f"kscheduler-{version}.{ending}" for ending in endings} | {checksums.NAME}


# --- checking ----------------------------------------------------------------------------------------------------


def checks(version: str, into: Path) -> Iterator[Step]:
    yield Step("the files are those of a release", partial(check_files, version, into))
    yield Step("the sdist is built and runs", partial(check_sdist, version, into))
    for python in promised():
        for architecture in ARCHITECTURES:
            wheel = into / wheel_name(version, python, architecture)
            yield Step(f"{wheel.name} runs", partial(check_wheel, version, wheel, python))
    for architecture in ARCHITECTURES:
        yield Step(f"the image for {architecture} runs", partial(check_image, version, into, architecture))
    yield Step("the same files come of a second build", partial(check_again, version, into))


def check_files(version: str, into: Path) -> str:
    there = {path.name for path in into.iterdir()}
    if there != contents(version):
        raise BuildError(f"missing {sorted(contents(version) - there)}, too much {sorted(there - contents(version))}")
    return f"{checksums.verify(into)} digests are right"


def check_sdist(version: str, into: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        installation = Installation(Path(folder), sys.executable)
        took = installation.install(into / f"kscheduler-{version}.tar.gz", compiles=True)
        return f"compiled in {took:.0f} s, and simulated in {try_out(installation, version):.1f} s"


def check_wheel(version: str, wheel: Path, python: str) -> str:
    machine = next((one for one in ARCHITECTURES if wheel.name.endswith(f"_{one}.whl")), "")
    with tempfile.TemporaryDirectory() as folder:
        if machine != platform.machine():
            return _check_emulated_wheel(version, wheel, Emulated(Path(folder), *_emulated(python, machine), python))
        found = find_interpreter(python)
        if found is None:
            raise NotHere(f"no CPython {python}")
        installation = Installation(Path(folder), found.executable)
        took = installation.install(wheel)
        simulated = try_out(installation, version)
        installation.install(wheel, extra="wasm")
        plugin = try_plugin(installation)
    return f"installed in {took:.0f} s, simulated in {simulated:.1f} s, and ran a plugin in {plugin:.1f} s"


def _emulated(python: str, machine: str) -> tuple[Path, str]:
    """Return the folder of this Python and its kind of machine. Raises NotHere if it cannot be run here."""
    _need_emulator(machine)
    root = find_emulated(python, machine)
    if root is None:
        raise NotHere(f"no CPython {python} of {machine} is below /opt (`make release-pythons` unpacks Debian's)")
    return root, machine


def _check_emulated_wheel(version: str, wheel: Path, installation: Emulated) -> str:
    took = installation.install(wheel, extra="wasm")
    simulated, plugin = try_out(installation, version), try_plugin(installation)
    return f"installed in {took:.0f} s; emulated, it simulated in {simulated:.1f} s and ran a plugin in {plugin:.1f} s"


def _need_emulator(machine: str) -> None:
    if container.emulator(machine) is None:
        raise NotHere(f"this machine is {platform.machine()}, and QEMU's qemu-{machine}-static is not installed")


def check_image(version: str, into: Path, machine: str) -> str:
    made = next(
        one
        for one in oci.images(oci.read_layout(into / f"kscheduler-{version}.oci.tar"))
        if one.platform["architecture"] == oci.PLATFORMS[machine]["architecture"]
    )
    config = made.config["config"]
    expected = image.image_settings(version)
    said = (config["User"], config["Entrypoint"], config["Cmd"], config["Labels"])
    if said != (expected.user, expected.entrypoint, expected.cmd, expected.labels):
        raise BuildError(f"its settings are not those of the Dockerfile for {version}: {config}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"  # that of a temporary folder may be entered by its owner alone
        root.mkdir(mode=0o755)
        oci.unpack(made, root)
        if machine != platform.machine():
            return _check_emulated(version, root, machine)
        if reason := container.reason_against():
            raise NotHere(reason)
        done = container.run(root, config, *config["Entrypoint"], "version")
        check_version(version, done.stdout + done.stderr)
        return done.stdout.strip()


def _check_emulated(version: str, root: Path, machine: str) -> str:
    _need_emulator(machine)
    done = container.run_emulated(root, machine, image.python_version(), "version")
    check_version(version, done.stdout + done.stderr)
    return f"{done.stdout.strip()}, emulated"


def check_again(version: str, into: Path) -> str:
    """Build all but the wheels again, in other folders; kernels take minutes, and a test compiles one of them twice."""
    epoch_s = epoch_of()
    with tempfile.TemporaryDirectory() as folder:
        second = Path(folder) / "dist"
        second.mkdir()
        source = copied(Path(folder) / "source")
        source.write_sdist(second)
        write_sbom(second, source.folder, version, epoch_s)
        chart.package(second, version, epoch_s, source.folder / "deploy/chart")
        image.build(second, image_wheels(version, into))
        names = sorted(path.name for path in second.iterdir())
        different = [name for name in names if (second / name).read_bytes() != (into / name).read_bytes()]
    if different:
        raise BuildError(f"these have other bytes: {', '.join(different)}")
    return ", ".join(names)


if __name__ == "__main__":
    sys.exit(main())
