"""The code in a document of plugins/, and its commands, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"


def blocks(document: Path, language: str) -> list[str]:
    """The contents of the fenced blocks of a language, in order."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [text for found, text in fenced if found == language]


def run(commands: str, directory: Path) -> str:
    """Run a console block, lines beginning with "$ ", in a shell that stops at the first failure; what it printed."""
    script = "\n".join(line[2:] for line in commands.splitlines() if line.startswith("$ "))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
