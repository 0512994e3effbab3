from __future__ import annotations

import pytest

from kscheduler._fast import COMPILED
from perf.lane import main
from tests.support.skips import NOT_BUILT


@pytest.mark.skipif(not COMPILED, reason=NOT_BUILT)
def test_every_number_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "20", "--pods", "300", "--classes", "1", "3", "--rounds", "1"]) == 0
    lines = [" ".join(line.split()[:-5]) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"{what} {step}"
        for what in (
            "1 class, calls of 300",
            "1 class, calls of 256",
            "3 classes, calls of 300",
            "3 classes, calls of 256",
            "1 class, calls of 256, own labels",
        )
        for step in ("sign", "place")
    ]
