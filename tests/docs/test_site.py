"""The site is built without warnings, loads nothing from elsewhere, and fails for what leads nowhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.assembly import GENERATED, MAN_PAGE, PAGES, ROOT, TAKEN, taken_page
from docs.build import CONFIG, build, run_mkdocs
from tests.deploy.manifests import DEPLOY

pytestmark = pytest.mark.slow

# Attributes by which a browser loads something at once; `href` of an <a> is followed by the reader only.
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "use": "href"}


def alerts() -> list[dict[str, Any]]:
    """The alerts of the component `monitoring`, in order."""
    spec = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"] if "alert" in rule]


class Loads(HTMLParser):
    """Collects what a page makes the browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if url := given.get(LOADED.get(tag, "")):
            self.urls.append(url)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    return folder


def test_every_page_is_built(site: Path) -> None:
    own = [path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")]
    for page in (*own, *TAKEN.values(), *GENERATED):
        assert (site / page).with_suffix(".html").exists(), page
    assert (site / MAN_PAGE).read_text().startswith(".TH KSCHEDULER 1")


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        parser = Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.urls, page
        assert [url for url in parser.urls if re.match(r"(?:https?:)?//", url)] == [], page
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]*\)|@import", sheet.read_text(encoding="utf-8")) == [], sheet


def test_no_script_asks_another_server(site: Path) -> None:
    """The theme's script has addresses for what this site does not switch on: diagrams, and a repository's stars."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text, page
        assert 'data-md-component="source"' not in text, page


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# A\n\n[b](#a)\n", ""),
        ("# A\n\n[b](gone.md)\n", "gone.md"),
        ("# A\n\n[b](#gone)\n", "#gone"),
        ("# A\n\n[b](/absolute.md)\n", "absolute.md"),
    ],
)
def test_what_leads_nowhere_fails_the_build(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(text)
    shown = CONFIG.read_text().partition("nav:")[0]
    config = re.sub(r"^docs_dir:.*$", "docs_dir: pages", shown, flags=re.MULTILINE)
    config = re.sub(r"^site_dir:.*$", "site_dir: site", config, flags=re.MULTILINE).replace(
        "  name: material\n", "  name: mkdocs\n"
    )
    config = re.sub(r"^  (?:font|features|palette):.*\n(?:  - .*\n)*", "", config, flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(config.replace("extra_css: [stylesheets/site.css]\n", ""))
    done = run_mkdocs(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == (1 if fault else 0), done.stderr
    assert fault in done.stderr


def test_links_of_a_taken_document_lead_to_pages() -> None:
    page = taken_page("deploy/README.md")
    assert "](gangs.md)" in page
    assert "[table of what works](../features.md)" in page
    assert "chart/values.yaml" not in page  # not a page: only its text is left
    assert not re.search(r"\]\([^)]*README", page)


def test_every_alert_has_a_runbook_of_its_name() -> None:
    text = (PAGES / "operations" / "runbooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == {rule["alert"] for rule in alerts()}
    for rule in alerts():
        name = rule["alert"]
        section = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert rule["labels"]["severity"].capitalize() + "." in section, name
        assert rule["annotations"]["runbook"] == f"docs/pages/operations/runbooks.md#{name.lower()}"


def test_the_table_of_contents_names_every_page_once() -> None:
    places = re.findall(r"[\w/-]+\.md", CONFIG.read_text().partition("\nnav:")[2])
    own = [path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")]
    assert sorted(places) == sorted([*own, *TAKEN.values(), *GENERATED])


def test_every_document_at_the_top_is_in_the_site() -> None:
    assert {path.name for path in ROOT.glob("*.md")} <= TAKEN.keys()
