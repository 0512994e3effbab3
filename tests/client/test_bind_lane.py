"""The bind lane: on an apiserver of sockets that misbehaves, and on the cluster in memory."""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding, PodStatusPatch
from kscheduler.errors import APIError, Conflict, Forbidden, NodeGone, NotFound, NotLeading
from kscheduler.input.redaction import SecretURL
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_pod
from kscheduler.testing.controlplane.patience import until
from tests.client.fake_apiserver import FakeAPIServer, pod
from tests.client.protobuf import decode, unwrap
from tests.support.certificates import Authority, write_kubeconfig
from tests.support.clocks import CLOCK
from tests.support.election import Follower

LONG_S = 10.0


class Lane:
    """A lane, and what became of each binding."""

    def __init__(self, client: KubeClient, **options: Any) -> None:
        self.client = client
        self.binder = Binder(client, random.Random(1))
        self.lane = BindLane(client, self.binder, **options)
        self.outcomes: dict[str, list[APIError | None]] = {}  # pod name -> the arguments of each call of on_done

    def submit(self, *names: str, node: str = "n1") -> None:
        for name in names:
            self.outcomes[name] = []
            self.lane.submit(Binding("default", name, f"uid-{name}", node), self.outcomes[name].append)
            assert self.outcomes[name] == []  # never from within

    async def bind(self, *names: str) -> list[APIError | None]:
        self.submit(*names)
        assert await self.lane.drain(LONG_S) == 0
        assert all(len(calls) == 1 for calls in self.outcomes.values())
        return [self.outcomes[name][0] for name in names]


@pytest.fixture
async def server() -> AsyncIterator[FakeAPIServer]:
    async with FakeAPIServer().running() as server:
        yield server


@asynccontextmanager
async def lane_to(server: FakeAPIServer, *, proxy: str | None = None, **options: Any) -> AsyncIterator[Lane]:
    settings = {"qps": -1.0, **{name: options.pop(name) for name in ("qps", "burst") if name in options}}
    client = KubeClient(
        Credentials(Endpoint(server.url, None, proxy=SecretURL(proxy) if proxy else None), CLOCK), CLOCK, **settings
    )
    try:
        yield Lane(client, **options)
    finally:
        await client.close()


def bindings(server: FakeAPIServer) -> list[str]:
    """The pods whose bindings were written, in the order in which they came."""
    return [request.path.split("/")[-2] for request in server.sent("POST", "/binding")]


async def test_bindings_are_written_with_uid_and_node(server: FakeAPIServer) -> None:
    async with lane_to(server) as bench:
        assert await bench.bind("a", "b", "c") == [None, None, None]
    first = server.sent("POST", "/binding")[0]
    assert first.path == "/api/v1/namespaces/default/pods/a/binding"
    sent = unwrap(first.body, b"v1", b"Binding")
    assert decode(sent[1]) == {1: b"a", 3: b"default", 5: b"uid-a"}
    assert decode(sent[2]) == {1: b"Node", 3: b"n1"}
    assert sorted(bindings(server)) == ["a", "b", "c"]


async def test_what_has_ended_leaves_nothing_for_the_garbage_collector(server: FakeAPIServer) -> None:
    async with lane_to(server) as lane:
        await lane.bind("first")  # opens a connection
        gc.collect()
        gc.freeze()  # what other tests of this process left does not count
        gc.disable()
        try:
            await lane.bind(*(f"p{number}" for number in range(50)))
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(each) for each in gc.garbage if type(each).__module__.startswith("kscheduler."))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
            gc.unfreeze()
        assert not left


