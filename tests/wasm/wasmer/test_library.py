"""Where libwasmer is looked for, and what is said when there is none that fits."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from kscheduler.wasm.engine import EngineUnavailable
from kscheduler.wasm.wasmer import library


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
    with pytest.raises(EngineUnavailable, match="has no function wasmer_version"):
        library.bind_library()
