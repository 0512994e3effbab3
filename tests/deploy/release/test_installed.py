"""What a user does with an archive, and what is expected of it."""

from __future__ import annotations

import pytest

from deploy.release.installed import Installation, check, try_out, try_plugin
from deploy.release.source import BuildError


class Fake(Installation):
    """A fake installation whose commands print fixed outputs."""

    def __init__(self, version: str, report: str) -> None:
        self._printed = {"version": version, "simulate": report}

    def run(self, *command: str) -> str:
        return self._printed[command[1]]


class FakeTrial:
    """A fake installation in which `kscheduler plugin test` prints a fixed output."""

    def __init__(self, printed: str) -> None:
        self._printed = printed

    def run(self, *command: str) -> str:
        assert command[:3] == ("kscheduler", "plugin", "test")
        return self._printed


GOOD = "kscheduler 1.2.0 (CPython 3.13.5, compiled kernels)\n"
PLACED = "placed 500 of 500 pods (100.00 %)\n"


def test_an_installation_that_decides_is_good() -> None:
    assert try_out(Fake(GOOD, PLACED), "1.2.0") >= 0


@pytest.mark.parametrize(
    ("version", "report", "message"),
    [
        (GOOD, PLACED.replace("500 of", "499 of"), "expected that all 500 pods are placed"),
        (GOOD.replace("1.2.0", "1.2.1"), PLACED, "expected kscheduler 1.2.0 with compiled kernels"),
        (GOOD.replace("compiled", "Python"), PLACED, "expected kscheduler 1.2.0 with compiled kernels"),
    ],
)
def test_one_that_does_not_is_not(version: str, report: str, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        try_out(Fake(version, report), "1.2.0")


def test_a_plugin_must_be_asked_about_all_nodes() -> None:
    answered = "pod default/train-1 goes to node-1 (4 of 4 nodes fit)\n"
    assert try_plugin(FakeTrial(answered)) >= 0
    with pytest.raises(BuildError, match="expected that the plugin gpu_packing is asked about 4 nodes"):
        try_plugin(FakeTrial("nothing"))


def test_a_command_that_fails_shows_what_it_printed() -> None:
    with pytest.raises(BuildError, match=r"exit code 4\nnot today"):
        check(["sh", "-c", "echo not today; exit 4"])
