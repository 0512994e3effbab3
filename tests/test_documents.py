"""What the documents at the top name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "DIFFERENCES.md",
    "GANGS.md",
    "GLOSSARY.md",
    "RATIONALE.md",
    "README.md",
    "LIVE_METRICS.md",
    "SECURITY.md",
    "SIMULATION.md",
)
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for top in ("docs", "kscheduler", "plugins", "perf", "tests")
    for path in (ROOT / top).rglob("*.py*")
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_source_file_that_a_document_names_exists(document: str) -> None:
    named = re.findall(r"`([\w/]+\.pyx?)`", (ROOT / document).read_text(encoding="utf-8"))
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in SOURCES)] == []


def test_every_constant_that_the_recipes_name_exists() -> None:
    named = set(re.findall(r"`([A-Z_]{4,})`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    files = [*(ROOT / path for path in SOURCES if path.endswith(".py")), ROOT / "Makefile"]
    defined = set(re.findall(r"^([A-Z_]{4,})\b.*=", "\n".join(map(Path.read_text, files)), re.MULTILINE))
    assert "IN_TREE" in named
    assert named - defined == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_of_a_document_leads_to_a_file(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_package_is_in_the_picture_of_the_layers() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = text.split("```")[1]
    packages = [path.name for path in (ROOT / "kscheduler").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in packages if not re.search(rf"\b{name}\b", picture)] == []
