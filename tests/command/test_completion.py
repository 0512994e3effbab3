"""Shells complete what the parser knows."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kscheduler.command.cli import main
from kscheduler.command.completion import SHELLS, script
from kscheduler.command.flags.commands import words_of_commands

WORDS = words_of_commands()


def completed(line: str) -> set[str]:
    """What bash offers for the last word of a line, with the printed script."""
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _kscheduler; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script("bash", WORDS) + asked], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_commands_with_their_flags_and_subcommands_are_known() -> None:
    assert {"run", "doctor", "completion", "explain", "--version"} <= set(WORDS[""])
    assert "sweep-collect" not in WORDS[""]
    assert {"--nodes", "--html"} <= set(WORDS["simulate"])
    assert {"validate", "show"} <= set(WORDS["config"])
    assert "--expanded" in WORDS["config show"]
    assert "--contention-profiling" not in WORDS["run"]  # accepted, but without effect


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kscheduler expl", {"explain"}),
        ("kscheduler config ", {"validate", "show", "-h", "--help"}),
        ("kscheduler config show --exp", {"--expanded"}),
        ("kscheduler explain web-7 --top", {"--top"}),
        ("kscheduler nothing --x", set()),
    ],
)
def test_bash_offers_what_may_follow(line: str, expected: set[str]) -> None:
    assert completed(line) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed == script(shell, WORDS)
    if shell != "zsh" and (found := shutil.which(shell)):
        subprocess.run([found, "-n"], input=printed, text=True, check=True)


def test_fish_completes_subcommands_and_flags() -> None:
    lines = script("fish", WORDS).splitlines()
    both = "__fish_seen_subcommand_from config; and __fish_seen_subcommand_from show"
    assert f"complete -c kscheduler -n '{both}' -l expanded" in lines
    assert any(line.startswith("complete -c kscheduler -n '__fish_use_subcommand' -f -a 'run ") for line in lines)
