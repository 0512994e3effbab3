"""What guests do in binding cycles is done beside the event loop, on the pod's own instance, one call at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from kscheduler.input.redaction import SecretURL
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.controlplane.patience import until
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.batch.version import Surroundings
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import FaultKind, GuestFault
from tests.support.clocks import ManualClock
from tests.wasm.batch.fake_guest import FakeModule, ListGuest
from tests.wasm.batch.fake_guests import FakeLoaded, made_of
from tests.wasm.batch.plugins import URL, Made, info, make_table, one

POINTS = ("reserve", "unreserve", "permit", "preBind", "postBind")
POD = info(make_pod("web"))
NAMES = {"table": ["names"], "depends": ["node"]}


@pytest.fixture
def threads() -> Iterator[BindingThreads]:
    made = BindingThreads()
    yield made
    made.close()


class Slow:
    """Answers of a guest that stays in one point until it may go on, and then says what it is to say."""

    def __init__(self, point: Point, answer: Any = None) -> None:
        self.point = point
        self.says = answer
        self.order: list[str] = []
        self.may_go_on = threading.Event()

    def __call__(self, guest: ListGuest, point: int, question: Any) -> Any:
        if point != self.point:
            self.order.append(Point(point).word)
            return {}
        self.order.append("begins")
        self.may_go_on.wait()
        self.order.append("ends")
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def __deepcopy__(self, memo: object) -> Slow:
        return self


def beside(answer: Any, threads: BindingThreads | None, policy: str = "fail") -> Made:
    arguments = WasmArguments(guest_url=SecretURL(URL), failure_policy=policy)
    around = Surroundings(clock=ManualClock(), threads=threads)
    return Made(FakeModule(ListGuest(POINTS, NAMES, answer)), make_table(), arguments, around)


DEADLINE = GuestFault(FaultKind.DEADLINE, "it did not answer within 20 ms")


@pytest.mark.parametrize("policy", ["fail", "ignore"])
async def test_the_loop_runs_on_while_a_guest_takes_its_whole_deadline(policy: str, threads: BindingThreads) -> None:
    slow = Slow(Point.PRE_BIND, DEADLINE)
    made, state = beside(slow, threads, policy), CycleState()
    made.plugin.reserve(state, POD, "a")
    asked = asyncio.ensure_future(made.plugin.pre_bind(state, POD, "a"))
    await until(lambda: "begins" in slow.order)
    slow.order.append("another pod is decided")
    slow.may_go_on.set()
    if policy == "fail":
        with pytest.raises(GuestFault, match="20 ms"):
            await asked
    else:
        assert await asked is None
    assert slow.order == ["reserve", "begins", "another pod is decided", "ends"]
    assert made.plugin.pool.instances == 0
    made.plugin.unreserve(state, POD, "a")
    await until(lambda: made.plugin.pool.holders == 0)


@pytest.mark.parametrize(("end", "point"), [("post_bind", Point.POST_BIND), ("unreserve", Point.UNRESERVE)])
async def test_the_last_word_about_a_pod_does_not_hold_the_loop_up(
    end: str, point: Point, threads: BindingThreads
) -> None:
    slow = Slow(point)
    made, state = beside(slow, threads), CycleState()
    made.plugin.reserve(state, POD, "a")
    getattr(made.plugin, end)(state, POD, "a")
    await until(lambda: "begins" in slow.order)
    assert made.plugin.pool.holders == 1  # the guest is still at it
    # The pod is tried again meanwhile: with another instance.
    made.plugin.reserve(CycleState(), POD, "b")
    assert (made.plugin.pool.holders, len(made.module.made)) == (2, 3)  # the first one described itself
    slow.may_go_on.set()
    await until(lambda: made.plugin.pool.holders == 1)
    assert slow.order == ["reserve", "begins", "reserve", "ends"]


async def test_a_call_that_nobody_waits_for_any_more_ends_before_the_next_one_begins(threads: BindingThreads) -> None:
    slow = Slow(Point.PRE_BIND)
    made, state = beside(slow, threads), CycleState()
    made.plugin.reserve(state, POD, "a")
    asked = asyncio.ensure_future(made.plugin.pre_bind(state, POD, "a"))
    await until(lambda: "begins" in slow.order)
    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked
    made.plugin.unreserve(state, POD, "a")
    await asyncio.sleep(0)
    assert slow.order == ["reserve", "begins"]
    slow.may_go_on.set()
    await until(lambda: made.plugin.pool.holders == 0)
    assert slow.order == ["reserve", "begins", "ends", "unreserve"]
    assert made.plugin.pool.instances == 1  # no fault cost it


async def test_a_pod_keeps_its_instance_and_its_state(threads: BindingThreads) -> None:
    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        recorded = question["pods"][0].get("state", b"")
        assert recorded == b"".join(bytes([each]) for each, _ in guest.calls[:-1])
        assert guest.rows[question["row"]]["names"] == question["node"]
        return one(state=recorded + bytes([point]))

    made = beside(answer, threads)

    async def go(name: str) -> None:
        pod, state = info(make_pod(name)), CycleState()
        assert made.plugin.reserve(state, pod, "a") is None
        assert made.plugin.permit(state, pod, "a") == (None, 0.0)
        made.table.set_node(make_node(f"of-{name}").obj())
        assert await made.plugin.pre_bind(state, pod, f"of-{name}") is None
        made.plugin.post_bind(state, pod, "a")

    await asyncio.gather(*(go(f"p{number}") for number in range(20)))
    await until(lambda: made.plugin.pool.holders == 0)
    guests = [each.guest for each in made.module.made if each.guest.calls]
    assert [[point for point, _ in each.calls] for each in guests] == [
        [Point.RESERVE, Point.PERMIT, Point.PRE_BIND, Point.POST_BIND]
    ] * 20


async def test_what_a_guest_says_beside_the_loop_is_read_as_strictly(threads: BindingThreads) -> None:
    answers: dict[str, Any] = {"out": one(status=[2, "no"]), "sick": {"error": "sick"}, "mad": one(status=[77])}

    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        return answers[question["node"]] if point == Point.PRE_BIND else {}

    made = beside(answer, threads)
    assert await made.plugin.pre_bind(CycleState(), POD, "out") == Status(Code.UNSCHEDULABLE, ("no",))
    with pytest.raises(Exception, match="sick"):
        await made.plugin.pre_bind(CycleState(), POD, "sick")
    with pytest.raises(GuestFault, match="expected one of the codes"):
        await made.plugin.pre_bind(CycleState(), POD, "mad")


async def test_in_a_simulation_guests_run_on_the_callers_thread() -> None:
    ran_on: list[int] = []

    def answer(guest: ListGuest, point: int, question: Any) -> Any:
        ran_on.append(threading.get_ident())

    made, state = beside(answer, None), CycleState()
    made.plugin.reserve(state, POD, "a")
    await made.plugin.pre_bind(state, POD, "a")
    made.plugin.post_bind(state, POD, "a")
    assert ran_on == [threading.get_ident()] * 3


def test_a_binding_ends_on_the_version_it_began_with() -> None:
    loaded = FakeLoaded(ListGuest(POINTS))
    plugin = made_of(loaded).plugin
    state, old = CycleState(), plugin.pool
    plugin.reserve(state, POD, "a")
    fresh = loaded.of(ListGuest(POINTS), "digest")
    plugin.try_out(fresh)
    plugin.replace(fresh)
    plugin.post_bind(state, POD, "a")
    assert (old.holders, old.instances, plugin.pool.instances) == (0, 0, 0)
