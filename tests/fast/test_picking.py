from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kscheduler.testing.kernels import load_compiled
from tests.support.skips import NOT_BUILT

_SAY = "import kscheduler._fast as f; print(f.COMPILED, f.NodeColumns.__module__, f.select_host.__module__)"


def picked(no_extensions: str) -> list[str]:
    environment = {**os.environ, "KSCHEDULER_NO_EXTENSIONS": no_extensions}
    return subprocess.run(
        [sys.executable, "-c", _SAY], env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


def test_the_switch_takes_the_plain_kernels() -> None:
    assert picked("1") == ["False", "kscheduler._fast.reference.columns", "kscheduler._fast.reference.selection"]


@pytest.mark.skipif(load_compiled() is None, reason=NOT_BUILT)
def test_compiled_kernels_are_taken_where_they_are_built() -> None:
    assert picked("") == ["True", "kscheduler._fast.columns", "kscheduler._fast.selection"]
