"""Where libwasmer is looked for, and the error when there is none that fits."""

from __future__ import annotations

import ctypes.util
import re
import subprocess
from pathlib import Path

import pytest

from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.wasmer import calls, library
from tests.support.skips import program
from tests.wasm.conformance.conftest import made_engine


def test_the_library_that_the_environment_names_is_the_only_one() -> None:
    assert list(library.candidates({library.VARIABLE: "/opt/libwasmer.so"})) == ["/opt/libwasmer.so"]


def test_the_cache_comes_before_the_libraries_of_the_system(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    assert list(library.candidates(environment)) == ["libwasmer.so"]
    built = library.cached_library(environment)
    built.parent.mkdir(parents=True)
    built.touch()
    assert list(library.candidates(environment)) == [str(built), "libwasmer.so"]
    assert built.parts[-3:-1] == ("wasmer", built.parent.name)


def test_without_a_library_the_error_names_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "absent.so"))
    with pytest.raises(EngineUnavailable, match=r"run `make wasmer` .* KSCHEDULER_WASMER; tried .*absent\.so"):
        library.bind_library()


def test_a_file_that_is_no_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.so").write_text("no library")
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "text.so"))
    with pytest.raises(EngineUnavailable, match=r"tried .*text\.so"):
        library.bind_library()


def test_another_library_is_refused_by_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, str(ctypes.util.find_library("c")))
    with pytest.raises(EngineUnavailable, match="it has no function wasmer_version"):
        library.bind_library()


def other_library(folder: Path, version: str) -> Path:
    """All functions that are taken, of which the one that returns the version works."""
    source, made = folder / "other.c", folder / "libwasmer.so"
    lines = [f"void {name.decode()}(void) {{}}" for name in calls.SYMBOLS if name != b"wasmer_version"]
    source.write_text("\n".join([f"const char *wasmer_version(void) {{ return {version}; }}", *lines]))
    subprocess.run([program("cc", "install a C compiler"), "-shared", "-fPIC", "-o", made, source], check=True)
    return made


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ('"6.1.0"', "it is version 6.1.0, expected 7.*"),
        ('"70.1"', "it is version 70.1"),
        ("0", "it is version unknown"),
    ],
)
def test_a_library_of_another_version_is_refused_by_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, says: str
) -> None:
    monkeypatch.setenv(library.VARIABLE, str(other_library(tmp_path, version)))
    with pytest.raises(EngineUnavailable, match=rf"needs libwasmer 7\.\*: .*; tried {tmp_path}/.*: {re.escape(says)}"):
        library.bind_library()


def test_a_second_library_does_not_take_the_place_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made_engine("wasmer")
    monkeypatch.setenv(library.VARIABLE, str(other_library(tmp_path, '"7.9.9"')))
    with pytest.raises(EngineUnavailable, match=r"it cannot be used beside /.*libwasmer\.so, which this process has"):
        library.bind_library()
    guest = engine.compile(b"\0asm\x01\0\0\0").instantiate()
    guest.close()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_library_that_was_cut_is_refused_before_the_system_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The loader maps what is not there, and the process would end by a signal."""
    whole = Path(calls.__file__).read_bytes()
    (tmp_path / "cut.so").write_bytes(whole[: int(len(whole) * share)])
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "cut.so"))
    with pytest.raises(EngineUnavailable, match=r"cut\.so: the file was cut: \d+ bytes, expected at least \d+"):
        library.bind_library()
