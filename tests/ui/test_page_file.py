"""The page as one file holds all it needs, fetches nothing, and no name can break out of its data."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from kscheduler.simulator.report import to_compact_json
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.workload import default_workload, generate
from kscheduler.ui.assets import FILES, MODULES, asset
from kscheduler.ui.page_file import to_html
from tests.simulator.first_fit import make_node
from tests.simulator.reports import report_of
from tests.ui.reports import SCRIPT, busy
from tests.ui.vendor import FOLDER, digest, manifest

MAX_BYTES = 300_000
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";$', re.MULTILINE)
_NAMES = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function) (?:\[([^\]]+)\]|(\w+))", re.MULTILINE)


class _Reader(HTMLParser):
    """Collects what a browser would fetch, and the scripts of the page by their type."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.scripts: dict[str, str] = {}
        self._type = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self._type = dict(attrs).get("type") or "charts"

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and data.strip():
            self.scripts[self._type] = data


def read(page: bytes) -> _Reader:
    reader = _Reader()
    reader.feed(page.decode())
    return reader


def test_the_page_fetches_nothing() -> None:
    page = to_html(to_compact_json(busy()))
    assert read(page).fetched == ["link href=data:,"]
    assert b"default-src 'none'; script-src 'sha256-" in page
    for word in (b"unsafe-inline", b"unsafe-eval", b"@import", b"url("):
        assert word not in page


def test_the_page_holds_its_report_and_names_stay_in_it() -> None:
    report = busy()
    reader = read(to_html(to_compact_json(report)))
    data = json.loads(reader.scripts["application/json"])
    assert data["node_history"]["names"][0] == SCRIPT
    assert data["pods"]["total"] == report.pods.total
    assert reader.tags.count("script") == 3
    assert "img" not in reader.tags


def test_a_report_without_nodes_and_pods_is_a_page_too() -> None:
    page = to_html(to_compact_json(report_of(Scenario([make_node("n0", cpu="4")], []))))
    assert json.loads(read(page).scripts["application/json"])["pods"]["total"] == 0


def test_modules_are_in_order_and_define_each_name_once() -> None:
    folder = files("kscheduler.ui").joinpath("page")
    assert {item.name for item in folder.iterdir() if item.name.endswith(".js")} == set(MODULES)
    seen: dict[str, str] = {}
    for module in MODULES:
        text = asset(module)
        for _, imported in _IMPORT.findall(text):
            assert imported in MODULES[: MODULES.index(module)]
        assert len(re.findall(r"^import ", text, re.MULTILINE)) == len(_IMPORT.findall(text))
        for several, one in _NAMES.findall(text):
            for name in (several or one).split(", "):
                assert name not in seen, f"{module} and {seen[name]}"
                seen[name] = module


def test_no_module_parses_text_as_html() -> None:
    for module in MODULES:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", asset(module))


def test_the_page_is_small() -> None:
    assert sum(len(asset(name).encode()) for name in FILES) <= MAX_BYTES


@pytest.mark.slow
def test_a_page_of_five_thousand_nodes_stays_small() -> None:
    report = report_of(generate(default_workload(nodes=5_000, pods=2_000)))
    assert len(to_html(to_compact_json(report))) < 2_000_000


def test_the_vendored_files_are_those_that_were_published() -> None:
    listed = manifest()["files"]
    assert {path.name for path in FOLDER.iterdir()} == {*listed, "vendored.json"}
    for name, entry in listed.items():
        assert digest(Path(FOLDER, name).read_bytes()) == entry["sha256"], name
    assert "MIT License" in (FOLDER / "uPlot.LICENSE").read_text()
