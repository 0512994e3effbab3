"""In a real browser, every view shows its report without an error, and names stay text."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from kscheduler.ui.page_file import to_html
from tests.ui.conftest import served
from tests.ui.reports import HOSTILE, LONG, RIGHT_TO_LEFT, SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

VIEWS = {
    "overview": "Utilisation",
    "pending": "Pods without a node",
    "why": "Why is this pod pending?",
    "decision": "Decisions",
    "preempted": "Preempted pods",
    "nodes": "The chosen node",
    "timeline": "In this interval",
    "notes": "What is and is not modelled",
}
OTHER_VIEWS = {
    "busy": {"whatif": "Ask what if"},
    "decided": {"whatif": "Ask what if"},
    "compared": {"compare": "Why pods landed elsewhere", "whatif": "Ask what if"},
    "what-if": {"whatif": "How many nodes are needed", "compare": "Figures side by side"},
}


@pytest.fixture
def address(addresses: dict[str, str]) -> str:
    return addresses["busy"]


def opened(page: Page, address: str, fragment: str = "") -> None:
    page.goto("about:blank")  # another fragment alone would not load the page again
    page.goto(address + fragment)
    page.wait_for_selector("main[data-view]")


def test_a_run_of_no_time_has_no_charts_over_it(page: Page, files: dict[str, str], tmp_path: Path) -> None:
    """Three pods and no node: nobody was bound, so there is no time to show for it."""
    path = tmp_path / "nodeless.html"
    path.write_bytes(to_html(Path(files["nodeless"]).read_bytes()))
    opened(page, path.as_uri())
    shown = page.locator("main").inner_text()
    assert shown.count("There is nothing to show.") == 4
    assert "no pod was bound" in shown
    assert page.locator("main canvas").count() == 0
    priority = page.locator("table", has_text="Without a node").locator("tbody tr").inner_text()
    assert priority.split() == ["0", "3", "0", "3", "–", "–"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("name", list(OTHER_VIEWS))
def test_each_view_shows_the_report_and_fits_the_window(
    page: Page, addresses: dict[str, str], name: str, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened(page, addresses[name])
    for view, heading in {**VIEWS, **OTHER_VIEWS[name]}.items():
        page.evaluate("view => { location.hash = `#/${view}`; }", view)
        page.wait_for_selector(f'main[data-view="{view}"]')
        assert heading in page.locator("main h2").all_inner_texts()
        assert page.get_by_role("alert").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.locator(".chart")
        for at in range(charts.count()):
            charts.nth(at).locator("canvas").wait_for()
            assert len(charts.nth(at).get_attribute("aria-label") or "") > 30


@pytest.mark.parametrize("name", list(OTHER_VIEWS))
def test_everything_that_can_be_used_has_a_name(page: Page, addresses: dict[str, str], name: str) -> None:
    opened(page, addresses[name])
    for view in [*VIEWS, *OTHER_VIEWS[name]]:
        page.evaluate("view => { location.hash = `#/${view}`; }", view)
        page.wait_for_selector(f'main[data-view="{view}"]')
        tree = page.locator("body").aria_snapshot()
        roles = "button|link|combobox|searchbox|slider|checkbox|grid|region|application|img"
        assert re.findall(rf"^ *- (?:{roles})(?: *$|: *$| \[)", tree, re.MULTILINE) == []


def test_a_run_is_played_at_the_chosen_speed(page: Page, address: str) -> None:
    opened(page, address, "#/timeline?t=280")
    page.get_by_label("Speed").select_option("8")
    page.locator("main").click(position={"x": 5, "y": 5})
    page.keyboard.press(" ")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for()  # it ends by itself
    slider = page.get_by_role("slider", name="Virtual time")
    assert slider.input_value() == slider.get_attribute("max")


def test_hostile_names_are_text(page: Page, address: str) -> None:
    opened(page, address, "#/pending")
    cells = page.locator(".vspace .vrow").all_inner_texts()
    for name in HOSTILE:
        assert any(f"default/{name}" in row for row in cells)
    opened(page, address, "#/notes")
    assert page.get_by_text(SCRIPT, exact=True).count() >= 3
    opened(page, address, f"#/nodes?node={quote(SCRIPT)}")
    assert page.locator(".detail h3").first.text_content() == SCRIPT
    for name in (RIGHT_TO_LEFT, LONG):
        opened(page, address, f"#/why?pod={quote(f'default/{name}')}")
        assert page.locator("main .facts dd").first.text_content() == f"default/{name}"
    assert page.locator("main script, main img").count() == 0


def test_an_answer_to_a_what_if_has_hostile_names_as_text(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["what-if"])
    assert page.locator("main").get_attribute("data-view") == "whatif"
    assert page.locator(".notes li").first.text_content() == f"with 8 more nodes ({SCRIPT})"
    pods = page.get_by_role("grid", name="Pods that are scheduled now")
    assert pods.locator(".vspace .vrow").all_inner_texts() == [f"default/{SCRIPT}", f"default/{LONG}"]
    assert shlex.split(page.get_by_role("region", name="Command").inner_text())[3] == SCRIPT
    assert page.get_by_role("row", name="1 pending p99 above 30 s not met").is_visible()
    assert page.get_by_role("row", name="8 pending p99 = 12 s").inner_text().endswith("met: the fewest")
    assert page.get_by_role("row", name="p99 for ever 2 s").is_visible()
    label = page.get_by_role("img", name="Chart of pending p99 < 30s").get_attribute("aria-label")
    assert label is not None
    assert label.endswith("4: no figure, not met; 7: 41 s, not met; 8: 12 s, met; 9: 2.5 ms, met.")
    assert page.locator("main script, main img").count() == 0


def test_a_pod_that_is_no_longer_scheduled_opens_why(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["what-if"])
    page.get_by_role("grid", name="Pods that no longer are").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-view="why"]')
    assert "report=1" in page.url
    assert page.locator("main .facts dd").first.text_content() == f"default/{RIGHT_TO_LEFT}"
    page.keyboard.press("1")
    page.wait_for_selector('main[data-view="whatif"]')
    page.keyboard.press("0")
    page.wait_for_selector('main[data-view="notes"]')


def test_pods_of_a_what_if_are_listed_by_where_they_land(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["what-if"], "#/whatif?kind=lost")
    rows = page.get_by_role("grid", name="Pods that landed elsewhere, with reasons").locator(".vspace .vrow")
    assert "default/p2" in rows.inner_text()
    page.get_by_label("Which").select_option("scheduled now")
    assert "default/p1" in rows.inner_text()
    assert "kind=won" in page.url


def test_a_what_if_is_composed_and_copied(page: Page, addresses: dict[str, str]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, addresses["busy"], "#/whatif")
    command = page.get_by_role("region", name="Command")
    assert command.count() == 0
    assert page.get_by_text("Fill in below what is to be different.").is_visible()
    page.get_by_label("Flags of the input").fill("--record monday.zst")
    page.get_by_label("More nodes").fill("20")
    assert page.get_by_text("More nodes: expected their shape, such as general-32.").is_visible()
    page.get_by_label("Their shape").fill(f"it's {SCRIPT}")
    page.get_by_label("Tainted nodes").fill("all")
    page.get_by_label("Taint", exact=True).fill("kept:No")
    assert page.get_by_text("Taint: expected KEY=VALUE:EFFECT").is_visible()
    page.get_by_label("Taint", exact=True).fill("kept:NoSchedule")
    page.get_by_label("Plugin", exact=True).fill("NodeResourcesFit")
    page.get_by_label("Its weight").fill("5")
    expected = ["kscheduler", "whatif", "--record", "monday.zst", "--add-nodes", f"20:it's {SCRIPT}"]
    expected += ["--taint", "all", "kept:NoSchedule", "--weight", "NodeResourcesFit=5"]
    assert shlex.split(command.inner_text()) == expected
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied.").wait_for()
    assert shlex.split(page.evaluate("navigator.clipboard.readText()")) == expected
    page.reload()
    page.wait_for_selector("main[data-view]")
    assert shlex.split(command.inner_text()) == expected  # the address holds all fields
    page.get_by_label("Objective").fill("pending p99 < 30s")
    assert "--find min-nodes --slo 'pending p99 < 30s' --add-nodes" in command.inner_text()


@pytest.mark.parametrize("flags", ["--nodes 3; id", "--nodes $(id)", "--nodes `id`", "--nodes 3\nid", '"a', "'a"])
def test_an_address_brings_no_shell_code_into_a_command(page: Page, addresses: dict[str, str], flags: str) -> None:
    opened(page, addresses["busy"], f"#/whatif?cordon=n0&input={quote(flags)}")
    assert page.get_by_text("Flags of the input: expected words").is_visible()
    assert page.get_by_role("region", name="Command").count() == 0


@pytest.mark.parametrize(
    ("parameters", "flags"),
    [
        (
            {"nodes": "1,200 generated", "pods": "50 generated", "arrival": "now", "duration": "forever", "seed": "7"},
            "--nodes 1200 --pods 50 --arrival now --duration forever --seed 7",
        ),
        (
            {"record": "9 pods and 3 other changes from it's.zst", "equal scores": "the first node"},
            "--record 'it'\\''s.zst' --first-on-tie",
        ),
        (
            {"nodes": "3 from a.yaml", "pods": "9 from b.csv", "departures": "ignored", "workload": "c.yaml"},
            "--nodes a.yaml --pods b.csv --workload c.yaml --arrivals-only",
        ),
    ],
)
def test_flags_of_the_input_are_those_of_the_report(
    page: Page, files: dict[str, str], tmp_path: Path, parameters: dict[str, str], flags: str
) -> None:
    path = tmp_path / "page.html"
    report = {**json.loads(Path(files["a"]).read_bytes()), "parameters": parameters}
    path.write_bytes(to_html(json.dumps(report).encode()))
    opened(page, path.as_uri(), "#/whatif?cordon=n0")
    command = page.get_by_role("region", name="Command").inner_text()
    assert command == f"kscheduler whatif {flags} --cordon n0"


def test_a_row_opens_why_its_pod_is_pending(page: Page, address: str) -> None:
    opened(page, address)
    page.keyboard.press("2")
    page.wait_for_selector('main[data-view="pending"]')
    page.keyboard.press("/")
    page.keyboard.type("BIG2")
    assert page.locator(".vspace .vrow").count() == 1
    page.keyboard.press("Escape")
    page.get_by_role("grid", name="Pods without a node").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-view="why"]')
    bars = page.locator(".bars").first.locator("li").all_inner_texts()
    assert [" ".join(bar.split()) for bar in bars] == [
        "5 Insufficient cpu NodeResourcesFit 83 %",
        "1 node(s) had untolerated taint(s) TaintToleration 17 %",
    ]
    assert page.get_by_text("cpu free").first.inner_text().startswith("5 cores more")


def test_a_decision_has_its_scores_by_plugin_beside_the_second_choice(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["decided"], "#/decision?pod=default/p0")
    table = page.get_by_role("region", name="Scores of the chosen node and the second choice")
    headings = [" ".join(text.split()) for text in table.locator("thead th").all_inner_texts()]
    assert headings[:2] == ["chosen: n0", f"second: {LONG}"]
    assert headings[2:5] == ["Plugin", "Weight", "raw"]
    rows = {row.split()[0]: row.split()[1:] for row in table.locator("tbody tr").all_inner_texts()}
    weight, *chosen, _, _, _, difference = rows["NodeResourcesFit"]
    assert (weight, chosen[1], difference) == ("1", chosen[2], rows["Total"][-1])
    assert difference.startswith("+")
    page.get_by_role("link", name="The node at that time").click()
    page.wait_for_selector('main[data-view="nodes"]')
    assert page.locator(".detail h3").first.text_content() == "n0"


def test_the_timeline_jumps_to_a_decision(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["decided"], "#/timeline?t=0")
    rows = page.get_by_role("grid", name="What happened in the interval")
    rows.get_by_text("default/p0", exact=True).first.click()
    page.wait_for_selector('main[data-view="decision"]')
    assert page.locator(".parts .facts dd").first.inner_text() == "default/p0"
    opened(page, addresses["decided"], f"#/why?pod={quote(f'default/{SCRIPT}')}")
    page.get_by_role("link", name="Its latest attempts").click()
    page.wait_for_selector('main[data-view="decision"]')
    assert page.locator(".parts .facts dd").first.text_content() == f"default/{SCRIPT}"
    [reason] = page.locator(".bars li").all_inner_texts()
    assert " ".join(reason.split()).startswith("4 Insufficient cpu NodeResourcesFit 100 % such as ")


def test_the_page_says_that_no_decisions_about_a_pod_were_kept(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["decided"], "#/decision?pod=default/gone")
    assert page.get_by_role("status").last.inner_text().startswith("No decision about default/gone was kept")
    opened(page, addresses["busy"], "#/decision?pod=default/p0")
    assert page.get_by_text("This report has no decisions").is_visible()
    assert page.get_by_role("status").inner_text().startswith("default/p0 was bound at 0 s to ")


def test_a_waiting_pod_shows_its_claims_and_why_their_requests_fail(page: Page, address: str) -> None:
    opened(page, address, f"#/why?pod={quote(f'default/{SCRIPT}')}")
    rows = page.get_by_role("region", name="Claims", exact=True).locator("tbody tr").all_inner_texts()
    assert rows[0].split("\t") == ["gpu", "shop/web-1-gpu-x7", "not allocated", "–"]
    assert f"nic.example.com/n0/{SCRIPT} for request nics/shared, share 5" in rows[1]
    why = page.get_by_role("region", name="Why requests fail").locator("tbody tr").all_inner_texts()
    message = f"too few devices match: class gpu: selector #0: device.driver == '{SCRIPT}'"
    assert why[0].split("\t") == ["4", "shop/web-1-gpu-x7", "gpu", message, f"n0, {SCRIPT}, …"]
    assert page.get_by_text("0 of 6 nodes looked at can satisfy them at the end of the run.").is_visible()


@pytest.mark.parametrize(("name", "view"), [("busy", "why"), ("busy", "decision"), ("decided", "decision")])
def test_a_pod_that_was_placed_shows_its_devices(page: Page, addresses: dict[str, str], name: str, view: str) -> None:
    opened(page, addresses[name], f"#/{view}?pod=default/p0")
    rows = page.get_by_role("region", name="Claims", exact=True).locator("tbody tr").all_inner_texts()
    assert any("nic.example.com/n0/nic-0 for request nics" in row for row in rows)
    opened(page, addresses[name], f"#/{view}?pod=default/p1")
    assert page.get_by_role("region", name="Claims", exact=True).count() == 0


def test_the_gangs_of_a_run_show_what_they_hold(page: Page, address: str) -> None:
    opened(page, address)
    rows = page.get_by_role("region", name="How each gang went").locator("tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [
        ["default/first", "2", "2", "0", "ran 30 s after its first pod", "20 s"],
        ["default/second", "4", "4", "2", "holds nodes for 2 of the 4 pods that it needs", "45 s"],
        [f"default/{SCRIPT}", "3", "1", "0", "has 1 pod of the 3 that it needs", "0 s"],
    ]
    assert page.get_by_text(
        "1 of 4 gangs ran; 1 gang holds nodes for fewer pods than needed, and cannot run;"
    ).is_visible()
    drawn = "default/first 2 at most, needs 2; default/second 2 at most, needs 4."
    assert page.get_by_role(
        "img", name=f"Line chart of each gang's pods on nodes over virtual time: {drawn}"
    ).is_visible()


def test_pods_without_a_node_are_listed_by_queue_where_queues_decide(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["in queues"], "#/pending")
    rows = page.get_by_role("grid", name="Pods without a node").locator(".vspace .vrow")
    rows.first.wait_for()
    shown = [row.split("\n")[:4] for row in rows.all_inner_texts()]
    assert shown == [
        ["1", "default/p1", "team-a", "0"],
        ["1", "default/p2", "team-b", "7"],
        ["2", "default/p0", "team-b", "0"],
    ]
    assert page.get_by_text("Queues take turns: first those within what they deserve").is_visible()
    opened(page, addresses["waiting gang"], "#/pending")
    assert page.get_by_text("by priority, then by arrival. A gang is decided as one, in the place of its").is_visible()
    assert page.get_by_text("Queues take turns").count() == 0


def test_no_filter_is_blamed_for_a_pod_that_would_fit_without_its_gang(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["waiting gang"])
    verdict = page.get_by_text("0 of 1 gang ran; 1 gang waits and holds nothing.")
    assert verdict.get_attribute("class") == "verdict warn"
    opened(page, addresses["waiting gang"], "#/why")
    assert page.get_by_text(
        "1 node has room for what it requests: the message says what keeps it from it."
    ).is_visible()
    assert page.get_by_text("filters reject").count() == 0


def test_a_comparison_names_the_first_plugin_that_says_why(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["compared"])
    assert page.locator("main").get_attribute("data-view") == "compare"
    rows = page.get_by_role("grid", name="Pods that landed elsewhere, with reasons").locator(".vspace .vrow")
    words = [row.split("n1")[-1].strip() for row in rows.all_inner_texts()]
    assert words[0].endswith("as 98 : 93 in A, 1 : 6 in B")
    assert words[1] == f"NodeAffinity filters out {SCRIPT} in B: {SCRIPT}"
    assert words[2] == "equal scores; chosen by the tie-break"
    assert page.locator(".first-cause th").inner_text() == "NodeResourcesFit"
    figures = page.get_by_role("region", name="Figures of both runs").locator("tbody tr").all_inner_texts()
    assert [row.split() for row in figures] == [
        ["pending-p99", "1", "s", "3", "s", "+2", "s", "worse"],
        ["cpu:", "fragmentation:cpu", "50.00", "%", "25.00", "%", "−25.00", "%", "better"],
        ["cpu", "–", "1", "s", "–"],
        ["gangs-ran", "50.00", "%", "100.00", "%", "+50.00", "%", "worse"],
        ["gangs-wait-mean", "1.5", "min", "30", "s", "−1", "min", "better"],
        ["gangs-holding", "2", "0", "−2", "better"],
        ["cpu:", "allocated:cpu", "75.00", "%", "75.00", "%", "="],
    ]
    page.get_by_label("Cause").select_option(label="1 × NodeAffinity (filter)")
    rows.first.click()
    assert f"follows from default/{SCRIPT}" in page.locator(".facts").first.inner_text()
    link = page.url
    opened(page, link)
    assert page.locator("main h3").first.text_content() == "default/p1"


def test_a_link_opens_the_same_view_again(page: Page, address: str) -> None:
    opened(page, address, "#/nodes")
    page.get_by_role("button", name="pods").click()
    page.get_by_label("Group by").select_option("team")
    page.locator(".nodemap canvas").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("]")
    link, node = page.url, page.locator(".detail h3").first.inner_text()
    shown = page.locator(".scrubber output").inner_text()
    opened(page, link)
    assert page.locator(".detail h3").first.inner_text() == node
    assert page.locator(".scrubber output").inner_text() == shown
    assert page.get_by_role("button", name="pods").get_attribute("aria-pressed") == "true"
    assert page.get_by_label("Group by").input_value() == "team"


@pytest.mark.parametrize(
    ("fragment", "view"),
    [
        ("#/none", "overview"),
        ("#/%E0%A4%A", "overview"),
        ("#/overview?report=99&load=none", "overview"),
        ("#/nodes?resource=none&group=none&t=none&node=none&sorted=none", "nodes"),
        ("#/timeline?t=-5", "timeline"),
        ("#/timeline?t=1e99", "timeline"),
        ("#/pending?reason=none&state=none&q=none", "pending"),
        ("#/why?pod=%3Cscript%3E", "why"),
        ("#/decision?pod=%3Cscript%3E&attempt=none&outcome=none", "decision"),
    ],
)
def test_an_address_that_names_nothing_shows_the_view(
    page: Page, addresses: dict[str, str], fragment: str, view: str
) -> None:
    opened(page, addresses["decided"], fragment)
    assert page.locator("main").get_attribute("data-view") == view
    assert page.get_by_role("alert").count() == 0


def test_keys_are_shown_and_colours_change(page: Page, address: str) -> None:
    opened(page, address)
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.get_by_role("button", name="Colours: dark").is_visible()
    assert page.evaluate(background) != light


def test_the_map_of_ten_thousand_nodes_finds_the_node_at_a_point(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["large"], "#/nodes?group=+")
    canvas = page.locator(".nodemap canvas")
    canvas.click(position={"x": 2, "y": 2})
    assert page.locator(".detail h3").first.inner_text() == "node-0000"
    page.keyboard.press("End")
    assert page.locator(".detail h3").first.inner_text() == "node-9999"
    box = canvas.bounding_box()
    assert box is not None
    assert box["height"] < 700


def test_real_load_is_shown_where_it_is_declared(page: Page, addresses: dict[str, str]) -> None:
    opened(page, addresses["loaded"])
    assert page.get_by_label("Line chart of real load over virtual time: cpu").is_visible()
    opened(page, addresses["busy"])
    assert page.get_by_text("Real load").count() == 0


# --- served -------------------------------------------------------------------------------------------------------


def test_two_reports_are_compared(page: Page, files: dict[str, str]) -> None:
    with served(files["a"], files["b"]) as url:
        opened(page, url, "#/compare")
        assert page.get_by_role("row", name="Pods placed").first.inner_text().split() == [
            "Pods",
            "placed",
            "20",
            "20",
            "=",
        ]
        table = page.get_by_role("grid", name="Pods that landed elsewhere")
        assert table.locator(".vspace .vrow").count() == 1
        assert "n1" in table.locator(".vspace .vrow").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1300
        page.get_by_label("Report", exact=True).select_option("1")
        assert "report=1" in page.url
        for view, heading in VIEWS.items():
            page.evaluate("view => { location.hash = `#/${view}?report=1`; }", view)
            page.wait_for_selector(f'main[data-view="{view}"]')
            assert heading in page.locator("main h2").all_inner_texts()


def test_zones_that_differ_between_two_reports_are_listed(page: Page, files: dict[str, str]) -> None:
    with served(files["a"], files["elsewhere"]) as url:
        opened(page, url, "#/compare")
        rows = page.get_by_role("region", name="By topology.kubernetes.io/zone").locator("tbody tr")
        rows.first.wait_for()
        assert sorted(row.split()[5] for row in rows.all_inner_texts()) == ["+1", "\N{MINUS SIGN}1"]


def test_a_report_of_an_earlier_version_and_a_record_are_shown(page: Page, files: dict[str, str]) -> None:
    with served(files["old"], files["c"]) as url:
        opened(page, url)
        assert page.locator("h1").inner_text() == "26 pods on 6 nodes"
        for view in [*VIEWS, "compare"]:
            page.evaluate("view => { location.hash = `#/${view}`; }", view)
            page.wait_for_selector(f'main[data-view="{view}"]')
            assert page.get_by_role("alert").count() == 0
        opened(page, url, "#/nodes?report=1&node=n0")
        assert page.locator("h1").inner_text() == "1 pod on 1 node"
        assert "default/recorded" in page.locator(".detail .vspace").inner_text()
        page.locator(".detail .vspace .vrow").click()
        page.wait_for_selector('main[data-view="decision"]')
        assert page.get_by_text("Only this node fitted, so no plugin scored it.").is_visible()
        assert "report=1" in page.url


def test_a_what_if_is_served(page: Page, files: dict[str, str]) -> None:
    with served(files["what-if"]) as url:
        opened(page, url)
        assert page.get_by_role("heading", name="How many nodes are needed").is_visible()
        page.get_by_label("Report", exact=True).select_option("1")
        assert "report=1" in page.url


def test_a_comparison_is_served(page: Page, files: dict[str, str]) -> None:
    with served(files["compared"]) as url:
        opened(page, url)
        assert page.get_by_role("heading", name="Why pods landed elsewhere").is_visible()
        page.get_by_label("Report", exact=True).select_option("1")
        assert "report=1" in page.url
