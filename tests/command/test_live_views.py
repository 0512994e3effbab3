"""`kubectl kscheduler queue` and `nodes` print what the live page of a running scheduler has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kscheduler.command.kubectl_plugin import main
from kscheduler.command.live_views import nodes_text, queue_text
from kscheduler.serving.listener import Handler
from tests.command.serving import Serving

NOW = 1_000_000.0
WAITING = {
    "pod": "shop/web-7",
    "pool": "unschedulable",
    "position": None,
    "priority": 0,
    "attempts": 3,
    "since": NOW - 180,
    "retryAt": NOW + 120,
    "plugins": ["NodeResourcesFit"],
    "reason": "0/3 nodes are available: 3 Insufficient cpu.",
}
FIRST = {**WAITING, "pod": "shop/web-8", "pool": "active", "position": 1, "retryAt": None, "plugins": [], "reason": ""}
COUNTS = {"active": 1, "backoff": 0, "unschedulable": 4, "gated": 0}
QUEUE: dict[str, Any] = {"counts": COUNTS, "rejectedBy": {}, "all": True, "rows": [FIRST, WAITING]}
NODE: dict[str, Any] = {
    "name": "node-a",
    "unschedulable": True,
    "amounts": {
        "cpu": {"requested": 1500, "allocatable": 4000},
        "memory": {"requested": 1 << 30, "allocatable": 8 << 30},
        "example.com/gpu": {"requested": 1, "allocatable": 8},
        "pods": {"requested": 2, "allocatable": 110},
    },
}


def event(name: str, document: object) -> str:
    return f": heartbeat\n\nevent: {name}\ndata: {json.dumps(document)}\n\n"


async def stream(request: web.Request) -> web.Response:
    """The views as the page's streams begin."""
    view = request.query["view"]
    names = event("nodes", {"names": ["node-a", ""]})
    return web.Response(text=event("queue", QUEUE) if view == "queue" else names, content_type="text/event-stream")


async def node(request: web.Request) -> web.Response:
    if request.query["node"] != "node-a":
        return web.json_response({"status": 404, "message": "There is no node 'x', or not any more."}, status=404)
    return web.json_response(NODE)


async def ended(request: web.Request) -> web.Response:
    return web.Response(text=event("end", {"reason": "unavailable", "message": "This scheduler is stopping."}))


async def nonsense(request: web.Request) -> web.Response:
    return web.Response(text="event: queue\ndata: {]\n\n")


async def another_shape(request: web.Request) -> web.Response:
    return web.Response(text=event("queue", {**QUEUE, "counts": [1, 2]}))


@pytest.fixture
def token(tmp_path: Path) -> str:
    (tmp_path / "token").write_text("good")
    return str(tmp_path / "token")


@pytest.fixture
def serving(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Serving]:
    handlers: dict[str, Handler] = getattr(request, "param", {"/ui/api/stream": stream, "/ui/api/node": node})
    server = Serving(handlers, tmp_path)
    yield server
    server.stop()


def test_the_queue_is_printed_in_its_order_with_reasons() -> None:
    assert queue_text(QUEUE, NOW).splitlines() == [
        "1 active, 0 backoff, 4 unschedulable, 0 gated",
        "POOL           TURN  POD         PRIORITY  ATTEMPTS  WAITS  WHY",
        "active         1     shop/web-8  0         3         3m",
        "unschedulable        shop/web-7  0         3         3m     NodeResourcesFit: 0/3 nodes are available: "
        "3 Insufficient cpu. (tried again within 2m)",
        "and 3 more",
    ]


def test_a_pod_that_a_plugin_holds_back_without_a_word_has_the_plugins_name() -> None:
    held = {**QUEUE["rows"][1], "plugins": ["SchedulingGates"], "reason": "", "retryAt": None}
    assert queue_text({**QUEUE, "rows": [held]}, NOW).splitlines()[2].endswith("  SchedulingGates")


def test_a_reason_that_is_no_plugins_stands_alone() -> None:
    failed = {**QUEUE["rows"][1], "plugins": [], "reason": "the apiserver is away", "retryAt": NOW}
    assert queue_text({**QUEUE, "rows": [failed]}, NOW).splitlines()[2].endswith("3m     the apiserver is away")


def test_the_text_says_when_only_a_part_of_the_queue_is_shown() -> None:
    assert queue_text({**QUEUE, "all": False, "rows": []}, NOW).splitlines()[1:] == [
        "only pods of namespaces in which you may list pods are shown",
    ]


def test_the_text_of_an_empty_queue_says_that_no_pod_waits() -> None:
    empty = {**QUEUE, "counts": {"active": 0}, "rows": []}
    assert queue_text(empty, NOW).splitlines() == ["0 active", "no pod waits"]


def test_nodes_are_printed_with_what_is_allocated_of_what_is_allocatable() -> None:
    assert nodes_text([NODE, {**NODE, "name": "b", "amounts": {}, "unschedulable": False}], 3).splitlines() == [
        "NODE    PODS   CPU    MEMORY       OTHER",
        "node-a  2/110  1.5/4  1.0Gi/8.0Gi  example.com/gpu 1/8, unschedulable",
        "b       -      -      -",
        "and 3 more; name those that you want to see",
    ]


def test_a_running_scheduler_is_asked(serving: Serving, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--server", serving.url, "--token-file", token]
    assert main(["queue", *asked]) == 0
    assert "shop/web-7" in capsys.readouterr().out
    assert main(["nodes", *asked]) == 0
    assert "node-a  2/110" in capsys.readouterr().out
    assert main(["nodes", "node-a", "-o", "json", *asked]) == 0
    assert json.loads(capsys.readouterr().out) == [NODE]


def test_a_node_that_is_not_there_is_named(serving: Serving, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "x", "--server", serving.url, "--token-file", token]) == 1
    assert "There is no node 'x'" in capsys.readouterr().err


def test_a_user_without_the_right_learns_which_one(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "--server", serving.url]) == 1
    assert "needs `get` on /ui/*" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({}, "expected the live page, which `kscheduler run --ui` serves"),
        ({"/ui/api/stream": ended}, "This scheduler is stopping."),
        ({"/ui/api/stream": nonsense}, "expected a view of the live page"),
        ({"/ui/api/stream": another_shape}, "expected a view of the live page"),
        ({"/ui/api/stream": stream, "/ui/api/node": nonsense}, ""),
    ],
    indirect=["serving"],
)
def test_an_answer_that_is_no_view_is_reported(
    serving: Serving, words: str, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view = "queue" if words else "nodes"
    assert main([view, "--server", serving.url, "--token-file", token]) == 1
    assert (words or "expected a view of the live page") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["queue", "--colour"], "unrecognized arguments: --colour"),
        (["queue", "-o", "xml"], "invalid choice"),
        (["nodes", *map(str, range(21))], "expected 20 names at most, got 21"),
    ],
)
def test_wrong_flags_are_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
