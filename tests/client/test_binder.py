"""Bindings and their answers: definite ones end the binding, all others have it written again."""

from __future__ import annotations

import asyncio
import random

import pytest

from kscheduler.client.binder import LONGEST_PAUSE_S, Binder
from kscheduler.client.protocol import Binding
from kscheduler.errors import APIError, Conflict, Forbidden, NotFound, NotLeading
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_pod


class Bench:
    def __init__(self) -> None:
        self.cluster = Cluster(LoopClock(asyncio.get_running_loop()))
        self.client = self.cluster.client()
        self.faults = self.client.faults
        self.pod = self.cluster.create_pod(make_pod("p").obj())
        self.binder = Binder(self.client, random.Random(1))

    def binding(self, node: str = "n1") -> Binding:
        return Binding("default", "p", self.pod.metadata.uid, node)

    async def bind(self) -> float:
        """Seconds it took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self.binder.bind(self.binding())
        return loop.time() - started

    @property
    def node(self) -> str:
        return self.cluster.get_pod("default", "p").spec.node_name


def test_a_binding_that_works_takes_one_request() -> None:
    async def scenario() -> None:
        bench = Bench()
        assert await bench.bind() == 0
        assert bench.node == "n1"

    run_virtual(scenario())


@pytest.mark.parametrize("kind", [FaultKind.CONFLICT, FaultKind.NOT_FOUND, FaultKind.GONE])
def test_a_definite_refusal_is_raised_at_once(kind: FaultKind) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(kind, Verb.BIND)
        with pytest.raises(APIError, match="injected"):
            await bench.bind()
        assert asyncio.get_running_loop().time() == 0

    run_virtual(scenario())


def test_a_pod_bound_by_somebody_else_is_a_conflict() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.cluster.bind(bench.binding("n2"))
        with pytest.raises(Conflict, match="already assigned"):
            await bench.bind()

    run_virtual(scenario())


@pytest.mark.parametrize("kind", [FaultKind.TIMEOUT, FaultKind.SERVER_ERROR, FaultKind.TOO_MANY_REQUESTS])
def test_an_answer_that_decides_nothing_has_the_binding_written_again(kind: FaultKind) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(kind, Verb.BIND, count=4)
        seconds = await bench.bind()
        assert bench.node == "n1"
        # Pauses of 0.1, 0.2, 0.4, 0.8 s, each half as long or up to half as long again.
        assert 0.75 <= seconds <= 2.25

    run_virtual(scenario())


def test_pauses_grow_up_to_a_limit() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=40)
        assert await bench.bind() < 40 * LONGEST_PAUSE_S * 1.5

    run_virtual(scenario())


def test_a_server_that_says_when_to_come_back_is_obeyed() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.BIND, count=1, retry_after_s=4.0)
        assert await bench.bind() == 4.0

    run_virtual(scenario())


def test_a_conflict_after_a_lost_answer_is_our_own_binding_and_counts_as_success() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        await bench.bind()
        assert bench.node == "n1"

    run_virtual(scenario())


def test_a_conflict_after_a_lost_answer_with_another_node_is_somebody_elses() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=1)
        asyncio.get_running_loop().call_later(0.01, bench.cluster.bind, bench.binding("n2"))
        with pytest.raises(Conflict):
            await bench.bind()
        assert bench.node == "n2"

    run_virtual(scenario())


def test_a_pod_gone_or_made_anew_after_a_lost_answer_is_not_bound() -> None:
    async def scenario(again: bool) -> None:
        bench = Bench()
        bench.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)

        def replace_pod() -> None:
            bench.cluster.delete_pod("default/p")
            if again:
                bench.cluster.create_pod(make_pod("p").uid("another").obj())

        asyncio.get_running_loop().call_later(0.01, replace_pod)
        with pytest.raises(Conflict if again else NotFound):
            await bench.bind()

    run_virtual(scenario(again=False))
    run_virtual(scenario(again=True))


def test_whether_our_binding_counted_is_asked_until_there_is_an_answer() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.GET_POD, count=3)
        await bench.bind()
        assert bench.faults.struck(FaultKind.SERVER_ERROR) == 3

    run_virtual(scenario())


def test_a_conflict_without_a_doubt_before_it_asks_nothing() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.BIND, count=1)  # refused: certainly not carried out
        bench.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1)
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.GET_POD)
        with pytest.raises(Conflict):
            await bench.bind()
        assert bench.faults.struck(FaultKind.SERVER_ERROR) == 0

    run_virtual(scenario())


def test_an_apiserver_that_forbids_the_binding_is_not_asked_again() -> None:
    class Strict:
        asked = 0

        async def bind(self, binding: Binding) -> None:
            self.asked += 1
            raise Forbidden("pods/binding is forbidden", status=403)

    async def scenario() -> None:
        strict = Strict()
        bench = Bench()
        bench.binder = Binder(strict, random.Random(1))  # type: ignore[arg-type]  # the one method that is called
        with pytest.raises(Forbidden):
            await bench.bind()
        assert strict.asked == 1

    run_virtual(scenario())


def test_nothing_is_written_any_more_once_this_replica_may_not_bind() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=3)
        asyncio.get_running_loop().call_later(0.05, setattr, bench.binder, "may_bind", lambda: False)
        with pytest.raises(NotLeading):
            await bench.bind()
        assert bench.faults.struck(FaultKind.TIMEOUT) == 1
        assert bench.node == ""

    run_virtual(scenario())
