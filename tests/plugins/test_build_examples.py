"""The example guests are compiled, also if others compile them at the same time."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.slow  # compilers run

SCRIPT = Path(__file__).parents[2] / "plugins" / "sdk" / "build_examples.py"
BUILD = """
import pathlib, runpy, sys
build = runpy.run_path(sys.argv[1])["LANGUAGES"][sys.argv[2]].build
build.__globals__["TARGET"] = pathlib.Path(sys.argv[3])
build(sys.argv[4])
"""


def test_rust_examples_can_be_built_by_several_processes_at_once(tmp_path: Path) -> None:
    SimpleNamespace(**runpy.run_path(str(SCRIPT)))._rustc()  # a MissingTool is a skip (tests/support/skips.py)
    names = ("nodenumber", "nodenumber", "team_nodes")
    building = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, SCRIPT, "rust", tmp_path, name], stderr=subprocess.PIPE, text=True
        )
        for name in names
    ]
    said = [process.communicate()[1] for process in building]
    assert [process.returncode for process in building] == [0, 0, 0], said
    left = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock")
    assert left == ["nodenumber-rust.wasm", "team_nodes-rust.wasm"]
