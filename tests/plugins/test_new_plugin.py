"""`make new-plugin`: what it writes runs, as it is."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
main: Callable[[list[str]], int] = runpy.run_path(str(REPOSITORY / "plugins" / "new_plugin.py"))["main"]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_commands_that_are_printed_run_in_any_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["PreferTeam", str(tmp_path / "my plugins")]) == 0
    _, script = capsys.readouterr().out.split("try:\n")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}  # no virtual environment is active
    shell = ["sh", "-e", "-c", script.replace("-m pytest", "-m pytest -p no:cacheprovider")]
    done = subprocess.run(shell, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "placed 2 of 2 pods" in done.stdout
    assert "default/of-a,ours" in done.stdout


@pytest.mark.slow
def test_the_plugin_passes_its_test_and_simulates(tmp_path: Path) -> None:
    assert main(["PreferTeam", str(tmp_path)]) == 0
    folder = tmp_path / "prefer_team"
    made = {"prefer_team.py", "test_prefer_team.py", "scheduler.yaml", "nodes.yaml", "pods.yaml"}
    assert {path.name for path in folder.iterdir()} == made
    assert "2 passed" in run(folder, "pytest", "-q", "-p", "no:cacheprovider")
    assert run(folder, "ruff", "check", "--config", str(REPOSITORY / "pyproject.toml"), ".")
    run(folder, "kscheduler", "config", "validate", "scheduler.yaml")
    assert "no label team" in run(folder, "kscheduler", "simulate", "--config", "scheduler.yaml", "--pods", "3")


@pytest.mark.parametrize("arguments", [[], ["preferTeam"], ["Prefer-Team"], ["../Up"], ["A", "b", "c"]])
def test_arguments_that_cannot_be_used_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "expected a class name such as PreferTeam" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Random", "Json", "Yaml", "Class", "Pytest"])
def test_names_that_python_could_not_import_or_would_confuse_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, str(tmp_path)]) == 2
    assert f"{name.lower()} is" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prefer_team").mkdir()
    assert main(["PreferTeam", str(tmp_path)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert list((tmp_path / "prefer_team").iterdir()) == []


@pytest.mark.parametrize("name", ["ImageLocality", "Gangs"])
def test_the_name_of_a_plugin_of_the_scheduler_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, str(tmp_path)]) == 2
    assert f"expected a name that no plugin has yet, got '{name}'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
