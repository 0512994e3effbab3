"""What may import what beside the product, whose own contracts are in pyproject.toml.

A module of tests is not imported by others: what several share has a module of its own. Benchmarks and plugins import
no tests, so that they work where only the package is installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.imports import imported_by

ROOT = Path(__file__).parents[1]


def importers(folder: str) -> list[tuple[str, str]]:
    """Each file below the folder with each module that it imports."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), module) for path in files for module in imported_by(path.read_text())]


def test_no_module_imports_a_module_of_tests() -> None:
    assert [
        f"{path} imports {module}"
        for path, module in importers("tests")
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ] == []


@pytest.mark.parametrize("folder", ["deploy", "kscheduler", "perf", "plugins"])
def test_nothing_but_tests_imports_tests(folder: str) -> None:
    assert [f"{path} imports {module}" for path, module in importers(folder) if module.split(".")[0] == "tests"] == []
