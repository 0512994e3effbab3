from __future__ import annotations

import pytest

from kscheduler._fast import COMPILED
from perf.joined import KINDS, main
from tests.support.skips import NOT_BUILT


@pytest.mark.skipif(not COMPILED, reason=NOT_BUILT)
def test_both_lanes_choose_alike_and_every_kind_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "120", "--pods", "110"]) == 0
    printed, complaints = capsys.readouterr()
    assert all(kind in printed for kind in KINDS)
    assert complaints == ""
