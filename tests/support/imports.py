"""Which modules a text of Python or Cython imports."""

from __future__ import annotations

import ast
import re

# "from X import", "from X cimport", "import X, Y", "cimport X"
_CYTHON = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+c?import\b|c?import\s+(?P<names>[^#\n]+))", re.M)


def imported_by(text: str) -> list[str]:
    """Absolute names of a Python module's imports, wherever they stand; for `from a import b` both a and a.b."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def imported_by_cython(text: str) -> list[str]:
    """The modules that a .pyx or .pxd names, as they are written."""
    found: list[str] = []
    for match in _CYTHON.finditer(text):
        names = match["source"] or match["names"]
        found += [name.split()[0] for name in names.split(",")]
    return found
