"""One gang is decided once, and what that took is shown for gangs that fit and that do not."""

from __future__ import annotations

import pytest
import uvloop

from perf import gang_decisions
from perf.gang_decisions import LACKING, Gang

PODS = LACKING + 5


@pytest.mark.parametrize("gang", Gang)
def test_a_plan_is_a_part_of_the_decision(gang: Gang) -> None:
    took = uvloop.run(gang_decisions.decide(gang, nodes=PODS + 5, pods=PODS))
    assert took.decisions >= 1
    assert 0.0 < took.planned < took.decided


def test_the_command_prints_a_line_for_each_gang(capsys: pytest.CaptureFixture[str]) -> None:
    assert gang_decisions.main(["--nodes", "60", "--pods", "50", "--rounds", "1"]) == 0
    _, fits, lacks_nodes, fits_nowhere = capsys.readouterr().out.splitlines()
    assert fits.startswith("fits              50")
    assert lacks_nodes.startswith("lacks nodes       25")
    assert fits_nowhere.startswith("fits nowhere      25")
