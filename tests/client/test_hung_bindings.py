"""Bindings through a balancer, in virtual time: some hang, or one apiserver behind it does, or all are slow.

The lane, the binder, the client and its slots are the real ones; what carries their requests is a model of keep-alive
connections, each of which a balancer has led to one of several apiservers.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.client.connections import Carrier, Connection
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kube import KubeClient
from kscheduler.client.protocol import Binding
from kscheduler.client.request_observer import NoObserver
from kscheduler.client.transport import Sent, Transport, status_error
from kscheduler.errors import APIError, Unreachable
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.client.fake_apiserver import pod
from tests.client.protobuf import decode, unwrap
from tests.support.clocks import ManualClock
from tests.support.waits import until

ANSWER_S = 0.005
HANGS_S = 1e9  # longer than any timeout


class Held:
    """A connection as the pool sees it."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.is_trusted = True
        self.carried = 0  # requests
        self.task: asyncio.Task[Any] | None = None  # that is under way on it

    def distrust(self) -> None:
        self.is_trusted = False

    def abandon(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Balanced:
    """Stands where `Transport` would. `takes_s` says how long a request takes, by verb, pod and apiserver.

    A connection ends after `requests_each`, as balancers and apiservers see to; the next leads to the next apiserver.
    """

    is_direct = True
    credentials = Credentials(Endpoint("http://balancer", None), ManualClock())
    host = "balancer"
    observer = NoObserver()

    def __init__(
        self, takes_s: Callable[[str, str, int], float], servers: int = 1, requests_each: float = math.inf
    ) -> None:
        self._takes_s = takes_s
        self._requests_each = requests_each
        self._next_server = itertools.cycle(range(servers))
        self._idle: list[Held] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.nodes: dict[str, str] = {}  # pod -> the node it was bound to
        self.bound_s: dict[str, float] = {}
        self.asked: dict[str, set[str]] = {}  # pod -> nodes of which a binding asked
        self.is_carried_out_first = False  # and what hangs is the answer
        self.lost: set[str] = set()  # pods whose requests get no answer at once
        self.under_way = 0
        self.most_under_way = 0
        self.served: Counter[int] = Counter()

    async def request(self, verb: str, path: str, *, timeout_s: float, body: bytes | None = None, **what: Any) -> bytes:
        name = path.split("/")[6]
        held = self._idle.pop() if self._idle else Held(next(self._next_server))
        held.task = asyncio.current_task()
        carrier: Carrier | None = what.get("carrier")
        if carrier is not None:
            carrier.take(cast(Connection, held))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            takes_s = self._takes_s(verb, name, held.server)
            if self.is_carried_out_first and body is not None:
                status = self._bind(name, body)
                await self._pass(takes_s, timeout_s)
            else:
                await self._pass(takes_s, timeout_s)
                status = self._bind(name, body) if body is not None else 200
        finally:
            self.under_way -= 1
            held.task = None
        if name in self.lost:
            raise Unreachable("connection reset")
        self.served[held.server] += 1
        held.carried += 1
        if held.is_trusted and held.carried < self._requests_each:
            self._idle.append(held)
        if status >= 300:
            raise status_error(verb, path, status, b"")
        spec: dict[str, Any] = {"nodeName": self.nodes[name]} if name in self.nodes else {}
        return msgspec.json.encode(pod(name, **spec))

    async def _pass(self, takes_s: float, timeout_s: float) -> None:
        await asyncio.sleep(min(takes_s, timeout_s))
        if takes_s > timeout_s:
            raise Unreachable("timed out")

    def _bind(self, name: str, body: bytes) -> int:
        node = cast(bytes, decode(unwrap(body, b"v1", b"Binding")[2])[3]).decode()
        self.asked.setdefault(name, set()).add(node)
        if name in self.nodes:
            return 409
        self.nodes[name] = node
        self.bound_s[name] = asyncio.get_running_loop().time()
        return 201

    def send(self, sent: Sent, body: bytes, content_type: str, accept: str, timeout_s: float) -> None:
        async def ask() -> None:
            error: APIError | None = None
            try:
                await self.request("POST", sent.path, timeout_s=timeout_s, body=body, carrier=sent)
            except APIError as refusal:
                error = refusal
            sent.answered(error)

        task = asyncio.ensure_future(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Bench:
    def __init__(self, balanced: Balanced, limit: int = 100) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        client = KubeClient(Credentials(Endpoint("http://balancer", None), clock), clock, qps=-1.0)
        client._transport = cast(Transport, balanced)
        self.balanced = balanced
        self.lane = BindLane(client, Binder(client, random.Random(1)), limit=limit)
        self.outcomes: dict[str, APIError | None] = {}

    async def submit(self, names: list[str]) -> None:
        """Each when the lane has room, as decisions are made."""
        for name in names:
            await until(lambda: self.lane.has_room, within_s=3600.0)
            self.lane.submit(Binding("default", name, f"uid-{name}", f"node-of-{name}"), self._noting(name))

    def _noting(self, name: str) -> Callable[[APIError | None], None]:
        def note(error: APIError | None) -> None:
            assert name not in self.outcomes
            self.outcomes[name] = error

        return note


def in_virtual_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario())


NAMES = [f"p{number}" for number in range(155)]


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("hung", [NAMES[:15], NAMES[:50], random.Random(3).sample(NAMES, 50), NAMES[-50:]])
def test_bindings_that_hang_for_ever_do_not_stop_the_others(hung: list[str], carried_out: bool) -> None:
    async def scenario() -> None:
        never = set(hung)
        balanced = Balanced(lambda verb, name, server: HANGS_S if verb == "POST" and name in never else ANSWER_S)
        balanced.is_carried_out_first = carried_out
        # No more slots than hung ones: unless those that hang free them, the one that comes last is not bound.
        bench = Bench(balanced, limit=len(hung))
        names = [*NAMES, "last"]
        submitting = asyncio.ensure_future(bench.submit(names))
        await asyncio.sleep(3.0)
        others = set(names) - never
        assert {name for name in others if bench.outcomes.get(name, Unreachable("")) is None} == others
        await submitting
        assert len(bench.lane) == len(never)
        assert not never & bench.outcomes.keys()
        await bench.lane.cancel()

    in_virtual_time(scenario)


def test_bindings_in_doubt_that_meet_wrong_answers_for_ever_do_not_stop_the_others() -> None:
    async def scenario() -> None:
        balanced = Balanced(lambda verb, name, server: ANSWER_S)
        doubtful = set(NAMES[:50])
        balanced.lost = doubtful
        bench = Bench(balanced)
        submitting = asyncio.ensure_future(bench.submit(NAMES))
        await asyncio.sleep(10.0)
        assert set(NAMES) - doubtful == bench.outcomes.keys()
        await submitting
        await bench.lane.cancel()

    in_virtual_time(scenario)


def test_one_apiserver_of_three_that_hangs_costs_a_third_at_most() -> None:
    def bound_in(seconds: float, hanging: set[int]) -> int:
        bound = 0

        async def scenario() -> None:
            nonlocal bound
            balanced = Balanced(lambda verb, name, server: HANGS_S if server in hanging else 0.02, 3, requests_each=100)
            bench = Bench(balanced, limit=16)
            submitting = asyncio.ensure_future(bench.submit([f"p{number}" for number in range(1_000_000)]))
            await asyncio.sleep(seconds)
            submitting.cancel()
            await bench.lane.cancel()
            bound = len(bench.outcomes)
            assert set(bench.outcomes.values()) == {None}

        in_virtual_time(scenario)
        return bound

    # Long enough that each slot meets the apiserver that hangs, and would wait there until the request times out.
    healthy = bound_in(20.0, set())
    assert healthy > 4000
    assert bound_in(20.0, {1}) >= 2 / 3 * healthy


def test_an_apiserver_that_begins_to_hang_delays_a_binding_by_little_more_than_a_second() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        met: set[str] = set()

        def takes_s(verb: str, name: str, server: int) -> float:
            if server != 1 or loop.time() < 2.0:
                return ANSWER_S
            met.add(name)
            return HANGS_S

        bench = Bench(Balanced(takes_s, servers=3, requests_each=50))
        submitted_s: dict[str, float] = {}
        for number in range(1000):
            name = f"p{number}"
            submitted_s[name] = loop.time()
            await bench.submit([name])
            await asyncio.sleep(0.005)
        assert await bench.lane.drain(60.0) == 0
        assert set(bench.outcomes.values()) == {None}
        assert met, "no connection led to the apiserver that hangs"
        waited = sorted(bench.balanced.bound_s[name] - at for name, at in submitted_s.items())
        assert waited[-1] < 2.5  # a first try and a repeat, both overdue
        assert waited[-20] < 0.1
        await bench.lane.cancel()

    in_virtual_time(scenario)


def test_the_late_answer_of_a_first_try_counts_whatever_became_of_the_repeat() -> None:
    async def scenario() -> None:
        posts: Counter[str] = Counter()

        def takes_s(verb: str, name: str, server: int) -> float:
            posts[name] += verb == "POST"
            if name != "slow":
                return ANSWER_S
            return 5.0 if posts[name] == 1 else HANGS_S

        bench = Bench(Balanced(takes_s))
        await bench.submit(["slow", *NAMES])
        while "slow" not in bench.outcomes:  # noqa: ASYNC110 -- virtual time
            await asyncio.sleep(0.1)
        assert bench.outcomes["slow"] is None
        assert asyncio.get_running_loop().time() < 5.2
        assert posts["slow"] > 1
        await bench.lane.cancel()

    in_virtual_time(scenario)


def test_a_late_conflict_after_the_repeat_succeeded_changes_nothing() -> None:
    async def scenario() -> None:
        posts: Counter[str] = Counter()

        def takes_s(verb: str, name: str, server: int) -> float:
            posts[name] += verb == "POST"
            return 3.0 if name == "slow" and posts[name] == 1 else ANSWER_S

        bench = Bench(Balanced(takes_s))
        await bench.submit(["slow", *NAMES])
        await asyncio.sleep(10.0)
        assert bench.outcomes["slow"] is None
        assert posts["slow"] == 2
        assert len(bench.outcomes) == 1 + len(NAMES)
        assert len(bench.lane) == 0

    in_virtual_time(scenario)


def test_an_apiserver_that_is_slow_for_all_gets_few_more_requests_than_it_answers() -> None:
    async def scenario() -> None:
        bench = Bench(Balanced(lambda verb, name, server: 4.0), limit=40)
        submitting = asyncio.ensure_future(bench.submit([f"p{number}" for number in range(600)]))
        await submitting
        assert await bench.lane.drain(600.0) == 0
        assert set(bench.outcomes.values()) == {None}
        assert bench.balanced.most_under_way <= 3 * 40

    in_virtual_time(scenario)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from([ANSWER_S, 0.5, 1.5, 6.0, 35.0]), max_size=8),
    st.booleans(),
    st.integers(1, 12),
)
def test_whatever_is_late_each_pod_is_bound_once_and_where_it_was_to_be(
    delays: list[float], carried_out: bool, limit: int
) -> None:
    async def scenario() -> None:
        source = random.Random(len(delays))
        balanced = Balanced(lambda verb, name, server: source.choice([ANSWER_S, *delays]), servers=2)
        balanced.is_carried_out_first = carried_out
        bench = Bench(balanced, limit)
        await bench.submit(NAMES[:30])
        assert await bench.lane.drain(3600.0) == 0
        assert bench.outcomes == dict.fromkeys(NAMES[:30])
        await bench.lane.cancel()
        assert all(nodes == {f"node-of-{name}"} for name, nodes in balanced.asked.items())

    in_virtual_time(scenario)
