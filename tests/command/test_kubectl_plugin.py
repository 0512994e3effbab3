"""`kubectl kscheduler` hands everything on, and makes a drain of a record and a what-if."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kscheduler.command.kubectl_plugin import main
from kscheduler.command.live_views import VIEWS


class Commands:
    """Notes the commands that are run; each ends with a code."""

    def __init__(self, code: int = 0) -> None:
        self.ran: list[list[str]] = []
        self._code = code

    def __call__(self, arguments: Sequence[str]) -> int:
        self.ran.append(list(arguments))
        return self._code


def test_a_command_is_run_as_it_is() -> None:
    commands = Commands(3)
    assert main(["explain", "web-7", "-n", "shop"], commands) == 3
    assert commands.ran == [["explain", "web-7", "-n", "shop"]]


def test_the_help_names_the_commands_that_are_only_here(capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands()
    assert main(["--help"], commands) == 0
    assert commands.ran == [["--help"]]
    shown = capsys.readouterr().out
    for name in (*VIEWS, "drain"):
        assert f"\n  {name} " in shown


def test_a_drain_asks_about_a_record_of_the_cluster() -> None:
    commands = Commands()
    assert main(["drain", "a", "b", "--kubeconfig", "k", "--output=json"], commands) == 0
    record, whatif = commands.ran
    assert record[:2] == ["record", "--out"]
    assert record[3:] == ["--duration", "1s", "--kubeconfig", "k"]
    assert whatif[:2] == ["whatif", "--record"]
    assert whatif[2] == record[2]
    assert whatif[3:] == ["--remove-nodes", "a", "--remove-nodes", "b", "--output=json"]


def test_without_a_record_nothing_is_asked() -> None:
    commands = Commands(1)
    assert main(["drain", "a"], commands) == 1
    assert len(commands.ran) == 1


def test_a_drain_names_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain"], Commands()) == 2
    assert "expected names of nodes, got none" in capsys.readouterr().err


def test_a_drain_with_a_wrong_flag_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain", "a", "--kubeconfig"], Commands()) == 2
    assert capsys.readouterr().err == "kscheduler: error: drain: argument --kubeconfig: expected one argument\n"
