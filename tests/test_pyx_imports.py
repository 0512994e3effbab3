"""import-linter does not read Cython files, so the rule that kernels import nothing of kscheduler is checked here."""

from __future__ import annotations

from pathlib import Path

import pytest

import kscheduler
from tests.support.imports import imported_by_cython

_ROOT = Path(kscheduler.__file__).parent
_FILES = sorted(path for suffix in ("*.pyx", "*.pxd", "*.pxi") for path in _ROOT.rglob(suffix))
# Cython outside _fast -> the modules it may import
_CALLS = {"kscheduler.wasm.engine", "kscheduler.wasm.clocks", "kscheduler.wasm.calls"}
_OTHERS = {
    _ROOT / "wasm" / "clocks.pxd": set[str](),
    _ROOT / "wasm" / "calls.pxd": {"kscheduler.wasm.clocks"},
    _ROOT / "wasm" / "calls.pyx": {"kscheduler.wasm.engine", "kscheduler.wasm.clocks"},
    _ROOT / "wasm" / "wasmtime" / "calls.pyx": _CALLS,
    _ROOT / "wasm" / "wasmer" / "calls.pyx": _CALLS,
    _ROOT / "wasm" / "wasmer" / "instrumentation.pyx": {"kscheduler.wasm.engine"},
}


def test_there_are_cython_files_to_check() -> None:
    assert "_fast/columns.pyx" in [path.relative_to(_ROOT).as_posix() for path in _FILES]


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.relative_to(_ROOT).as_posix())
def test_kernels_import_nothing_of_kscheduler(path: Path) -> None:
    assert path in _OTHERS or _ROOT / "_fast" in path.parents, (
        "only _fast holds Cython, beside the calls into wasm engines"
    )
    outside = [
        name
        for name in imported_by_cython(path.read_text(encoding="utf-8"))
        if name.startswith(".") or (name.split(".")[0] == "kscheduler" and not name.startswith("kscheduler._fast."))
        if name not in _OTHERS.get(path, ())
    ]
    assert outside == []


def test_every_form_of_import_is_seen() -> None:
    text = "from kscheduler.api cimport x\ncimport kscheduler.cache as c, libc\nimport os\n  from .columns import y\n"
    assert imported_by_cython(text) == ["kscheduler.api", "kscheduler.cache", "libc", "os", ".columns"]
