"""One Chromium for all tests of a module, and pages that note every error.

Playwright's loop runs in this thread until the module ends, so nothing may be simulated meanwhile: the reports are made
before.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest

from kscheduler.simulator.report import to_compact_json
from kscheduler.testing.controlplane.patience import CEILING_S
from kscheduler.ui.page_file import to_html
from tests.support.skips import package, program
from tests.ui.reports import (
    busy,
    comparison,
    in_queues,
    large,
    loaded,
    nodeless,
    waiting_gang,
    what_if,
    with_decisions,
    write_record,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of self-contained pages.

    They are about a busy run, one with decisions, a large cluster, one whose pods declare their use, one with a gang
    that waits, one with Queues, a comparison and a what-if.
    """
    folder = tmp_path_factory.mktemp("pages")
    reports = {"busy": busy(), "decided": with_decisions(), "large": large(), "loaded": loaded()}
    reports["waiting gang"] = waiting_gang()
    reports["in queues"] = in_queues()
    documents = {name: to_compact_json(report) for name, report in reports.items()}
    documents["compared"] = msgspec.json.encode(comparison())
    documents["what-if"] = msgspec.json.encode(what_if())
    found = {}
    for name, document in documents.items():
        path = folder / f"{name}.html"
        path.write_bytes(to_html(document))
        found[name] = path.as_uri()
    return found


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files for `kscheduler ui`: reports, one of an earlier version, a comparison, a what-if, and a record."""
    folder = tmp_path_factory.mktemp("files")
    first, second = msgspec.to_builtins(busy()), msgspec.to_builtins(busy())
    second["placements"]["node"][0] = 4
    elsewhere = msgspec.to_builtins(busy())
    elsewhere["placements"]["node"][0] += 1  # in the other zone
    newer = ("flow", "node_history", "placements", "preempted", "decisions", "claims", "gangs")
    old = {name: value for name, value in first.items() if name not in newer}
    for name, report in {"a": first, "b": second, "elsewhere": elsewhere, "old": old}.items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(report))
    (folder / "nodeless.json").write_bytes(msgspec.json.encode(nodeless()))
    (folder / "compared.json").write_bytes(msgspec.json.encode(comparison()))
    (folder / "what-if.json").write_bytes(msgspec.json.encode(what_if()))
    write_record(folder / "c.zst")
    return {path.stem: str(path) for path in folder.iterdir()}


@contextlib.contextmanager
def served(*files: str) -> Iterator[str]:
    """Run `kscheduler ui` with these files, and yield its address."""
    command = [sys.executable, "-m", "kscheduler", "ui", *files, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        try:
            assert found is not None, line
            yield found[0]
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def browser(addresses: dict[str, str], files: dict[str, str]) -> Iterator[Browser]:
    chromium = program("chromium", "apt-get install chromium")
    api = package("playwright.sync_api", "run `make dev`")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of 1,300 by 900 pixels; the test fails if it logs an error, throws one, or breaks its own policy."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(CEILING_S * 1000)  # of a wait in vain; a slow machine takes its time
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    broken = page.evaluate("window.broken")
    context.close()
    assert faults == []
    assert broken is None
