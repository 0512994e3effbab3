"""Says what this machine lacks to set the project up and to compile its kernels: `make build` asks first.

It runs before anything is installed, with any Python 3.7 or later, and needs nothing but Python's library.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig

OLDEST = (3, 11)


def missing() -> list[str]:
    """Return a line for each thing that is not here, with Debian's name of its package."""
    found = []
    if sys.version_info[:2] < OLDEST:
        found.append(f"Python 3.11 or later: this is {sys.version.split()[0]}; name another with PYTHON=")
    if not has_ensurepip():
        found.append("Python's module ensurepip, for the virtual environment (Debian: python3-venv)")
    if not has_headers():
        found.append(f"Python's headers, {sysconfig.get_path('include')}/Python.h (Debian: python3-dev)")
    if not shutil.which(compiler()):
        found.append(f"a C compiler, {compiler()} (Debian: gcc libc6-dev)")
    return found


def has_ensurepip() -> bool:
    """Say whether this Python can put pip into a virtual environment."""
    return importlib.util.find_spec("ensurepip") is not None


def has_headers() -> bool:
    """Say whether C code can be compiled for this Python."""
    return os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h"))


def compiler() -> str:
    """Return the program that will compile: CC's, or the one that this Python was built with."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(command)[0]


def main() -> int:
    """Print what is missing on stderr; return 1 if anything is."""
    found = missing()
    for line in found:
        print("missing: " + line, file=sys.stderr)
    if found:
        print("Without a compiler, install a wheel: README.md says how.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
