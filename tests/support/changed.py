"""Which modules of tests a change can break: `make test CHANGED=1` runs those alone.

    python -m tests.support.changed     # prints their paths, and on stderr why

What differs from main's merge base, and what git does not know yet, counts as changed. From there on modules are
followed to those that import them, and to those that name them in a string, as `-m` and mocks do. What is no module
belongs to all modules of the package that holds it, or to those that name it or its folder. All tests run where
nothing says what a change can break.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from tests.support.imports import imported_by, imported_by_cython

ROOT = Path(__file__).parents[2]
MAIN = ("origin/main", "main")
TOPS = ("deploy", "docs", "kscheduler", "perf", "plugins", "tests")
CYTHON = (".pyx", ".pxd", ".pxi", ".pyi")
EVERYTHING = ("pyproject.toml", "setup.py", "requirements.lock", "Makefile", "tests/conftest.py")
NOTHING = (".gitignore", ".editorconfig", ".pre-commit-config.yaml", "LICENSE")  # no test looks at them
_MODULE = re.compile(r"(?:deploy|docs|kscheduler|perf|tests)\.(?:\w+\.)*\w*")


def changed_files(root: Path = ROOT) -> list[str] | None:
    """Paths that differ from the merge base with main; None without git, or without a main."""
    for main in MAIN:
        base = _git(root, "merge-base", "HEAD", main)
        if base is not None:
            known = _git(root, "diff", "--name-only", "--no-renames", base.strip())
            new = _git(root, "ls-files", "--others", "--exclude-standard")
            return None if known is None or new is None else sorted({*known.split("\n"), *new.split("\n")} - {""})
    return None


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


class Sources:
    """The modules below a folder, and who needs whom."""

    def __init__(self, root: Path = ROOT) -> None:
        self._texts: dict[str, str] = {}  # module -> its text, all files of it one after the other
        self._importers: dict[str, set[str]] = defaultdict(set)  # module -> those that name it
        self.tests: dict[str, str] = {}  # module of tests -> its path
        files = [path for top in TOPS for suffix in (".py", *CYTHON) for path in (root / top).rglob(f"*{suffix}")]
        needs: dict[str, set[str]] = defaultdict(set)
        for path in files:
            relative, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
            module = module_of(relative)
            self._texts[module] = self._texts.get(module, "") + text
            needs[module] |= _needs(path.suffix, text)
            if path.name.startswith("test_"):
                self.tests[module] = relative
        for module, names in needs.items():
            for name in names:
                # A name that ends in a dot stands for all modules below it.
                for needed in self._below(name[:-1]) if name.endswith(".") else [name]:
                    self._importers[needed].add(module)
        for module in self.tests:
            for package in _packages(module):
                self._importers[f"{package}.conftest"].add(module)

    def breakable(self, changed: Iterable[str]) -> tuple[list[str], str]:
        """Paths of the modules of tests that the changed files can break, sorted; and why. All where it is unsure."""
        begin: set[str] = set()
        for path in changed:
            found = self._begin(path)
            if found is None:
                return sorted(self.tests.values()), f"all tests: {path} has changed"
            begin |= found
        reached = self._reached(begin)
        paths = sorted(path for module, path in self.tests.items() if module in reached)
        return paths, f"{len(paths)} of {len(self.tests)} modules of tests"

    def _begin(self, path: str) -> set[str] | None:
        """The modules that a file belongs to; None: nobody knows."""
        if path in EVERYTHING:
            return None
        if path in NOTHING or path.startswith(".devcontainer/"):
            return set()
        folder, _, name = path.rpartition("/")
        walkers = {module for module in self.tests if "rglob(" in self._texts[module]}  # they read all sources
        if path.split("/")[0] in TOPS and path.endswith(".py"):
            module = module_of(path)
            return {module, *walkers, *(self._below(module) if name == "__init__.py" else ())} | self._naming(path)
        if path.endswith(CYTHON):
            return {module_of(path), *walkers, *self._below(folder.replace("/", "."))}
        naming = self._naming(path)
        if path.endswith(".md"):
            return naming | self._below("docs.assembly")  # the site has all documents
        while folder:
            if within := self._below(folder.replace("/", ".")):
                return within | naming
            folder = folder.rpartition("/")[0]
        return naming or None

    def _naming(self, path: str) -> set[str]:
        """Modules of tests that name a file, or its top folder where that is no package."""
        top, _, rest = path.partition("/")
        name = path.rpartition("/")[2]
        names = [] if path.endswith(".py") or "." not in name else [name]
        names += [f'"{top}"', f'"{top}/'] if rest and top not in ("kscheduler", "perf", "tests") else []
        tests = {module: text for module, text in self._texts.items() if module.startswith("tests.")}
        return {module for module, text in tests.items() if any(name in text for name in names)}

    def _below(self, package: str) -> set[str]:
        return {module for module in self._texts if module == package or module.startswith(f"{package}.")}

    def _reached(self, begin: set[str]) -> set[str]:
        reached, left = set(begin), list(begin)
        while left:
            for importer in self._importers.get(left.pop(), ()):
                if importer not in reached:
                    reached.add(importer)
                    left.append(importer)
        return reached


def module_of(path: str) -> str:
    """The module of a file: of a package for its __init__, of what is compiled for a .pyx, .pxd or .pyi."""
    return path.rpartition(".")[0].replace("/", ".").removesuffix(".__init__")


def _needs(suffix: str, text: str) -> set[str]:
    if suffix in CYTHON and suffix != ".pyi":
        return set(imported_by_cython(text))
    found = set(imported_by(text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            found |= {node.value, node.value.rpartition(".")[0], f"{node.value}.__main__"}
        elif isinstance(node, ast.List) and any(_is(a, "-m") and _is(b, "kscheduler") for a, b in pairwise(node.elts)):
            found.add("kscheduler.__main__")
    return found


def _is(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _packages(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def main() -> int:
    """Print the paths; nothing where no test can break."""
    changed = changed_files()
    if changed is None:
        paths, why = ["tests"], "all tests: git knows no merge base with main"
    else:
        paths, why = Sources().breakable(changed)
    print(f"{len(changed or ())} files have changed, which can break {why}", file=sys.stderr)
    print("\n".join(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
