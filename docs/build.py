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
    done = run_mkdocs(CONFIG, site)
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def run_mkdocs(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages that a configuration names into the folder `site`; any warning ends it with exit code 1."""
    # Not --quiet: it keeps warnings from being counted, so that --strict would let them pass.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    # Without it the theme prints a page about its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [*command, "--site-dir", str(site)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def main() -> int:
    """Build the site, and print where it is."""
    argparse.ArgumentParser(prog="docs.build", description=__doc__).parse_args()
    code = build()
    if code == 0:
        print(f"the site is at file://{SITE}/index.html, the man page at {SITE / MAN_PAGE}")
    return code


if __name__ == "__main__":
    sys.exit(main())
