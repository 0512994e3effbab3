"""A change selects the tests that can notice it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.changed import Sources, changed_files
from tests.support.skips import program

FILES = {
    "kscheduler/__init__.py": "",
    "kscheduler/__main__.py": "import kscheduler.loop",
    "kscheduler/loop.py": "def run():\n    from kscheduler.core import table",
    "kscheduler/core/__init__.py": "",
    "kscheduler/core/table.py": "",
    "kscheduler/core/other.py": "",
    "kscheduler/core/page/page.js": "",
    "kscheduler/_fast/__init__.py": "from kscheduler._fast.kernel import f",
    "kscheduler/_fast/kernel.pyx": "from kscheduler._fast.columns cimport g",
    "kscheduler/_fast/columns.pyx": "",
    "deploy/role.yaml": "",
    "plugins/example.c": "",
    "README.md": "",
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/builders.py": "import kscheduler.core.table",
    "tests/core/conftest.py": "import tests.fixtures",
    "tests/fixtures.py": "",
    "tests/core/test_table.py": "from tests import builders",
    "tests/core/test_other.py": "from kscheduler.core import other",
    "tests/test_fast.py": "import kscheduler._fast",
    "tests/test_mocked.py": "MOCKED = 'kscheduler.core.other.function'",
    "tests/test_process.py": "COMMAND = [python, '-m', 'kscheduler', 'run']",
    "tests/test_deploy.py": 'FOLDER = ROOT / "deploy"',
    "tests/test_documents.py": 'PAGE = ROOT / "README.md"',
    "tests/test_layers.py": 'SOURCES = ROOT.rglob("*.py")',
}
OF_CORE = ("core/test_other", "core/test_table")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("kscheduler/core/table.py", ["core/test_table", "test_layers", "test_process"]),
        ("kscheduler/core/other.py", ["core/test_other", "test_layers", "test_mocked"]),
        ("kscheduler/core/gone.py", ["test_layers"]),
        ("kscheduler/core/__init__.py", [*OF_CORE, "test_layers", "test_mocked", "test_process"]),
        ("kscheduler/core/page/page.js", [*OF_CORE, "test_mocked", "test_process"]),
        ("kscheduler/_fast/columns.pyx", ["test_fast", "test_layers"]),
        ("tests/builders.py", ["core/test_table", "test_layers"]),
        ("tests/fixtures.py", [*OF_CORE, "test_layers"]),
        ("tests/test_fast.py", ["test_fast", "test_layers"]),
        ("deploy/role.yaml", ["test_deploy"]),
        ("README.md", ["test_documents"]),
        ("CHANGELOG.md", []),
        (".gitignore", []),
    ],
)  # fmt: skip
def test_a_change_selects_what_imports_it_or_names_it(root: Path, changed: str, tests: list[str]) -> None:
    assert Sources(root).breakable([changed])[0] == [f"tests/{test}.py" for test in tests]


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py", "nobody/knows.it", "plugins/example.c"])
def test_all_tests_run_where_it_is_unsure(root: Path, changed: str) -> None:
    sources = Sources(root)
    assert sources.breakable(["README.md", changed])[0] == sorted(sources.tests.values())


def test_what_differs_from_main_has_changed_and_what_is_new(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(
            [program("git", "Debian's package `git`"), *identity, *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    assert changed_files(tmp_path) is None
    git("init", "--initial-branch", "main")
    for name in ("kept", "edited", "moved"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "branch")
    (tmp_path / "edited").write_text("again")
    git("commit", "-a", "-m", "second")
    (tmp_path / "moved").rename(tmp_path / "new")
    assert changed_files(tmp_path) == ["edited", "moved", "new"]
