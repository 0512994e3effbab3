"""Puts all pages of the site into one folder: its own, the guides of the repository, and the generated references."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path

from docs.reference import cli, configuration, man, metrics, plugin_api

ROOT = Path(__file__).parents[1]
PAGES = Path(__file__).parent / "pages"
OWN = "docs/pages/"  # where documents name the site's own pages

# Document of the repository -> its place in the site. They are written once, there.
TAKEN = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "concepts/architecture.md",
    "GLOSSARY.md": "concepts/glossary.md",
    "RATIONALE.md": "concepts/rationale.md",
    "DIFFERENCES.md": "concepts/differences.md",
    "GANGS.md": "guides/gangs.md",
    "LIVE_METRICS.md": "guides/live-metrics.md",
    "SIMULATION.md": "guides/simulator.md",
    "deploy/README.md": "guides/deploy.md",
    "plugins/README.md": "guides/plugins-python.md",
    "plugins/sdk/README.md": "guides/plugins-wasm.md",
    "plugins/sdk/c/README.md": "guides/plugins-c.md",
    "plugins/gpu_model/README.md": "guides/plugins-webhook.md",
    "plugins/abi/README.md": "reference/wasm-abi.md",
    "perf/README.md": "operations/measuring.md",
    "SECURITY.md": "operations/security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
GENERATED = {
    "reference/cli.md": cli.page,
    "reference/configuration.md": configuration.page,
    "reference/metrics.md": metrics.page,
    "reference/plugin-api.md": plugin_api.page,
}
MAN_PAGE = "reference/kscheduler.1"

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def assemble(into: Path) -> None:
    """Delete a folder if it exists, and write all pages into it."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(PAGES, into)
    for source, place in TAKEN.items():
        _write(into / place, taken_page(source))
    for place, page in GENERATED.items():
        _write(into / place, page())
    _write(into / MAN_PAGE, man.page())


def taken_page(source: str) -> str:
    """Return a document of the repository as a page: links lead to pages of the site.

    A link to a file that is not in the site becomes its text, since the site does not contain the source code.
    """
    parts = _FENCE.split((ROOT / source).read_text(encoding="utf-8"))
    parts[::2] = [_LINK.sub(lambda link: _relinked(link, source), part) for part in parts[::2]]
    return "".join(parts)


def _relinked(link: re.Match[str], source: str) -> str:
    text, target = link[1], link[2]
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = TAKEN.get(file, file.removeprefix(OWN) if file.startswith(OWN) else "")
    if not page:
        return text
    place = os.path.relpath(page, posixpath.dirname(TAKEN[source]) or ".")
    return f"[{text}]({place}{'#' + anchor if anchor else ''})"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