async def test_more_than_the_limit_wait_their_turn(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", times=40, hang_s=0.01)
    async with lane_to(server, limit=4) as bench:
        names = [f"p{number}" for number in range(40)]
        bench.submit(*names)
        assert (len(bench.lane), bench.lane.limit, bench.lane.has_room) == (40, 4, False)
        assert await bench.lane.drain(LONG_S) == 0
        assert bench.lane.has_room
    assert sorted(bindings(server)) == sorted(names)


async def test_a_condition_does_not_wait_for_all_bindings_that_the_rate_limit_holds_back(server: FakeAPIServer) -> None:
    async with lane_to(server, qps=200.0, burst=1) as bench:
        bench.submit(*(f"p{number}" for number in range(400)))
        waits = Pod(metadata=ObjectMeta(name="waits", namespace="default", uid="u"))
        await bench.client.patch_pod_status(waits, PodStatusPatch(nominated_node_name="n1"))
        assert len(bench.lane) > 0
        await bench.lane.cancel()


async def test_bindings_that_wait_for_the_rate_limit_are_not_sent_to_a_node_that_was_deleted(
    server: FakeAPIServer,
) -> None:
    async with lane_to(server, qps=200.0, burst=4) as bench:
        for number in range(20):
            bench.submit(f"gone-{number}", node="n1")
            bench.submit(f"stays-{number}", node="n2")
        bench.lane.refuse_to("n1")
        assert await bench.lane.drain(LONG_S) == 0
        outcomes = {name: calls[0] for name, calls in bench.outcomes.items()}
        refused = {name for name, outcome in outcomes.items() if outcome is not None}
        assert refused == {f"gone-{number}" for number in range(2, 20)}
        assert {type(outcomes[name]) for name in refused} == {NodeGone}
        assert sorted(bindings(server)) == sorted(outcomes.keys() - refused)
        assert await bench.bind("next") == [None]


async def test_bindings_that_wait_for_the_rate_limit_can_be_withdrawn(server: FakeAPIServer) -> None:
    async with lane_to(server, qps=50.0, burst=5) as bench:
        bench.submit(*(f"p{number}" for number in range(100)))
        while len(bindings(server)) < 10:  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.01)
        assert await bench.lane.withdraw_unsent(LONG_S) == 0
        sent = bindings(server)
        assert len(sent) < 100
        assert {name: calls for name, calls in bench.outcomes.items() if calls} == {name: [None] for name in sent}
        assert await bench.lane.drain(0.1) == 0
        assert bindings(server) == sent


@pytest.mark.parametrize(("status", "kind"), [(409, Conflict), (404, NotFound), (403, Forbidden), (422, APIError)])
async def test_a_refusal_is_reported_at_once(server: FakeAPIServer, status: int, kind: type[APIError]) -> None:
    server.fail("POST", "/binding", status=status, reason="No")
    async with lane_to(server) as bench:
        (error,) = await bench.bind("a")
        assert type(error) is kind
        assert error.status == status
        assert await bench.bind("b") == [None]
    assert bindings(server) == ["a", "b"]


@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 503}, {"status": 429}, {"cut": True}, {"status": 429, "retry_after": "1"}]
)
async def test_an_answer_that_decides_nothing_has_the_binding_written_again(
    server: FakeAPIServer, fault: dict[str, Any]
) -> None:
    server.fail("POST", "/binding", **fault)
    async with lane_to(server) as bench:
        started = CLOCK.now()
        assert await bench.bind("a") == [None]
        assert CLOCK.now() - started >= float(fault.get("retry_after", 0.05))
    assert bindings(server) == ["a", "a"]


async def test_a_plea_to_slow_down_holds_other_bindings_back_too(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", status=429, retry_after="3")
    async with lane_to(server) as bench:
        before = bench.lane.limit
        bench.submit("a")
        while bench.lane.limit == before:  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.01)
        bench.submit("b")
        await asyncio.sleep(0.2)
        assert bindings(server) == ["a"]
        assert bench.lane.limit == before // 2
        assert await bench.lane.drain(LONG_S) == 0
    assert sorted(bindings(server)) == ["a", "a", "b"]


