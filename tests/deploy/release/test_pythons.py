"""Pythons of Debian's other releases are unpacked where wheels are built and tried."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.release import pythons
from deploy.release.source import BuildError
from deploy.release.targets import promised


def test_every_version_that_debian_has_is_promised() -> None:
    assert pythons.SUITES.keys() <= set(promised())


def test_a_version_that_debian_lacks_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BuildError, match="Debian has no such package"):
        pythons.unpack("3.12", "aarch64", tmp_path)
    assert pythons.main(["3.12", "aarch64"]) == 1
    assert "CPython 3.12 for aarch64: Debian has no such package" in capsys.readouterr().err


def test_what_is_missing_is_listed_by_version_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "find_interpreter", lambda version: None if version == "3.14" else object())
    monkeypatch.setattr(pythons, "find_emulated", lambda version, machine: None if version == "3.11" else Path(machine))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert pythons.missing() == [("3.11", "aarch64"), ("3.14", "x86_64")]


def test_the_packages_are_unpacked_with_the_links_that_programs_expect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.deb").touch()

    def extract(command: list[str]) -> bytes:
        (Path(command[-1]) / "usr/lib").mkdir(parents=True)
        return b""

    monkeypatch.setattr(pythons, "_download", lambda suite, machine, packages, folder: [tmp_path / "a.deb"])
    monkeypatch.setattr(pythons, "run_tool", extract)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    folder = pythons.unpack("3.13", "aarch64", tmp_path / "opt")
    assert folder == tmp_path / "opt/python3.13-aarch64"
    assert (folder / "lib").resolve() == folder / "usr/lib"
    assert not (tmp_path / "a.deb").exists()


def test_an_interpreter_starts_with_the_libraries_beside_it(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (tmp_path / "usr/bin").mkdir()
    loader = libraries / "ld-linux-x86-64.so.2"
    loader.write_text('#!/bin/sh\necho "$@"\n')
    loader.chmod(0o755)
    program = tmp_path / "usr/bin/python3.14"
    program.write_text("the interpreter")
    pythons.start_with_own_libraries(tmp_path, "3.14", "x86_64")
    link = tmp_path / "python"  # as in a virtual environment, whose Python must know that it was called by this name
    link.symlink_to(program)
    done = subprocess.run([link, "-c", "x y"], capture_output=True, text=True, check=True)
    expected = f"--argv0 {link} --library-path {libraries}:/usr/lib/x86_64-linux-gnu {program}.debian -c x y\n"
    assert done.stdout == expected


def test_the_headers_find_the_one_of_the_machine(tmp_path: Path) -> None:
    headers = tmp_path / "usr/include/python3.14"
    headers.mkdir(parents=True)
    of_machine = tmp_path / "usr/include/x86_64-linux-gnu/python3.14/pyconfig.h"
    of_machine.parent.mkdir(parents=True)
    of_machine.write_text("#define OF_MACHINE 1")
    for _ in range(2):  # unpacked again
        pythons.link_headers(tmp_path, "3.14", "x86_64")
    assert (headers / "x86_64-linux-gnu/python3.14/pyconfig.h").read_text() == "#define OF_MACHINE 1"
