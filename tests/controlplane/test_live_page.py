"""The page of a scheduler on a real control plane: real tokens, real rights, a real browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.patience import CEILING_S, eventually
from kscheduler.testing.controlplane.probes import unverified_tls
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.page_viewers import may_see_everything, may_see_own_pods
from tests.support.skips import package, program
from tests.ui.conftest import FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Viewer:
    """Reads the page's data with a token."""

    def __init__(self, scheduler: KScheduler, token: str) -> None:
        self._base = f"{scheduler.url}/ui/"
        self._token = token

    def get(self, path: str) -> Any:
        with self._open(path) as response:
            return json.load(response)

    def first(self, view: str) -> tuple[str, Any]:
        """The first event of a stream, and its document."""
        with self._open(f"api/stream?view={view}") as response:
            event = response.readline().decode().removeprefix("event: ").strip()
            return event, json.loads(response.readline().decode().removeprefix("data: "))

    def status(self, path: str) -> int:
        try:
            with self._open(path) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def _open(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(self._base + path, headers=headers)
        return urllib.request.urlopen(request, context=unverified_tls(), timeout=60)


@pytest.fixture
def scheduler(workspace: Workspace) -> KScheduler:
    """A scheduler with the page, two pods that it has bound, and one that fits nowhere."""
    workspace.create_nodes(3)
    workspace.create_pods(2)
    workspace.create_pod("large", requests={"cpu": "60", "memory": "1Gi"})
    scheduler = KScheduler(workspace.control_plane, extra_flags=("--ui",))
    eventually(lambda: len(workspace.bindings()) == 2, "both pods that fit are bound")
    return scheduler


def test_the_page_shows_what_its_viewer_may_list(workspace: Workspace, scheduler: KScheduler) -> None:
    other = Workspace(workspace.control_plane)
    other.create_pod("elsewhere", requests={"cpu": "60", "memory": "1Gi"})
    everything = Viewer(scheduler, may_see_everything(workspace, "admin"))
    own = Viewer(scheduler, may_see_own_pods(workspace, "owner"))

    def rows(viewer: Viewer) -> set[str]:
        event, document = viewer.first("queue")
        assert event == "queue"
        return {row["pod"] for row in document["rows"]}

    large, elsewhere = f"{workspace.namespace}/large", f"{other.namespace}/elsewhere"
    eventually(lambda: {large, elsewhere} <= rows(everything), "both pods wait")
    assert rows(own) == {large}

    def row_of_large() -> Any:
        [found] = own.first("queue")[1]["rows"]
        return found

    eventually(lambda: row_of_large()["pool"] == "unschedulable", "the large pod is decided")
    row = row_of_large()
    assert (row["pool"], row["plugins"], row["reason"][:35]) == (
        "unschedulable",
        ["NodeResourcesFit"],
        "0/3 nodes are available: 3 Insuffic",
    )
    found = everything.get(f"api/pod?pod={large}")
    assert (found["state"], found["decisions"][0]["reasons"][0]["nodes"]) == ("unschedulable", 3)
    assert {each["node"] for each in found["nearest"]} == {"node-0", "node-1", "node-2"}
    assert own.get(f"api/pod?pod={large}")["nearest"] is None
    assert (own.status(f"api/pod?pod={elsewhere}"), everything.status(f"api/pod?pod={elsewhere}x")) == (403, 404)
    assert (own.status("api/stream?view=nodes"), own.status("api/node?node=node-0")) == (403, 403)
    event, nodes = everything.first("nodes")
    assert (event, sorted(filter(None, nodes["names"]))) == ("nodes", ["node-0", "node-1", "node-2"])
    node = everything.get(f"api/node?node={workspace.bindings()['pod-0']}")
    assert f"{workspace.namespace}/pod-0" in [each["pod"] for each in node["pods"]]
    eventually(lambda: everything.first("overview")[1]["points"][-1]["pods"] == 2, "the overview counts the pods")
    other.clean()


def test_who_has_no_right_to_it_sees_its_files_only(workspace: Workspace, scheduler: KScheduler) -> None:
    stranger = workspace.control_plane.service_account_token(workspace.namespace, "stranger")
    for token, expected in (("", 401), ("invalid", 401), (stranger, 403)):
        viewer = Viewer(scheduler, token)
        assert viewer.status("") == 200
        for path in ("api/stream?view=overview", f"api/pod?pod={workspace.namespace}/large", "api/node?node=node-0"):
            assert viewer.status(path) == expected
    # The rest of the endpoint is as it is without the page.
    assert "scheduler_schedule_attempts_total" in scheduler.get("/metrics")
    assert scheduler.get("/livez") == "ok"
    with pytest.raises(urllib.error.HTTPError) as caught:
        scheduler.get("/debug/kscheduler/explain?pod=a/b", token=stranger)
    with caught.value:
        assert caught.value.code == 403


def test_without_the_flag_there_is_no_page(workspace: Workspace) -> None:
    scheduler = KScheduler(workspace.control_plane)
    viewer = Viewer(scheduler, may_see_everything(workspace, "admin"))
    assert [viewer.status(path) for path in ("", "live/main.js", "api/stream?view=overview")] == [404, 404, 404]


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser's page; the test fails if it logs an error, throws one, or breaks its own policy."""
    chromium = program("chromium", "apt-get install chromium")
    api = package("playwright.sync_api", "run `make dev`")
    faults: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        # The harness' scheduler has a certificate that it signed itself.
        page = browser.new_context(ignore_https_errors=True, viewport={"width": 1300, "height": 900}).new_page()
        page.set_default_timeout(CEILING_S * 1000)
        page.on("console", lambda each: faults.append(each.text) if each.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        yield page
        browser.close()
    assert faults == []


def test_a_browser_shows_the_cluster_as_it_changes(workspace: Workspace, scheduler: KScheduler, page: Page) -> None:
    token = may_see_everything(workspace, "admin")
    page.goto(f"{scheduler.url}/ui/#/queue")
    page.get_by_role("textbox", name="Token").fill(token)
    page.keyboard.press("Enter")
    page.get_by_text("Live", exact=True).wait_for()
    rows = page.locator(".vspace .vrow")
    rows.filter(has_text=f"{workspace.namespace}/large").wait_for()
    workspace.create_pod("huge", requests={"cpu": "90", "memory": "1Gi"})
    rows.filter(has_text=f"{workspace.namespace}/huge").wait_for()
    rows.filter(has_text=f"{workspace.namespace}/large").click()
    page.get_by_role("heading", name="What rejected the nodes").wait_for()
    assert "Insufficient cpu" in page.locator(".bars").first.inner_text()
    assert page.get_by_role("heading", name="Nearest nodes").count() == 1
    page.get_by_role("link", name="Decisions").click()
    rows.filter(has_text=f"{workspace.namespace}/pod-1").first.click()
    page.get_by_text("chosen among 3 nodes that fit").wait_for()
    page.get_by_role("link", name="Nodes", exact=True).click()
    page.get_by_text("3 nodes.", exact=True).wait_for()
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("Pods pending").wait_for()
    assert token not in page.content()
    assert token not in page.url
