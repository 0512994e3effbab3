"""Bindings and their answers: definite ones end the binding, all others have it written again."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Pod
from kscheduler.client.bind_tries import Tries
from kscheduler.client.binder import LONGEST_PAUSE_S, Binder
from kscheduler.client.protocol import Binding, BindTry
from kscheduler.errors import APIError, Conflict, Forbidden, NotFound, NotLeading
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_pod
from tests.support.election import Follower


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


@pytest.mark.parametrize("kind", [FaultKind.CONFLICT, FaultKind.NOT_FOUND, FaultKind.GONE, FaultKind.FAILED_WEBHOOK])
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


def test_behind_a_webhook_that_hangs_the_tries_that_are_open_are_waited_for_and_no_other_is_begun() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.FAILED_WEBHOOK, Verb.BIND, delay_s=10.0)
        tries = Tries()
        first = tries.begin()
        binding = asyncio.ensure_future(bench.binder.bind(bench.binding(), tries))
        await asyncio.sleep(1.0)
        first.is_late()
        await asyncio.sleep(9.0)
        sent = bench.faults.struck(FaultKind.FAILED_WEBHOOK)  # beside the late one
        first.ended(APIError('Internal error occurred: failed calling webhook "w": timed out', status=500))
        with pytest.raises(APIError, match="failed calling webhook"):
            await asyncio.wait_for(binding, 60.0)
        assert bench.faults.struck(FaultKind.FAILED_WEBHOOK) == sent

    run_virtual(scenario())


def test_a_failed_webhook_decides_nothing_about_an_earlier_try_that_may_have_been_carried_out() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.BIND, count=1)
        bench.faults.add(FaultKind.FAILED_WEBHOOK, Verb.BIND, count=5)
        await bench.bind()
        assert bench.node == "n1"

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


def test_a_pod_deleted_or_created_again_after_a_lost_answer_is_not_bound() -> None:
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


# What a server says that does not know what became of an earlier try.
SAYS_NOTHING = [
    FaultKind.BAD_REQUEST,
    FaultKind.UNAUTHORIZED,
    FaultKind.FORBIDDEN,
    FaultKind.NO_SUCH_PATH,
    FaultKind.CONFLICT,
    FaultKind.GONE,
    FaultKind.TOO_MANY_REQUESTS,
    FaultKind.SERVER_ERROR,
    FaultKind.UNAVAILABLE,
    FaultKind.UNREADABLE,
    FaultKind.TIMEOUT,
]


@pytest.mark.parametrize("kind", SAYS_NOTHING)
@pytest.mark.parametrize("looks_too", [False, True])
@pytest.mark.parametrize("was_carried_out", [False, True])
def test_in_doubt_no_answer_but_one_about_the_pod_ends_a_binding(
    kind: FaultKind, looks_too: bool, was_carried_out: bool
) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.LOST_ANSWER if was_carried_out else FaultKind.TIMEOUT, Verb.BIND, count=1)
        bench.faults.add(kind, Verb.BIND, count=8)
        if looks_too and kind is not FaultKind.NOT_FOUND:
            bench.faults.add(kind, Verb.GET_POD, count=8)
        await bench.bind()
        assert bench.node == "n1"

    run_virtual(scenario())


@pytest.mark.parametrize("kind", [FaultKind.FORBIDDEN, FaultKind.UNAUTHORIZED, FaultKind.BAD_REQUEST, FaultKind.GONE])
def test_refused_for_an_hour_a_binding_in_doubt_is_still_written(kind: FaultKind) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=1)
        bench.faults.add(kind, [Verb.BIND, Verb.GET_POD])
        loop = asyncio.get_running_loop()
        binding = asyncio.ensure_future(bench.bind())
        await asyncio.sleep(3600.0)
        assert not binding.done()
        bench.faults.clear()
        await binding
        assert loop.time() < 3600.0 + 1.5 * LONGEST_PAUSE_S
        assert bench.node == "n1"

    run_virtual(scenario())


def test_an_answer_that_is_another_object_says_nothing_about_the_pod() -> None:
    class Strange:
        """Answers the first looks with what a balancer or a broken proxy may send with status 200."""

        def __init__(self, bench: Bench) -> None:
            self._bench = bench
            self.answers = [Pod(), make_pod("another").obj(), make_pod("p", "elsewhere").uid("u").obj()]

        async def bind(self, binding: Binding, attempt: BindTry) -> None:
            await self._bench.client.bind(binding, attempt)

        async def get_pod(self, namespace: str, name: str) -> Pod:
            return self.answers.pop() if self.answers else await self._bench.client.get_pod(namespace, name)

    async def scenario() -> None:
        bench = Bench()
        strange = Strange(bench)
        bench.binder = Binder(strange, random.Random(1))  # type: ignore[arg-type]  # the methods that are called
        bench.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        await bench.bind()
        assert bench.node == "n1"
        assert strange.answers == []

    run_virtual(scenario())


def test_a_pod_that_is_being_deleted_will_not_be_bound_any_more() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=1)
        bench.faults.add(FaultKind.CONFLICT, Verb.BIND)
        bench.cluster.delete_pod("default/p", gracefully=True)
        with pytest.raises(Conflict):
            await bench.bind()

    run_virtual(scenario())


def test_a_doubt_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        bench.faults.add(FaultKind.FORBIDDEN, [Verb.BIND, Verb.GET_POD], count=50)
        await bench.bind()

    run_virtual(scenario())
    assert len([record for record in caplog.records if "outcome of a binding" in record.message]) == 1


FATES = st.sampled_from(
    [*SAYS_NOTHING, FaultKind.LOST_ANSWER, FaultKind.SLOW, FaultKind.NOT_FOUND]
)  # of a POST; NOT_FOUND there means that some server answered so


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(FATES, st.sampled_from([0.0, 0.3, 1.2, 5.0, 40.0])), max_size=12),
    st.lists(st.sampled_from(SAYS_NOTHING), max_size=8),
    st.sampled_from(["", "deleted", "recreated", "bound elsewhere"]),
    st.floats(0.0, 8.0),
)
def test_whatever_is_answered_a_binding_that_was_carried_out_is_never_reported_as_failed_for_certain(
    posts: list[tuple[FaultKind, float]], looks: list[FaultKind], happens: str, when_s: float
) -> None:
    async def scenario() -> None:
        bench = Bench()
        for kind, delay_s in posts:
            bench.faults.add(kind, Verb.BIND, count=1, delay_s=delay_s)
        for kind in looks:
            bench.faults.add(kind, Verb.GET_POD, count=1)
        uid = bench.pod.metadata.uid

        def happen() -> None:
            if happens == "bound elsewhere":
                with contextlib.suppress(Conflict):
                    bench.cluster.bind(bench.binding("n2"))
            elif happens:
                bench.cluster.delete_pod("default/p")
                if happens == "recreated":
                    bench.cluster.create_pod(make_pod("p").uid("another").obj())

        asyncio.get_running_loop().call_later(when_s, happen)
        try:
            await bench.bind()
        except APIError:
            # Certainly not, now and whatever was still under way.
            await asyncio.sleep(120.0)
            pod = bench.cluster.pods.get("default/p")
            assert pod is None or pod.metadata.uid != uid or pod.spec.node_name != "n1"
        else:
            versions = bench.cluster.pods.get("default/p")
            assert happens or (versions is not None and versions.spec.node_name == "n1")
        pod = bench.cluster.pods.get("default/p")
        assert pod is None or pod.metadata.uid == uid or not pod.spec.node_name  # never the namesake

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

        async def bind(self, binding: Binding, attempt: BindTry) -> None:
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
        asyncio.get_running_loop().call_later(0.05, bench.binder.permission.depend_on, Follower())
        with pytest.raises(NotLeading):
            await bench.bind()
        assert bench.faults.struck(FaultKind.TIMEOUT) == 1
        assert bench.node == ""

    run_virtual(scenario())


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_fault_of_the_program_leaves_a_binding_in_doubt_until_the_pod_was_looked_at(
    is_bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        bench = Bench()
        write, read = bench.client.bind, bench.client.get_pod
        tries, looks = 0, 0

        async def bind(binding: Binding, attempt: BindTry) -> None:
            nonlocal tries
            tries += 1
            if is_bound and tries == 1:
                await write(binding, attempt)
            if is_bound or tries < 3:
                raise ZeroDivisionError
            await write(binding, attempt)

        async def get_pod(namespace: str, name: str) -> Pod:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise KeyError(name)
            return await read(namespace, name)

        monkeypatch.setattr(bench.client, "bind", bind)
        monkeypatch.setattr(bench.client, "get_pod", get_pod)
        await bench.bind()
        assert bench.node == "n1"
        assert (tries, looks) == ((2, 2) if is_bound else (3, 2))

    run_virtual(scenario())


def test_a_fault_of_the_program_in_each_try_is_logged_at_once_and_then_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def scenario() -> None:
        bench = Bench()

        async def fail(binding: Binding, attempt: BindTry) -> None:
            nonlocal tries
            tries += 1
            raise ZeroDivisionError

        monkeypatch.setattr(bench.client, "bind", fail)
        task = asyncio.ensure_future(bench.bind())
        await asyncio.sleep(155.0)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(scenario())
    assert tries > 80
    # Now, and after pauses of 10, 20, 40 and 80 s, each up to the next try.
    records = [record for record in caplog.records if "while a binding was written" in record.message]
    assert len(records) == 5
    assert all(record.exc_info for record in records)
    assert 0.9 * tries < sum(record.__dict__["not_logged_meanwhile"] for record in records) + len(records) <= tries
