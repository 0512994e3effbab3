"""The unit tests pass on the newest CPython that is promised, in a copy of the checkout with kernels of its own.

`make test-newest` runs all of their cases, and CI the first case of each test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.support.few_cases import CASES_OF_EACH
from tests.support.inner_runs import ran_twice, show_at_end
from tests.support.skips import is_ci, missing_tool

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "build/newest-python"
PLACES = ("/opt/python{version}/usr/bin/python{version}",)  # where .ci/run unpacks it
TAIL_CHARS = 20_000
CASES = 1  # of each test in CI, where the run on the first interpreter decides them all


def promised() -> list[str]:
    """Return the versions in pyproject.toml's classifiers, oldest first."""
    document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in document["project"]["classifiers"]
    ]
    return sorted((match[1] for match in found if match), key=lambda version: int(version.partition(".")[2]))


def interpreter(version: str) -> str:
    """Return the path of this Python."""
    places = [place.format(version=version) for place in PLACES]
    for place in (f"python{version}", *places):
        if (found := shutil.which(place)) and _run([found, "--version"]).returncode == 0:
            return found
    missing_tool(f"no CPython {version}: {PLACES[0].format(version=version)} and 'python{version}' on PATH are missing")


def test_the_python_that_runs_these_tests_is_promised() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in promised()


def second_try() -> list[str]:
    """Return the options by which the Makefile has CI run a failed test once more; elsewhere none."""
    given = re.search(r"^SECOND_TRY := .*?,(--.*)\)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert given is not None, "the Makefile defines SECOND_TRY"
    return given[1].split() if is_ci() else []


def test_only_ci_runs_a_failed_test_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert second_try() == []
    monkeypatch.setenv("CI", "true")
    assert second_try()[:2] == ["--reruns", "1"]


def test_the_unit_tests_pass_on_the_newest_promised_python(request: pytest.FixtureRequest) -> None:
    if not is_ci() and "TEST_NEWEST" not in os.environ:
        pytest.skip("runs whole by `make test-newest`, and with few cases of each test in CI")
    python = interpreter(promised()[-1])
    source = copied()
    own, pip = source / ".venv/bin/python", source / "build/pip"
    # Debian's interpreter has no pip of its own, and an older one's does not run on it: so the newest, from a folder.
    _check([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(pip), "pip"], source)
    _check([python, "-m", "venv", "--without-pip", str(source / ".venv")], source)
    install = [str(own), str(pip / "pip"), "install", "--quiet"]
    _check([*install, "--requirement", "requirements.lock"], source)
    _check([*install, "--no-build-isolation", "--no-deps", "--editable", "."], source)
    _check([str(own), "-c", "import kscheduler._fast as fast; assert fast.COMPILED"], source)
    # Tests of the kernels' references are left out: they are plain Python, and nothing installed runs them.
    tests = ["-m", "not slow and not controlplane", "-k", "not [reference", "tests"]
    few = {} if "TEST_NEWEST" in os.environ else {CASES_OF_EACH: str(CASES)}
    # One test in thousands that fails must not have all of them run again: so a second try of its own.
    printed = _check([str(own), "-m", "pytest", "-q", *second_try(), *tests], source, few)
    if twice := ran_twice(printed):
        show_at_end(request, twice)


def copied() -> Path:
    """Return a fresh copy of the checkout's files, with changes that are not committed."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    listed = _check(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], REPOSITORY)
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, FOLDER / name)
    return FOLDER


def _check(command: Sequence[str], directory: Path, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what the command prints; the test fails with its end if the command does."""
    done = _run(command, directory, variables)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-TAIL_CHARS:]}")
    return done.stdout


def _run(
    command: Sequence[str], directory: Path = REPOSITORY, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "VIRTUAL_ENV"))}
    environment.update(variables)
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
