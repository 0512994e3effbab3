"""Builds the site: `python -m docs.build`, or `make docs`. Broken links and anchors end it with exit code 1."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from docs.assembly import MAN_PAGE, ROOT, assemble

CONFIG = Path(__file__).with_name("mkdocs.yml")
ASSEMBLED = ROOT / "build" / "docs-pages"
SITE = ROOT / "build" / "docs"


def build(site: Path = SITE) -> int:
    """Put all pages together, and build them into the folder `site`. Returns mkdocs' exit code."""
    assemble(ASSEMBLED)
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(CONFIG)]
    # Without it the theme prints a page about its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "--site-dir", str(site)], cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    """Build the site, and print where it is."""
    argparse.ArgumentParser(prog="docs.build", description=__doc__).parse_args()
    code = build()
    if code == 0:
        print(f"the site is at file://{SITE}/index.html, the man page at {SITE / MAN_PAGE}")
    return code


if __name__ == "__main__":
    sys.exit(main())
