"""What a machine lacks is printed before anything is set up."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from deploy import build_tools


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has everything; its Python's headers are in the folder."""
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(build_tools, "has_ensurepip", lambda: True)
    monkeypatch.setenv("CC", f"{sys.executable} -c")
    return tmp_path


@pytest.mark.usefixtures("complete")
def test_nothing_is_printed_where_everything_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_tools.main() == 0
    assert capsys.readouterr() == ("", "")


def test_each_thing_that_is_missing_is_named_with_its_package(
    complete: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (complete / "Python.h").unlink()
    monkeypatch.setenv("CC", "no-such-cc -O2")
    monkeypatch.setattr(build_tools, "has_ensurepip", lambda: False)
    monkeypatch.setattr(build_tools, "OLDEST", (9, 9))
    assert build_tools.main() == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("missing: Python 3.11 or later: this is 3.")
    assert lines[1].endswith("(Debian: python3-venv)")
    assert lines[2] == f"missing: Python's headers, {complete}/Python.h (Debian: python3-dev)"
    assert lines[3] == "missing: a C compiler, no-such-cc (Debian: gcc libc6-dev)"
    assert "install a wheel" in lines[4]


def test_it_is_asked_before_anything_is_installed() -> None:
    rules = (Path(__file__).parents[2] / "Makefile").read_text()
    assert rules.index("deploy/build_tools.py") < rules.index("-m venv")
