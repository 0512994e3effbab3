from __future__ import annotations

import pytest

from kscheduler._fast import COMPILED
from perf.placements import Gain, main
from tests.support.skips import NOT_BUILT


@pytest.mark.skipif(not COMPILED, reason=NOT_BUILT)
def test_every_number_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes", "300", "--classes", "1", "--classes", "3", "--rounds", "1", "--seconds", "0.001"]
    assert main(options) == 0
    printed = capsys.readouterr().out
    for what in ("1 class", "3 classes", "full scan, 1 thread", "full scan, 2 threads", "full scan reads and writes"):
        assert what in printed


def test_gains_are_ratios_within_a_round() -> None:
    gain = Gain(10, 0.0, one_s=(4e-6, 2e-6, 9e-6), two_s=(2e-6, 2e-6, 3e-6))
    assert gain.ratios == [1.0, 2.0, pytest.approx(3.0)]
    assert "gain 2.00 (1.00 - 3.00, 1.00 .. 3.00) of 3 rounds" in str(gain)
