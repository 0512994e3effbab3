"""What a plugin from outside may answer, how long it may take, and what is reported when it goes too far."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from kscheduler._fast import Verdicts
from kscheduler.cache.cache import Cache
from kscheduler.client.concurrency import within
from kscheduler.errors import Conflict
from kscheduler.framework import (
    SKIP,
    Code,
    CycleState,
    Handle,
    PodInfo,
    PostFilterResult,
    PreFilterResult,
    Status,
    unschedulable,
)
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.fence import Exited, Fence, TookTooLong, Unreadable, WrongAnswer
from kscheduler.framework.interface import TableFilterPlugin, TableNormalizeScore, TableScorePlugin, extension_points
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.testing import make_node, make_pod

POD = PodInfo(make_pod("p").obj())


class Time:
    """A stopwatch that a test turns on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise AssertionError


def fence(stopwatch: Any = lambda: 0.0, **methods: Any) -> Any:
    """A fence around a plugin with these methods."""
    plugin = type("Plugin", (), {"name": "X", **methods})()
    limit = partial(within, leave_after_s=0.01)
    handle = Handle(NodeTable(), random.Random(0), bind_nothing, stopwatch=stopwatch, within=limit)
    return Fence(plugin, handle)


@pytest.fixture
def signals_are_handled_by_the_loop() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """As in a terminal: processes in the background of a shell ignore it, and Python leaves that so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def answering(method: str, answer: Any) -> Any:
    return fence(**{method: lambda self, *arguments: answer})


# --- answers ------------------------------------------------------------------------------------------------------

WAIT = Status(Code.WAIT)
ERROR = Status(Code.ERROR, ("broken",))
NO = unschedulable("no")
GOOD: dict[str, list[Any]] = {
    "pre_enqueue": [None, NO, ERROR],
    "pre_filter": [(None, None), (None, SKIP), (PreFilterResult(frozenset({"n"})), None), (None, NO)],
    "filter": [None, NO, Status(Code.SUCCESS), Status(Code.PENDING)],
    "explain": [NO],
    "post_filter": [(None, NO), (PostFilterResult("n"), None)],
    "pre_score": [None, SKIP],
    "score": [(0, None), (10**9, None), (True, None), (0, ERROR)],
    "reserve": [None, NO],
    "permit": [(None, 0.0), (WAIT, 1.5), (NO, 0.0)],
    "pre_bind_pre_flight": [None, SKIP],
    "post_bind": [None, "whatever"],
    "unreserve": [None, "whatever"],
}
BAD: dict[str, list[Any]] = {
    "pre_enqueue": ["no", False, SKIP, WAIT, (None, None)],
    "pre_filter": [
        None,
        (None,),
        ("n", None),
        (None, "no"),
        (None, WAIT),
        [None, None],
        (PreFilterResult(5), None),  # type: ignore[arg-type]
        (PreFilterResult("n1"), None),  # type: ignore[arg-type]
    ],
    "filter": [5, True, SKIP, WAIT, (None, None), Status(Code.UNSCHEDULABLE, "no")],  # type: ignore[arg-type]
    "explain": [None, SKIP, Status(Code.SUCCESS)],
    "post_filter": [None, (PreFilterResult(), None), (None, SKIP), (PostFilterResult(5), None)],  # type: ignore[arg-type]
    "pre_score": [WAIT, {}],
    "score": [None, 5, (1.5, None), (float("nan"), None), ("5", None), (10**30, None), (None, None), (5, 5)],
    "reserve": [SKIP, "n"],
    "permit": [None, WAIT, (WAIT, None), (WAIT, float("nan")), (WAIT, -1), (SKIP, 0.0)],
    "pre_bind_pre_flight": [NO.reasons],
}


@pytest.mark.parametrize(("method", "answer"), [(method, answer) for method, those in GOOD.items() for answer in those])
def test_right_answers_pass(method: str, answer: Any) -> None:
    assert getattr(answering(method, answer), method)(CycleState(), POD, "n") == answer


@pytest.mark.parametrize(("method", "answer"), [(method, answer) for method, those in BAD.items() for answer in those])
def test_a_wrong_answer_says_what_was_expected_and_what_came(method: str, answer: Any) -> None:
    with pytest.raises(WrongAnswer, match=r"^expected .*, got "):
        getattr(answering(method, answer), method)(CycleState(), POD, "n")


class Text(str):
    """As numpy has one: it has no JSON."""


@pytest.mark.parametrize("reason", ["no \ud800", Text("no \ufffd")])
def test_reasons_that_nobody_could_send_become_plain_texts(reason: str) -> None:
    found = answering("filter", unschedulable("first", reason)).filter(CycleState(), POD, "n")
    assert found == unschedulable("first", "no \ufffd")
    assert [type(each) for each in found.reasons] == [str, str]


def test_names_of_nodes_become_a_set_of_names_and_plain_texts() -> None:
    listed: Any = ["n1", "n2"]
    narrowed, _ = answering("pre_filter", (PreFilterResult(listed), None)).pre_filter(CycleState(), POD)
    assert narrowed == PreFilterResult(frozenset({"n1", "n2"}))
    nominated, _ = answering("post_filter", (PostFilterResult(Text("n1")), None)).post_filter(CycleState(), POD, {})
    assert type(nominated.nominated_node_name) is str


class Textless(Exception):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised


UNREADABLE = {
    r"^Textless: \(its text raises ValueError\)$": Textless(ValueError()),
    r"^Textless: \(its text raises SystemExit\)$": Textless(SystemExit(4)),
    "^ValueError: no \ufffd$": ValueError("no \ud800"),
}


@pytest.mark.parametrize("message", UNREADABLE)
async def test_an_exception_whose_text_cannot_be_read_or_sent_has_another_one(
    message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kscheduler.framework.fence")  # pytest's own processes cannot send it either

    async def fail() -> None:
        raise UNREADABLE[message]

    with pytest.raises(Unreadable, match=message):
        fence(filter=raising(UNREADABLE[message])).filter(CycleState(), POD, "n")
    with pytest.raises(Unreadable, match=message):
        await coroutine(fail).bind(CycleState(), POD, "n")


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*arguments: object) -> None:
        raise error

    return call


@pytest.mark.usefixtures("signals_are_handled_by_the_loop")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_look_at_an_answer_that_ends_the_process_is_an_exception_like_others(error: BaseException) -> None:
    asked = True  # later looks, such as those of tests that count objects, do no harm

    def look(self: object) -> type:
        if asked:
            raise error
        return type(self)

    class Answer:
        __class__ = property(look)

    with pytest.raises(Exited):
        answering("filter", Answer()).filter(CycleState(), POD, "n")
    asked = False


# --- queueing hints -----------------------------------------------------------------------------------------------


def hinting(*hints: Any) -> Any:
    registered = [Registration(ClusterEvent(EventResource.NODE, Action.ADD), hint) for hint in hints]
    return fence(events_to_register=lambda self: [ClusterEvent(EventResource.POD, Action.ALL), *registered])


@pytest.mark.usefixtures("signals_are_handled_by_the_loop")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_a_hint_that_would_end_the_process_or_a_watch_raises_an_exception_like_others(error: BaseException) -> None:
    _, registered = hinting(raising(error)).events_to_register()
    with pytest.raises(Exited):
        registered.hint(POD.pod, None, None)


def test_what_a_hint_returns_is_true_or_false() -> None:
    class Array:
        def __bool__(self) -> bool:
            raise ValueError("the truth of an array is ambiguous")

    _, *registered = hinting(*(lambda *_, answer=answer: answer for answer in (1, None, Array()))).events_to_register()
    assert registered[0].hint(POD.pod, None, None) is True
    assert registered[1].hint(POD.pod, None, None) is False
    with pytest.raises(ValueError, match="ambiguous"):
        registered[2].hint(POD.pod, None, None)


def test_registrations_that_have_a_hint_in_common_have_it_still() -> None:
    def hint(*_: object) -> bool:
        return True

    plain, one, other = hinting(hint, hint).events_to_register()
    assert one.hint is other.hint
    assert plain == ClusterEvent(EventResource.POD, Action.ALL)


def test_a_permission_without_waiting_needs_no_seconds() -> None:
    assert answering("permit", (None, None)).permit(CycleState(), POD, "n") == (None, 0.0)


def test_an_answer_that_cannot_even_be_shown_is_a_wrong_answer() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(WrongAnswer, match="got a Hostile"):
        answering("filter", Hostile()).filter(CycleState(), POD, "n")


def test_scores_must_be_numbers_of_the_same_nodes_after_normalizing() -> None:
    def change(scores: dict[str, Any], **changes: Any) -> None:
        scores.clear()
        scores.update(changes)

    for changes in ({"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 0.5}, {"a": 1, "b": None}):
        plugin = fence(normalize_score=lambda self, state, pod, scores, changes=changes: change(scores, **changes))
        with pytest.raises(WrongAnswer):
            plugin.normalize_score(CycleState(), POD, {"a": 1, "b": 2})


def test_an_attempt_to_exit_is_an_exception_like_others() -> None:
    def leave(self: object, state: object, pod: object, node: object) -> None:
        raise SystemExit(2)

    with pytest.raises(Exited, match=r"called exit\(2\)"):
        fence(filter=leave).filter(CycleState(), POD, "n")


class Panic(BaseException):
    """As PyO3 raises for a panic in Rust."""


@pytest.mark.parametrize(
    ("raised", "message"), [(asyncio.CancelledError(), "raised CancelledError"), (Panic("no"), "raised Panic: no")]
)
def test_what_would_end_a_task_or_the_process_is_an_exception_like_others(
    raised: BaseException, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object, state: object, pod: object, node: object) -> None:
        raise raised

    with pytest.raises(Exited, match=f"^{message}$"):
        fence(filter=fail).filter(CycleState(), POD, "n")
    assert "in fail" in caplog.text


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_comes_through_a_plugin() -> None:
    def interrupted(self: object, state: object, pod: object, node: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fence(filter=interrupted).filter(CycleState(), POD, "n")


@pytest.mark.usefixtures("signals_are_handled_by_the_loop")
def test_an_interrupt_that_cannot_be_ctrl_c_is_an_exception_like_others() -> None:
    def interrupts(self: object, state: object, pod: object, node: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Exited, match=r"^raised KeyboardInterrupt$"):
        fence(filter=interrupts).filter(CycleState(), POD, "n")


def test_exceptions_of_the_plugin_come_through() -> None:
    def fail(self: object, state: object, pod: object, node: object) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        fence(filter=fail).filter(CycleState(), POD, "n")


def test_an_exception_of_the_plugin_is_logged_with_its_place_once(caplog: pytest.LogCaptureFixture) -> None:
    def falls(self: object, state: CycleState, pod: PodInfo, node: object) -> None:
        raise KeyError("team")

    fenced = fence(filter=falls)
    for _ in range(2):
        with pytest.raises(KeyError):
            fenced.filter(CycleState(), POD, None)
    [record] = caplog.records
    assert (record.message, record.__dict__["method"]) == ("plugin raised an exception", "filter")
    assert "test_fence.py" in (caplog.text)
    assert "in falls" in caplog.text


def test_a_table_filter_that_rejects_under_a_foreign_code_is_found_out() -> None:
    cache = Cache()
    cache.set_node(make_node("a").obj())
    verdicts = Verdicts()
    verdicts.reset(cache.table.columns)
    plugin = fence(filter_table=lambda self, state, pod, table, verdicts, code: verdicts.reject(0, code + 1, 0))
    with pytest.raises(WrongAnswer, match=r"expected rejections under code 3, got \[4\]"):
        plugin.filter_table(CycleState(), POD, cache.table, verdicts, 3)


# --- a fence looks like its plugin --------------------------------------------------------------------------------


def test_a_fence_extends_the_points_of_its_plugin_and_no_others() -> None:
    both = fence(
        filter=lambda *_: None, filter_table=lambda *_: None, explain=lambda *_: NO, score=lambda *_: (0, None)
    )
    assert extension_points(both) == {"filter", "score"}
    assert isinstance(both, TableFilterPlugin)
    assert not isinstance(both, TableScorePlugin)
    assert not isinstance(both, TableNormalizeScore)


def test_what_a_plugin_may_leave_out_does_nothing() -> None:
    assert fence(reserve=lambda *_: None).unreserve(CycleState(), POD, "n") is None
    assert fence(pre_bind=lambda *_: None).pre_bind_pre_flight(CycleState(), POD, "n") is None
    assert not hasattr(fence(filter=lambda *_: None), "unreserve")


# --- the queue's order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, 5, (float("nan"),), ("a",), [1, 2]])
def test_a_sort_key_that_is_none_falls_back_to_priority_and_age(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert answering("sort_key", answer).sort_key(10, 5.0) == (-10, 5.0)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_good_sort_key_is_kept() -> None:
    assert answering("sort_key", (1, 2.5)).sort_key(10, 5.0) == (1, 2.5)


# --- time ---------------------------------------------------------------------------------------------------------


def test_a_plugin_that_takes_long_in_one_cycle_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()

    def filter(self: object, state: object, pod: object, node: object) -> None:
        time.now += 0.03

    plugin, state = fence(time, filter=filter), CycleState()
    for _ in range(3):
        plugin.filter(state, POD, "n")
    assert not caplog.records
    for _ in range(3):
        plugin.filter(state, POD, "n")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert (record.__dict__["plugin"], record.__dict__["pod"]) == ("X", "default/p")
    assert record.__dict__["seconds"] == pytest.approx(0.12)


def test_time_is_counted_for_each_cycle_separately(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()

    def filter(self: object, state: object, pod: object, node: object) -> None:
        time.now += 0.09

    plugin = fence(time, filter=filter)
    for _ in range(5):
        plugin.filter(CycleState(), POD, "n")
    assert not caplog.records


# --- asynchronous points ------------------------------------------------------------------------------------------


def coroutine(work: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float = 600.0) -> Any:
    async def bind(self: object, state: object, pod: object, node_name: object) -> Any:
        return await work()

    return fence(bind=bind, timeout_s=timeout_s)


async def test_an_asynchronous_plugin_is_cancelled_at_its_limit() -> None:
    cancelled = False

    async def hang() -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise

    with pytest.raises(TookTooLong, match=r"no answer within 0.01 s"):
        await coroutine(hang, timeout_s=0.01).bind(CycleState(), POD, "n")
    assert cancelled


async def test_calls_that_ignore_their_cancellation_are_left_behind_counted_and_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    may_end = asyncio.Event()

    async def hang() -> None:
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    plugin = coroutine(hang, timeout_s=0.01)
    for _ in range(2):
        with pytest.raises(TookTooLong, match=r"no answer within 0.01 s"):
            await plugin.bind(CycleState(), POD, "n")
    left = [(vars(each)["plugin"], vars(each)["pod"], vars(each)["left_behind"]) for each in caplog.records]
    assert left == [("X", "default/p", 1), ("X", "default/p", 2)]

    may_end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    may_end.clear()
    with pytest.raises(TookTooLong):
        await plugin.bind(CycleState(), POD, "n")
    assert vars(caplog.records[-1])["left_behind"] == 1
    may_end.set()


async def test_a_timeout_of_the_plugins_own_is_not_taken_for_the_limit() -> None:
    async def fail() -> None:
        raise TimeoutError

    with pytest.raises(asyncio.TimeoutError):
        await coroutine(fail).bind(CycleState(), POD, "n")


async def test_asynchronous_answers_are_checked_too() -> None:
    async def answer(value: Any) -> Any:
        return value

    assert await coroutine(lambda: answer(SKIP)).bind(CycleState(), POD, "n") == SKIP
    with pytest.raises(WrongAnswer):
        await coroutine(lambda: answer("done")).bind(CycleState(), POD, "n")


async def test_a_fault_of_the_apiserver_keeps_its_kind() -> None:
    async def conflict() -> None:
        raise Conflict("already bound", status=409)

    status = await coroutine(conflict).bind(CycleState(), POD, "n")
    assert (status.code, status.message) == (Code.ERROR, "already bound")
    assert isinstance(status.error, Conflict)


async def test_a_bind_that_is_not_asynchronous_is_a_wrong_answer() -> None:
    with pytest.raises(WrongAnswer, match="expected a coroutine"):
        await fence(bind=lambda *_: None).bind(CycleState(), POD, "n")


async def test_an_attempt_to_exit_from_a_coroutine_ends_nothing_else() -> None:
    async def leave() -> None:
        raise SystemExit(1)

    with pytest.raises(Exited):
        await coroutine(leave).bind(CycleState(), POD, "n")


@pytest.mark.usefixtures("signals_are_handled_by_the_loop")
@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SystemExit(2), r"called exit\(2\)"),
        (KeyboardInterrupt(), "raised KeyboardInterrupt"),
        (asyncio.CancelledError(), "raised CancelledError"),
        (GeneratorExit(), "raised GeneratorExit"),
        (Panic("no"), "raised Panic: no"),
    ],
)
async def test_what_would_end_a_task_or_the_process_after_an_await_is_an_exception_like_others(
    raised: BaseException, message: str
) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise raised

    with pytest.raises(Exited, match=f"^{message}$"):
        await coroutine(fail).bind(CycleState(), POD, "n")


async def test_where_a_coroutine_panics_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def panics() -> None:
        await asyncio.sleep(0)
        raise Panic("no")

    with pytest.raises(Exited):
        await coroutine(panics).bind(CycleState(), POD, "n")
    assert "in panics" in caplog.text


async def test_a_plugin_that_panics_when_its_time_is_over_took_too_long() -> None:
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Panic("no")

    with pytest.raises(TookTooLong):
        await coroutine(hang, timeout_s=0.01).bind(CycleState(), POD, "n")


async def test_an_attempt_to_exit_before_there_is_a_coroutine_ends_nothing_else() -> None:
    def leave(*_: object) -> None:
        raise SystemExit(1)

    with pytest.raises(Exited):
        await fence(bind=leave).bind(CycleState(), POD, "n")


async def test_an_exception_before_there_is_a_coroutine_is_logged_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def falls(*_: object) -> None:
        raise KeyError("team")

    with pytest.raises(KeyError):
        await fence(bind=falls).bind(CycleState(), POD, "n")
    assert "in falls" in caplog.text


async def test_a_plugin_that_awaits_a_task_it_has_cancelled_does_not_cancel_the_binding() -> None:
    async def wait_for_a_cancelled_task() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    with pytest.raises(Exited, match=r"^raised CancelledError$"):
        await coroutine(wait_for_a_cancelled_task).bind(CycleState(), POD, "n")
