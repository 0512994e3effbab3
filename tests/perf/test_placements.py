from __future__ import annotations

import pytest

from kscheduler._fast import COMPILED
from perf.placements import main


@pytest.mark.skipif(not COMPILED, reason="the extensions are not built")
def test_every_number_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes", "300", "--classes", "1", "--classes", "3", "--rounds", "1", "--seconds", "0.001"]
    assert main(options) == 0
    printed = capsys.readouterr().out
    for what in ("1 class", "3 classes", "full scan, 1 thread", "full scan, 2 threads", "full scan reads and writes"):
        assert what in printed
