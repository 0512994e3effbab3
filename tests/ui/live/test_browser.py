"""In a real browser, every live view shows what the scheduler hands over, without an error, and names stay text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.ui.live.conftest import LiveServer
from tests.ui.live.fixture import MEMBER, REPLICA, START, nodes, queue, reading, waiting
from tests.ui.reports import HOSTILE, LONG, RIGHT_TO_LEFT, SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

VIEWS = {
    "overview": "Pods per second",
    "queue": "The queue",
    "pod?pod=shop/web-1": "Nearest nodes",
    "decisions": "Latest decisions",
    "nodes?node=n0": "The chosen node",
}


def opened(page: Page, live: LiveServer, fragment: str = "", token: str = "admin") -> None:
    """Open a view with a token, and have the scheduler hand over a reading."""
    page.goto(f"{live.url}{fragment}")
    page.get_by_role("textbox", name="Token").fill(token)
    page.keyboard.press("Enter")
    page.get_by_text("Live", exact=True).wait_for()
    live.feed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_each_view_shows_the_scheduler_and_fits_the_window(
    live_page: Page, live: LiveServer, width: int, scheme: str
) -> None:
    live_page.set_viewport_size({"width": width, "height": 900})
    live_page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened(live_page, live)
    for view, heading in VIEWS.items():
        live_page.evaluate("view => { location.hash = `#/${view}`; }", view)
        live_page.get_by_text("Live", exact=True).wait_for()
        live.feed()
        live_page.get_by_role("heading", name=heading, exact=True).wait_for()
        assert live_page.get_by_role("alert").count() == 0
        assert live_page.evaluate("document.documentElement.scrollWidth") <= width


def test_why_requests_for_devices_fail_is_shown(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/pod?pod=shop/web-1")
    live_page.get_by_role("heading", name="Claims for devices", exact=True).wait_for()
    live_page.get_by_text("0 of 6 nodes looked at can satisfy them at this moment.").wait_for()
    live_page.get_by_text("too few devices match: class gpu: selector #0: device.driver ==").wait_for()
    live_page.get_by_text("3 rarer reasons are not shown.").wait_for()


def test_the_claims_of_a_pod_are_shown_with_their_devices(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/pod?pod=shop/web-1")
    rows = live_page.get_by_role("region", name="Claims", exact=True).locator("tbody tr")
    rows.first.wait_for()
    shown = [[cell.strip() for cell in row.split("\t")] for row in rows.all_inner_texts()]
    assert shown == [
        ["gpu", "shop/web-1-gpu-x7", "not allocated", "–"],
        [
            "nic",
            "shop/fast-nics",
            "allocated",
            f"nic.example.com/n0/nic-0 for request nics\nnic.example.com/n0/{SCRIPT} for request nics/shared, share 5",
        ],
        ["disk", "from template scratch", "not made yet", "–"],
    ]


def test_a_pod_of_a_gang_shows_which_pod_stopped_the_gang_and_why(live_page: Page, live: LiveServer) -> None:
    live.stage.explained["shop/train-0"] = MEMBER
    opened(live_page, live, "#/pod?pod=shop/train-0")
    live_page.get_by_text("6; 6 looked at, 2 fit; it would have gone to n1, and was rejected with its gang").wait_for()
    live_page.get_by_role("heading", name="Its gang", exact=True).wait_for()
    live_page.get_by_role("link", name="shop/train-3").wait_for()
    live_page.get_by_role("heading", name="What rejected the nodes for the pod that stopped its gang").wait_for()
    live_page.get_by_text("Insufficient cpu").wait_for()


def test_the_quota_of_the_namespace_is_shown_with_what_the_pod_would_exceed(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/pod?pod=shop/web-1")
    rows = live_page.get_by_role("region", name="Quota", exact=True).locator("tbody tr")
    rows.first.wait_for()
    shown = [[cell.strip() for cell in row.split("\t")] for row in rows.all_inner_texts()]
    assert shown == [
        ["cpu", "1500m", "1", "2", "2", "3", "3", "more than max and more than all are guaranteed together"],
        ["memory", "0", "1Gi", "8Gi", "unlimited", "1Gi", "8Gi", "–"],
    ]
    live_page.get_by_text("Beyond their min, cpu is used by lab (1), ").wait_for()


def test_the_shares_of_the_pods_queue_are_shown_level_by_level(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/pod?pod=shop/web-1")
    rows = live_page.get_by_role("region", name="Shares", exact=True).locator("tbody tr")
    rows.first.wait_for()
    shown = [[cell.strip() for cell in row.split("\t")] for row in rows.all_inner_texts()]
    amounts = ["cpu", "1500m", "2", "3500m", "2", "3", "unlimited"]
    assert shown == [[f"team/{SCRIPT}", *amounts, "–"], ["team", *amounts, "beyond its limit and fair share"]]
    live_page.get_by_text("the queue stays within its fair share: it may take room of lab, ").wait_for()


def test_hostile_names_are_text(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/queue")
    cells = live_page.locator(".vspace .vrow")
    for name in HOSTILE:
        cells.filter(has_text=f"shop/{name}").first.wait_for()
    for name in (RIGHT_TO_LEFT, LONG):
        live_page.evaluate("hash => { location.hash = hash; }", f"#/pod?pod={quote(f'shop/{name}')}")
        live_page.get_by_text(f"Pod shop/{name} fits nowhere").wait_for()
    live_page.evaluate("location.hash = '#/nodes?node=n0'")
    live_page.get_by_text("Live", exact=True).wait_for()
    live.feed(reading())
    live_page.get_by_text(f"dedicated={SCRIPT}:NoSchedule").wait_for()
    assert live_page.locator("main script, main img").count() == 0


def test_a_queue_of_which_the_user_may_see_nothing_says_so(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/queue", token="shopkeeper")
    others = queue(START)
    others.pods[:] = [waiting("bank/vault", "unschedulable", None)]
    live.feed(reading(START, queue=others))
    live_page.get_by_text("None of those listed here is in a namespace whose pods you may list").wait_for()


def test_the_queue_follows_the_scheduler_and_keeps_the_chosen_row(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/queue")
    grid = live_page.get_by_role("grid", name="Pods in the queue")
    live_page.locator(".vrow", has_text="bank/second").wait_for()
    grid.focus()
    live_page.keyboard.press("ArrowDown")
    live_page.keyboard.press("ArrowDown")
    more = queue(START)
    more.pods.insert(0, waiting("shop/urgent", "active", 1, priority=1_000))
    live.feed(reading(START, queue=more))
    live_page.locator(".vrow", has_text="shop/urgent").wait_for()
    assert "bank/second" in live_page.locator('.vrow[aria-selected="true"]').inner_text()
    live_page.get_by_label("Namespace").select_option("bank")
    assert "namespace=bank" in live_page.url
    assert live_page.locator(".vspace .vrow").count() == 2
    live_page.keyboard.press("Escape")
    live_page.locator(".vspace .vrow", has_text="bank/second").click()
    assert live_page.url.endswith("#/pod?pod=bank%2Fsecond")


def test_a_link_opens_the_same_view_again_without_asking_for_the_token(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/nodes")
    live_page.get_by_role("button", name="memory").click()
    live_page.get_by_label("Group by").select_option("team")
    live_page.locator(".nodemap canvas").focus()
    live_page.keyboard.press("Home")
    live_page.locator(".detail h3").first.wait_for()
    link = live_page.url
    assert "resource=memory" in link
    assert "group=team" in link
    live_page.reload()
    live_page.get_by_role("button", name="memory").wait_for()
    assert live_page.get_by_role("button", name="memory").get_attribute("aria-pressed") == "true"
    assert live_page.get_by_label("Group by").input_value() == "team"
    assert live_page.url == link


def test_a_decision_shows_scores_by_plugin_and_the_second_choice(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/decisions")
    live_page.locator(".vrow", has_text="shop/placed").click()
    live_page.get_by_role("heading", name="The chosen node and the second choice").wait_for()
    rows = [" ".join(row.split()) for row in live_page.locator(".compared tbody tr").all_inner_texts()]
    assert rows == [
        "NodeResourcesFit 1 70 70 70 90 90 90 −20",
        "TaintToleration 3 60 60 180 50 50 150 +30",
        "Total 250 240 +10",
    ]


def test_a_token_that_expires_is_asked_for_again(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live)
    live_page.get_by_text("Pods pending").wait_for()
    live.stage.reviews.tokens.discard("admin")
    live.stage.clock.advance(100.0)
    live.feed()
    live_page.get_by_text("The token is not valid, or no longer. Use a new one.").wait_for()
    assert live_page.evaluate("sessionStorage.length") == 0
    live.stage.reviews.tokens.add("new")
    live.stage.reviews.may_list = {"new": {("pods", ""), ("nodes", "")}}
    live_page.get_by_role("textbox", name="Token").fill("new")
    live_page.keyboard.press("Enter")
    live_page.get_by_text("Pods pending").wait_for()


def test_the_token_is_nowhere_but_in_this_tab(live_page: Page, live: LiveServer) -> None:
    asked: list[str] = []
    live_page.on("request", lambda request: asked.append(request.url))
    opened(live_page, live)
    live_page.get_by_text("Pods pending").wait_for()
    assert all("admin" not in url for url in asked)
    assert live_page.context.cookies() == []
    assert "admin" not in live_page.evaluate("JSON.stringify({...localStorage})")
    live_page.get_by_role("button", name="Forget the token").click()
    live_page.get_by_role("textbox", name="Token").wait_for()
    assert live_page.evaluate("sessionStorage.length") == 0


def test_a_standby_says_so(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live)
    live.feed(reading(replica={**REPLICA, "leads": False, "leader": "other_2"}))
    live_page.get_by_text("stands by and decides nothing: other_2 leads").wait_for()


class TestRefusals:
    """Chromium itself reports each answer that is an error; nothing else may be reported."""

    @pytest.fixture
    def allowed(self) -> list[str]:
        return ["401", "403", "404", "503"]

    def test_a_pod_that_is_gone_is_answered_in_clear_words(self, live_page: Page, live: LiveServer) -> None:
        opened(live_page, live, "#/pod?pod=shop/gone")
        live_page.get_by_text("pod shop/gone is not known: no unfinished pod has this name").wait_for()

    def test_a_wrong_token_is_refused_in_clear_words(self, live_page: Page, live: LiveServer) -> None:
        live_page.goto(live.url)
        live_page.get_by_role("textbox", name="Token").fill("wrong")
        live_page.get_by_role("button", name="Connect").click()
        live_page.get_by_role("alert").wait_for()
        assert "not valid" in live_page.get_by_role("alert").inner_text()

    def test_who_may_not_list_nodes_reads_why(self, live_page: Page, live: LiveServer) -> None:
        live_page.goto(f"{live.url}#/nodes")
        live_page.get_by_role("textbox", name="Token").fill("shopkeeper")
        live_page.keyboard.press("Enter")
        live_page.get_by_text("You may not list nodes.").wait_for()
        live_page.get_by_role("link", name="Queue").click()
        live_page.get_by_text("Live", exact=True).wait_for()
        live.feed()
        live_page.locator(".vrow", has_text="shop/first").wait_for()
        assert live_page.locator(".vrow", has_text="bank/").count() == 0

    def test_a_scheduler_that_stops_is_waited_for(self, live_page: Page, live: LiveServer) -> None:
        opened(live_page, live)
        live.end_streams()
        live_page.get_by_text("This scheduler is stopping. Trying again in").wait_for()


def test_ten_thousand_nodes_are_drawn_quickly(live_page: Page, live: LiveServer) -> None:
    opened(live_page, live, "#/nodes")
    live.feed(reading(nodes=nodes([f"node-{row}" for row in range(10_000)])))
    live_page.get_by_text("10,000 nodes.").wait_for()
    box = live_page.locator(".nodemap canvas").bounding_box()
    assert box is not None
    assert box["height"] < 1_200
