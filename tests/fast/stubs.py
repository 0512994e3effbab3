"""Writes the stubs of compiled kernels from the signatures of their references: python -m tests.fast.stubs [--write]

Without --write it only compares, and fails if a stub is not current. Modules without a reference have stubs by hand.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kscheduler._fast.reference as references
from kscheduler.testing.kernels import NAMES

_REFERENCES = Path(references.__path__[0])
_BODY = ast.Expr(ast.Constant(...))  # without a docstring: compiled functions have theirs at run time


def stub_of(name: str) -> str:
    """Return the stub of a compiled module that has a reference."""
    tree = ast.parse((_REFERENCES / f"{name}.py").read_text(encoding="utf-8"))
    body = [declared for node in tree.body for declared in _declared(node)]
    used = _names(*(node for node in body if not isinstance(node, ast.Assign)))
    body = [node for node in body if not isinstance(node, ast.Assign) or used & _targets(node)]
    for alias in body:
        if isinstance(alias, ast.Assign):
            alias.value = _Unquoted().visit(alias.value)
    used = _names(*body)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    for node in imports:
        node.names = [alias for alias in node.names if alias.name in used]
        node.module = (node.module or "").replace("._fast.reference.", "._fast.")
    final = ["from typing import Final"] if "Final" in used else []
    kept = [node for node in imports if node.names]
    text = "\n".join([*final, *map(ast.unparse, [*kept, *body])])
    return _ruff(_ruff(text, name, "check", "--quiet", "--select=I", "--fix"), name, "format")


def _declared(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statement as a stub has it, if it declares a public name or may give a type a private one."""
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
        yield _signature(node)
    elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
        node.body = [_method(method, node.name) for method in methods if _is_public(method)] or [_BODY]
        yield node
    elif isinstance(node, ast.Assign) and _targets(node) and all(target.isupper() for target in _targets(node)):
        yield from (ast.parse(f"{target}: Final[int]").body[0] for target in _targets(node) if target[0] != "_")
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        yield ast.fix_missing_locations(ast.Assign([target], node.value))


def _is_public(method: ast.FunctionDef) -> bool:
    if method.name == "__init__":
        return len(method.args.args) > 1
    return not method.name.startswith("_") or method.name.startswith("__")


def _method(method: ast.FunctionDef, owner: str) -> ast.stmt:
    """Return a method as extension types have it: arguments of __init__ in __new__, and operators' by position."""
    if method.name == "__init__":
        method.name, method.returns = "__new__", ast.Name(owner)
        method.args.args[0].arg = "cls"
    elif method.name.startswith("__") and len(method.args.args) > 1:
        method.args.posonlyargs, method.args.args = method.args.args, []
    return _signature(method)


def _signature(function: ast.FunctionDef) -> ast.stmt:
    function.body = [_BODY]
    return function


def _targets(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def _names(*nodes: ast.stmt) -> set[str]:
    return {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}


class _Unquoted(ast.NodeTransformer):
    """Replaces types in quotes by themselves."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def _ruff(text: str, name: str, *arguments: str) -> str:
    command = (sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(_path(name)), "-")
    return subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout


def _path(name: str) -> Path:
    return _REFERENCES.parent / f"{name}.pyi"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write those that are not current")
    write = parser.parse_args().write
    stale = [(name, text) for name, text in ((name, stub_of(name)) for name in NAMES) if text != _current(name)]
    for name, text in stale:
        if write:
            _path(name).write_text(text, encoding="utf-8")
    if stale and not write:
        print(f"not current: {', '.join(f'{name}.pyi' for name, _ in stale)}; run: make stubs-write", file=sys.stderr)
        return 1
    return 0


def _current(name: str) -> str:
    path = _path(name)
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
