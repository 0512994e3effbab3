"""Who sees what on the live page, over real connections; and what is answered to those who must not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.errors import Unreachable
from kscheduler.serving.live.access import TOKEN_TTL_S
from kscheduler.serving.live.streams import RECHECK_S
from kscheduler.serving.live.topics import KEPT_POINTS
from kscheduler.ui.assets import LIVE_FILES, LIVE_MODULES, live_asset
from kscheduler.ui.server import HEADERS
from tests.ui.live.fixture import MEMBER, MESSAGE, NODE, PLACED, START, changed, reading
from tests.ui.live.stage import Stage
from tests.ui.live.viewer import Stream, bearer
from tests.ui.reports import HOSTILE, LONG, SCRIPT

Client = TestClient[Any, Any]


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@contextlib.asynccontextmanager
async def connected(stage: Stage) -> AsyncIterator[Client]:
    async with TestClient(TestServer(stage.app()), connector=aiohttp.TCPConnector(limit=0)) as client:
        try:
            yield client
        finally:
            stage.hub.close()


@pytest.fixture
async def client(stage: Stage) -> AsyncIterator[Client]:
    async with connected(stage) as client:
        yield client


async def opened(client: Client, view: str, token: str = "admin") -> Stream:
    response = await client.get(f"/ui/api/stream?view={view}", headers=bearer(token))
    assert response.status == 200
    assert response.content_type == "text/event-stream"
    return Stream(response)


async def fed(stage: Stage, *readings: Any) -> None:
    for each in readings:
        stage.taken.clear()
        stage.hub.deliver(each)
        await stage.taken.wait()


# --- files --------------------------------------------------------------------------------------------------------


async def test_the_files_hold_no_data_and_need_no_token(client: Client, stage: Stage) -> None:
    for name in ("", *LIVE_FILES):
        response = await client.get(f"/ui/{name}")
        assert response.status == 200
        assert await response.text() == live_asset(name or "index.html")
    assert stage.reviews.asked == []
    response = await client.get("/ui", allow_redirects=False)
    assert (response.status, response.headers["Location"]) == (308, "ui/")


async def test_the_index_starts_the_live_page_and_no_module_is_missing(client: Client) -> None:
    index = await (await client.get("/ui/")).text()
    assert '<script type="module" src="live/main.js">' in index
    assert '"main.js"' not in index
    assert "live/style.css" in index
    assert "main.js" not in LIVE_FILES
    assert "kscheduler explain" in index
    assert "report." not in index


def test_no_live_module_parses_text_as_html_and_the_page_stays_small() -> None:
    for module in LIVE_MODULES:
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in live_asset(module)
    assert sum(len(live_asset(name).encode()) for name in LIVE_FILES) <= 300_000


@pytest.mark.parametrize(
    "path", ["", "live/main.js", "api/pod?pod=shop/web-1", "api/stream?view=no", "none", "%2e%2e/x"]
)
async def test_every_answer_has_the_protecting_headers(client: Client, path: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        response = await client.request(method, f"/ui/{path}", headers=bearer("admin"))
        assert {name: response.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_it_only_reads(client: Client, method: str) -> None:
    response = await client.request(method, "/ui/api/pod?pod=shop/web-1", headers=bearer("admin"), data=b"x")
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


# --- who may see it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"Authorization": "Basic YWRtaW4="}, bearer("x" * 20_000)])
async def test_without_a_valid_token_there_is_no_data(client: Client, stage: Stage, headers: dict[str, str]) -> None:
    for path in ("api/stream?view=overview", "api/pod?pod=shop/web-1", "api/node?node=n0", "api/else"):
        response = await client.get(f"/ui/{path}", headers=headers)
        if response.status == 400:  # aiohttp refuses a header so long by itself
            continue
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert not any(asked[0] != "token" for asked in stage.reviews.asked)


async def test_a_token_in_the_address_is_no_token(client: Client) -> None:
    response = await client.get("/ui/api/stream?view=overview&token=admin&access_token=admin")
    assert response.status == 401


async def test_who_may_not_get_the_path_is_forbidden_it(client: Client, stage: Stage) -> None:
    response = await client.get("/ui/api/stream?view=overview", headers=bearer("stranger"))
    assert response.status == 403
    assert "stranger" in (await response.json())["message"]
    assert ("stranger", "get", "/ui/api/stream") in stage.reviews.asked


async def test_rows_are_of_namespaces_whose_pods_the_user_may_list(client: Client, stage: Stage) -> None:
    everything, own = await opened(client, "queue"), await opened(client, "queue", "shopkeeper")
    await fed(stage, reading())
    _, of_all = await everything.event()
    _, of_shop = await own.event()
    assert {row["pod"].split("/")[0] for row in of_all["rows"]} == {"shop", "bank"}
    assert {row["pod"].split("/")[0] for row in of_shop["rows"]} == {"shop"}
    assert (of_all["all"], of_shop["all"]) == (True, False)
    assert of_shop["counts"] == of_all["counts"] == {"active": 2, "backoff": 1, "unschedulable": 5, "gated": 1}
    assert "rejectedBy" in of_all
    assert "rejectedBy" not in of_shop
    first = of_shop["rows"][0]
    assert (first["pod"], first["position"], first["priority"]) == ("shop/first", 1, 100)
    back = next(row for row in of_shop["rows"] if row["pool"] == "backoff")
    assert (back["retryAt"], back["reason"], back["plugins"]) == (START + 4, MESSAGE, ["NodeResourcesFit"])


async def test_decisions_are_filtered_as_the_queue_is(client: Client, stage: Stage) -> None:
    own = await opened(client, "decisions", "shopkeeper")
    await fed(stage, reading())
    _, found = await own.event()
    assert {row["pod"].split("/")[0] for row in found["rows"]} == {"shop"}
    assert found["rows"][0]["node"] == "n0"


async def test_nodes_are_for_who_may_list_nodes(client: Client, stage: Stage) -> None:
    for path in ("api/stream?view=nodes", "api/node?node=n0"):
        assert (await client.get(f"/ui/{path}", headers=bearer("shopkeeper"))).status == 403
    stream = await opened(client, "nodes")
    await fed(stage, reading())
    event, description = await stream.event()
    assert (event, description["names"][:3]) == ("nodes", list(HOSTILE))
    event, use = await stream.event()
    assert (event, set(use["used"])) == ("use", {"cpu", "memory", "pods"})
    await fed(stage, reading(START + 1, nodes=changed(0, 4_000)))
    event, use = await stream.event()
    assert event == "use", "names and labels are sent once"


async def test_the_pods_of_a_node_are_filtered_too(client: Client, stage: Stage) -> None:
    stage.reviews.may_list = {"shopkeeper": {("pods", "shop"), ("nodes", "")}}
    found = await (await client.get("/ui/api/node?node=n0", headers=bearer("shopkeeper"))).json()
    assert "bank/ledger" not in [each["pod"] for each in found["pods"]]
    assert (len(found["pods"]), found["podsHidden"]) == (len(NODE["pods"]) - 1, 1)


async def test_a_pod_is_explained_with_the_nodes_that_come_nearest(client: Client) -> None:
    found = await (await client.get("/ui/api/pod?pod=shop/web-1", headers=bearer("admin"))).json()
    assert found["state"] == "unschedulable"
    assert found["nearest"] == [
        {"node": "n2", "lacks": {}},
        {"node": "n0", "lacks": {"cpu": 1_000}},
        {"node": SCRIPT, "lacks": {"cpu": 500, "pods": 1}},
    ]


async def test_a_pod_is_explained_without_names_of_nodes_that_the_user_may_not_list(
    client: Client, stage: Stage
) -> None:
    stage.explained["shop/placed"] = PLACED
    for pod in ("web-1", "placed"):
        text = await (await client.get(f"/ui/api/pod?pod=shop/{pod}", headers=bearer("shopkeeper"))).text()
        found = json.loads(text)
        assert found["nearest"] is None
        assert all(reason["examples"] == [] for each in found["decisions"] for reason in each["reasons"])
    assert [node["node"] for node in found["decisions"][0]["bestNodes"]] == ["n0", "node 2"]


async def test_a_gang_is_explained_without_names_of_nodes_that_the_user_may_not_list(
    client: Client, stage: Stage
) -> None:
    stage.explained["shop/train-0"] = MEMBER
    text = await (await client.get("/ui/api/pod?pod=shop/train-0", headers=bearer("shopkeeper"))).text()
    found = json.loads(text)
    assert found["gang"]["latestAttempt"]["stoppedBy"]["pod"] == "shop/train-3"
    assert found["decisions"][0]["fitted"] == "a node"
    assert '"n1"' not in text


async def test_claims_are_shown_without_pools_to_a_user_who_may_not_list_nodes(client: Client, stage: Stage) -> None:
    """Pools are named after nodes. The pool of a pod that has its node says no more than that node."""
    waiting, words, free = stage.explained["shop/web-1"]
    assert waiting is not None
    there = {**waiting, "state": "bound", "pod": {**waiting["pod"], "nodeName": "n0"}}
    stage.explained["shop/there"] = there, words, free
    pools = []
    for pod in ("web-1", "there"):
        answer = await client.get(f"/ui/api/pod?pod=shop/{pod}", headers=bearer("shopkeeper"))
        claims = (await answer.json())["claims"]
        assert [each["examples"] for each in claims["findings"]] == [[], []]
        assert "n1" not in json.dumps(claims["findings"])
        pools.append([device["pool"] for each in claims["claims"] for device in each["devices"]])
    assert pools == [["", ""], ["n0", "n0"]]


async def test_who_borrows_is_not_shown_to_a_user_who_may_not_list_nodes(client: Client, stage: Stage) -> None:
    answer = await client.get("/ui/api/pod?pod=shop/web-1", headers=bearer("shopkeeper"))
    cpu, _ = (await answer.json())["quota"]["resources"]
    assert (cpu["used"], cpu["max"], cpu["overMin"], cpu["overMinLeftOut"]) == ("1", "2", [], 0)


@pytest.mark.parametrize(
    ("pod", "status", "words"),
    [
        ("shop/gone", 404, "no unfinished pod has this name"),
        ("bank/vault", 403, "You may not list pods in namespace 'bank'."),
        ("vault", 400, "expected NAMESPACE/NAME"),
        ("a/b/c", 400, "expected NAMESPACE/NAME"),
        ("", 400, "expected NAMESPACE/NAME"),
        ("shop/" + "x" * 400, 400, "expected NAMESPACE/NAME"),
    ],
)
async def test_a_pod_that_is_gone_or_not_the_users_is_answered_in_clear_words(
    client: Client, pod: str, status: int, words: str
) -> None:
    response = await client.get("/ui/api/pod", params={"pod": pod}, headers=bearer("shopkeeper"))
    assert (response.status, words in (await response.json())["message"]) == (status, True)


async def test_a_node_that_is_gone_is_answered_in_clear_words(client: Client) -> None:
    response = await client.get("/ui/api/node", params={"node": f"{SCRIPT}2"}, headers=bearer("admin"))
    assert (response.status, response.content_type) == (404, "application/json")
    assert "There is no node" in (await response.json())["message"]


async def test_hostile_names_are_json_strings(client: Client, stage: Stage) -> None:
    stream = await opened(client, "queue")
    await fed(stage, reading())
    _, found = await stream.event()
    assert {f"shop/{name}" for name in HOSTILE} <= {row["pod"] for row in found["rows"]}
    assert max(len(row["pod"]) for row in found["rows"]) == len(f"shop/{LONG}")


# --- streams ------------------------------------------------------------------------------------------------------


async def test_the_overview_begins_with_the_last_minutes_and_goes_on(client: Client, stage: Stage) -> None:
    await fed(stage, *(reading(START + second, scheduled=10.0 * second) for second in range(3)))
    stream = await opened(client, "overview")
    _, first = await stream.event()
    assert [point["at"] - START for point in first["points"]] == [0, 1, 2]
    assert [point["scheduled"] for point in first["points"]] == [None, 10.0, 10.0]
    assert first["points"][-1]["used"].keys() == {"cpu", "memory", "pods"}
    await fed(stage, reading(START + 3, scheduled=50.0))
    _, then = await stream.event()
    assert [point["scheduled"] for point in then["points"]] == [30.0]


async def test_the_points_of_the_overview_are_bounded(client: Client, stage: Stage) -> None:
    await fed(stage, *(reading(START + second, queue=None, decisions=None, nodes=None) for second in range(700)))
    _, first = await (await opened(client, "overview")).event()
    assert len(first["points"]) == KEPT_POINTS


async def test_a_reader_who_is_slow_skips_documents(client: Client, stage: Stage) -> None:
    stream = await opened(client, "queue")
    for second in range(50):
        stage.hub.deliver(reading(START + second, nodes=None))
        await stage.taken.wait()
    first = (await stream.event())[1]
    assert first["rows"][0]["since"] == START + 49 - 3, "nothing waits in between"


async def test_an_unchanged_queue_is_not_sent_again(client: Client, stage: Stage) -> None:
    stream = await opened(client, "queue")
    same = reading()
    await fed(stage, same)
    await stream.event()
    await fed(stage, same._replace(numbers=same.numbers._replace(at=START + 1)))
    await fed(stage, reading(START + 2))
    assert (await stream.event())[1]["rows"][0]["since"] == START + 2 - 3


async def test_a_silent_stream_has_heartbeats(client: Client, stage: Stage) -> None:
    stage.streams.heartbeat_s = 0.01
    stream = await opened(client, "overview")
    assert await stream.response.content.readline() == b": here\n"


async def test_only_watched_views_are_asked_for(client: Client, stage: Stage) -> None:
    assert stage.watched == []
    queue, _ = await opened(client, "queue"), await opened(client, "nodes")
    assert stage.watched[-1] == {"queue", "nodes"}
    queue.response.close()
    stage.streams.heartbeat_s = 0.01
    await fed(stage, reading())
    while stage.watched[-1] != {"nodes"}:
        await fed(stage, reading())
        await asyncio.sleep(0.01)
    assert len(stage.streams) == 1


async def test_a_token_that_expires_ends_its_stream_with_a_word(client: Client, stage: Stage) -> None:
    stream = await opened(client, "overview")
    await fed(stage, reading())
    await stream.event()
    stage.reviews.tokens.discard("admin")
    stage.clock.advance(TOKEN_TTL_S + 1)
    await fed(stage, reading(START + 1))
    assert await stream.event() == (
        "end",
        {"reason": "token", "message": "The token is not valid, or no longer. Use a new one."},
    )
    with pytest.raises(EOFError):
        await stream.event()
    assert len(stage.streams) == 0


async def test_a_right_that_is_taken_away_ends_the_stream(client: Client, stage: Stage) -> None:
    stream = await opened(client, "nodes")
    stage.reviews.may_list = {"admin": {("pods", "")}}
    stage.clock.advance(TOKEN_TTL_S + 1)
    await fed(stage, reading())
    event, end = await stream.event()
    assert (event, end["reason"]) == ("end", "forbidden")


async def test_streams_end_in_words_when_the_scheduler_stops(client: Client, stage: Stage) -> None:
    stream = await opened(client, "overview")
    stage.hub.close()
    assert await stream.event() == ("end", {"reason": "stopping", "message": "This scheduler is stopping."})
    response = await client.get("/ui/api/stream?view=overview", headers=bearer("admin"))
    assert (response.status, response.headers["Retry-After"]) == (503, "5")


# --- an apiserver that fails or hangs -----------------------------------------------------------------------------


async def test_an_apiserver_that_fails_is_answered_with_503(client: Client, stage: Stage) -> None:
    stage.reviews.failure = Unreachable("connection refused")
    response = await client.get("/ui/api/stream?view=overview", headers=bearer("admin"))
    assert (response.status, response.headers["Retry-After"]) == (503, "5")
    assert "apiserver could not be asked" in (await response.json())["message"]
    stage.reviews.failure = None
    assert (await opened(client, "overview")).response.status == 200


async def test_an_apiserver_that_hangs_is_answered_with_503() -> None:
    stage = Stage(timeout_s=0.02)
    stage.reviews.release.clear()
    async with connected(stage) as client:
        for token in ("admin", "shopkeeper"):
            assert (await client.get("/ui/api/stream?view=overview", headers=bearer(token))).status == 503
    assert stage.reviews.at_once == 0


async def test_an_apiserver_that_fails_later_ends_the_stream_so_that_the_page_tries_again(
    client: Client, stage: Stage
) -> None:
    stream = await opened(client, "queue", "shopkeeper")
    stage.reviews.failure = Unreachable("connection refused")
    stage.clock.advance(RECHECK_S + TOKEN_TTL_S)
    await fed(stage, reading())
    event, end = await stream.event()
    assert (event, end["reason"]) == ("end", "unavailable")


async def test_no_token_is_logged(client: Client, stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    for failure in (None, Unreachable("connection refused"), RuntimeError("broken")):
        stage.reviews.failure = failure
        await client.get("/ui/api/stream?view=queue", headers=bearer("s3cret-token"))
        await client.get("/ui/api/pod?pod=shop/x", headers=bearer("s3cret-token"))
    stage.clock.advance(60.0)
    assert "s3cret" not in caplog.text
    assert "s3cret" not in "".join(str(record.__dict__) for record in caplog.records)


# --- limits -------------------------------------------------------------------------------------------------------


async def test_of_a_thousand_streams_most_are_refused_and_none_is_kept() -> None:
    stage = Stage(most_streams=100, of_address=40)
    async with connected(stage) as client:
        answers = []
        for _ in range(1_000):
            stage.clock.advance(0.1)
            answers.append(await client.get("/ui/api/stream?view=overview", headers=bearer("admin")))
        refused = [answer for answer in answers if answer.status != 200]
        assert (len(answers) - len(refused), len(stage.streams)) == (40, 40)
        assert {(answer.status, answer.headers["Retry-After"]) for answer in refused} == {(429, "10")}
        assert "watch already" in (await refused[0].json())["message"]


async def test_all_slots_taken_is_another_answer_than_too_many_of_an_address() -> None:
    stage = Stage(most_streams=2, of_address=40)
    async with connected(stage) as client:
        held = [await opened(client, "overview"), await opened(client, "overview")]
        response = await client.get("/ui/api/stream?view=overview", headers=bearer("admin"))
        assert (response.status, response.headers["Retry-After"]) == (503, "10")
        assert len(stage.streams) == len(held)


async def test_requests_are_limited_by_address(client: Client, stage: Stage) -> None:
    statuses = [(await client.get("/ui/live/main.js")).status for _ in range(130)]
    assert statuses == [200] * 120 + [429] * 10
    stage.clock.advance(1.0)
    assert (await client.get("/ui/live/main.js")).status == 200


async def test_questions_that_the_scheduler_answers_are_limited_more(client: Client, stage: Stage) -> None:
    statuses = [(await client.get("/ui/api/pod?pod=shop/web-1", headers=bearer("admin"))).status for _ in range(25)]
    assert statuses == [200] * 20 + [429] * 5
    stage.clock.advance(1.0)
    assert (await client.get("/ui/api/node?node=n0", headers=bearer("admin"))).status == 200


async def test_many_viewers_at_once_all_see_equal_rows(client: Client, stage: Stage) -> None:
    streams = [await opened(client, "queue") for _ in range(20)]
    await fed(stage, reading())
    waiting = [asyncio.ensure_future(stream.event()) for stream in streams]
    found = await asyncio.gather(*waiting)
    assert all(each == found[0] for each in found)
    assert len([asked for asked in stage.reviews.asked if asked[0] == "token"]) == 1
    await cancel_and_wait(*waiting)