async def test_a_binding_whose_answer_was_lost_counts_if_it_was_carried_out(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", cut=True)
    server.fail("POST", "/binding", status=409, reason="Conflict")
    server.fail("GET", "/pods/a", body=json.dumps(pod("a", nodeName="n1")).encode())
    async with lane_to(server) as bench:
        assert await bench.bind("a") == [None]
    assert bindings(server) == ["a", "a"]


async def test_a_conflict_after_a_lost_answer_may_be_somebody_elses(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", cut=True)
    server.fail("POST", "/binding", status=409, reason="Conflict")
    server.fail("GET", "/pods/a", body=json.dumps(pod("a", nodeName="another")).encode())
    async with lane_to(server) as bench:
        (error,) = await bench.bind("a")
        assert isinstance(error, Conflict)
    assert bindings(server) == ["a", "a"]


@pytest.mark.parametrize("fault", [{"cut": True}, {"status": 504}, {"body": b"<html>please log in</html>"}])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 429, 500, 503])
async def test_a_refusal_that_passes_decides_nothing_about_a_binding_in_doubt(
    server: FakeAPIServer, status: int, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(f"kscheduler.client.binder.{pause}", 0.001)
    server.fail("POST", "/binding", **fault)
    server.fail("POST", "/binding", status=status, reason="No", times=3)
    server.fail("GET", "/pods/a", status=status, reason="No", times=2)
    server.fail("GET", "/pods/a", body=b"<html>")
    server.fail("GET", "/pods/a", body=b"{}")
    server.fail("POST", "/binding", status=409, reason="Conflict", times=9)
    server.fail("GET", "/pods/a", body=json.dumps(pod("a", nodeName="n1")).encode(), times=9)
    async with lane_to(server) as bench:
        assert await bench.bind("a") == [None]
    nodes = {decode(unwrap(request.body, b"v1", b"Binding")[2])[3] for request in server.sent("POST", "/binding")}
    assert nodes == {b"n1"}


async def test_no_answer_in_time_leaves_it_in_doubt(server: FakeAPIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.client.kube.WRITE_TIMEOUT_S", 0.1)
    server.fail("POST", "/binding", hang_s=5)
    async with lane_to(server) as bench:
        assert await bench.bind("a") == [None]
    assert bindings(server) == ["a", "a"]


@pytest.mark.parametrize(
    ("recorded", "closes"),
    [
        (b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf", True),
        (b"220 smtp.example.com\r\n\r\n", False),
        (b"\x00" * 100, True),
        (b"", True),
    ],
)
async def test_garbage_and_half_an_answer_leave_it_in_doubt(recorded: bytes, closes: bool) -> None:
    served = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(recorded if served == 1 else b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        if served > 1 or not closes:
            await reader.read()
        writer.close()

    listening = await asyncio.start_server(script, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    client = KubeClient(Credentials(Endpoint(url, None), CLOCK), CLOCK, qps=-1)
    assert await Lane(client).bind("a") == [None]
    assert served == 2
    await client.close()
    listening.close()
    await asyncio.sleep(0.01)


async def test_nobody_there_has_it_tried_until_somebody_is() -> None:
    async with FakeAPIServer().running() as gone:
        pass
    async with lane_to(gone) as bench:
        bench.submit("a")
        assert await bench.lane.drain(0.3) == 1
        await bench.lane.cancel()
        assert (len(bench.lane), bench.outcomes["a"]) == (0, [])


async def test_an_old_token_is_read_again_and_all_bindings_go_through(server: FakeAPIServer) -> None:
    server.accepted_tokens = {"Bearer new"}
    reads = 0

    async def reload(force: bool) -> str:
        nonlocal reads
        reads += 1
        return "Bearer new"

    credentials = Credentials(Endpoint(server.url, None), CLOCK, header="Bearer old", reload=reload)
    client = KubeClient(credentials, CLOCK, qps=-1)
    assert await Lane(client).bind("a", "b", "c") == [None, None, None]
    assert reads == 1
    await client.close()


async def test_behind_a_proxy_bindings_go_the_ordinary_way(server: FakeAPIServer) -> None:
    async with lane_to(server, proxy=server.url) as bench:
        assert await bench.bind("a", "b") == [None, None]
    assert sorted(bindings(server)) == ["a", "b"]


async def test_bindings_travel_over_tls(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path, "me")
    async with FakeAPIServer().running(authority.server_context(tmp_path)) as server:
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        client = await KubeClient.connect(CLOCK, kubeconfig=write_kubeconfig(tmp_path, server.url, authority, user))
        assert await Lane(client).bind(*(f"p{number}" for number in range(50))) == [None] * 50
        assert len(server.requests) == 50
        await client.close()


async def test_the_rate_limit_holds(server: FakeAPIServer) -> None:
    async with lane_to(server, qps=20.0, burst=2) as bench:
        started = CLOCK.now()
        assert await bench.bind("a", "b", "c", "d", "e") == [None] * 5
        assert CLOCK.now() - started >= 0.14
    assert bindings(server)[2:] == ["c", "d", "e"]


async def test_once_this_replica_may_not_bind_nothing_is_written(server: FakeAPIServer) -> None:
    async with lane_to(server) as bench:
        bench.binder.permission.depend_on(Follower())
        (error,) = await bench.bind("a")
        assert isinstance(error, NotLeading)
    assert server.requests == []


async def test_a_lease_that_ends_while_bindings_wait_stops_those(server: FakeAPIServer) -> None:
    async with lane_to(server, limit=2) as bench:
        await bench.bind("x", "y")  # their connections are open from here on
        server.fail("POST", "/binding", times=2, hang_s=0.05)
        bench.submit("a", "b", *(f"p{number}" for number in range(1000)))
        bench.binder.permission.depend_on(Follower())
        assert await bench.lane.drain(LONG_S) == 0
        assert bench.outcomes["a"] == bench.outcomes["b"] == [None]
        assert all(isinstance(bench.outcomes[f"p{number}"][0], NotLeading) for number in range(1000))
    assert sorted(bindings(server)) == ["a", "b", "x", "y"]


async def test_cancelling_calls_nobody_and_the_lane_can_be_used_again(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", times=2, hang_s=0.05)
    async with lane_to(server, limit=2) as bench:
        bench.submit("a", "b", "c", "d")
        await asyncio.sleep(0.02)
        waiting = asyncio.ensure_future(bench.lane.drain(LONG_S))
        await asyncio.sleep(0)
        await bench.lane.cancel()
        assert await waiting == 0
        await asyncio.sleep(0.1)
        assert list(bench.outcomes.values()) == [[], [], [], []]
        bench.outcomes.clear()
        assert await bench.bind("e") == [None]
    assert sorted(bindings(server)) == ["a", "b", "e"]


async def test_what_follows_a_binding_may_fail_without_harm_to_others(server: FakeAPIServer) -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))

    def fail(error: APIError | None) -> None:
        raise ZeroDivisionError

    async with lane_to(server) as bench:
        bench.lane.submit(Binding("default", "a", "u", "n"), fail)
        assert await bench.bind("b") == [None]
    assert reported == ["the work after a binding raised"]


async def test_closing_the_client_leaves_nothing_behind(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", times=9, hang_s=5)
    async with lane_to(server) as bench:
        bench.submit("a", "b")
        await asyncio.sleep(0.02)
        await bench.lane.cancel()
    assert list(bench.outcomes.values()) == [[], []]


async def test_a_try_that_hangs_is_given_up_once_the_binding_is_decided_without_it(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", hang_s=3600.0)
    async with lane_to(server) as bench:
        bench.submit("a")
        await until(lambda: bench.outcomes["a"], "the repeat is answered")
        assert bench.outcomes["a"] == [None]
        slots = bench.client._slots
        assert (slots.under_way, slots.overdue) == (0, 0)


async def test_what_waits_when_the_client_is_closed_is_not_lost(server: FakeAPIServer) -> None:
    server.fail("POST", "/binding", times=2, hang_s=5)
    async with lane_to(server, limit=2) as bench:
        bench.submit("a", "b", "c", "d")
        await asyncio.sleep(0.02)
    assert await bench.lane.drain(0.05) == 4  # undecided: each is with the binder
    assert len(bench.lane._tasks) == 4
    await bench.lane.cancel()


# --- in memory --------------------------------------------------------------------------------------------------


def in_memory(
    scenario: Callable[[Cluster, ClusterClient, BindLane], Awaitable[None]], latency: Latency | None = None
) -> None:
    async def main() -> None:
        cluster = Cluster(LoopClock(asyncio.get_running_loop()))
        for number in range(5):
            cluster.create_pod(make_pod(f"p{number}").uid(f"uid-p{number}").obj())
        client = cluster.client(latency=latency)
        lane = BindLane(client, Binder(client, random.Random(1)))
        await scenario(cluster, client, lane)

    run_virtual(main())


def submit(lane: BindLane, number: int, outcomes: list[APIError | None], node: str = "n1") -> None:
    lane.submit(Binding("default", f"p{number}", f"uid-p{number}", node), outcomes.append)


def test_the_cluster_in_memory_answers_in_the_next_step() -> None:
    async def scenario(cluster: Cluster, client: ClusterClient, lane: BindLane) -> None:
        outcomes: list[APIError | None] = []
        for number in range(5):
            submit(lane, number, outcomes)
        submit(lane, 0, outcomes, "n2")
        assert outcomes == []
        await asyncio.sleep(0)
        assert outcomes[:5] == [None] * 5
        assert isinstance(outcomes[5], Conflict)
        assert {entry.spec.node_name for entry in cluster.pods.values()} == {"n1"}

    in_memory(scenario)


def test_latency_applies_to_the_lane() -> None:
    async def scenario(cluster: Cluster, client: ClusterClient, lane: BindLane) -> None:
        outcomes: list[APIError | None] = []
        submit(lane, 0, outcomes)
        submit(lane, 1, outcomes)
        assert await lane.drain(60) == 0
        assert outcomes == [None, None]
        assert asyncio.get_running_loop().time() == 2.0

    in_memory(scenario, Latency(bind_s=2.0))


def test_faults_apply_to_the_lane() -> None:
    async def scenario(cluster: Cluster, client: ClusterClient, lane: BindLane) -> None:
        outcomes: list[APIError | None] = []
        client.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        client.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.BIND, count=1, skip=1)
        for number in range(5):
            submit(lane, number, outcomes)
        assert await lane.drain(60) == 0
        assert outcomes == [None] * 5
        assert client.faults.struck(FaultKind.LOST_ANSWER) == 1

    in_memory(scenario)


def test_an_apiserver_that_is_down_is_waited_for() -> None:
    async def scenario(cluster: Cluster, client: ClusterClient, lane: BindLane) -> None:
        outcomes: list[APIError | None] = []
        submit(lane, 0, outcomes)
        cluster.stop()
        submit(lane, 1, outcomes)
        asyncio.get_running_loop().call_later(30, cluster.start)
        assert await lane.drain(5) == 2
        assert outcomes == []
        assert await lane.drain(60) == 0
        assert outcomes == [None, None]

    in_memory(scenario)
