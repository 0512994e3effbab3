"""Sends the questions of one plugin to its guest. The instance that is called first gets the changes of nodes."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec

from kscheduler._fast import NodeColumns
from kscheduler.errors import PluginError
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import GuestError, PodAnswer
from kscheduler.wasm.batch.description import Description
from kscheduler.wasm.batch.guest import BatchGuest
from kscheduler.wasm.batch.metric_feed import LiveColumns, MetricFeed
from kscheduler.wasm.batch.pods import Document, PodView
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.batch.table_feed import TableFeed
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import Instance
from kscheduler.wasm.pool import Outcome, Pool

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode
_SHORT_BIN = [bytes([0xC4, size]) for size in range(256)]  # size -> the head of a bin in msgpack
_ROW_POINTS = frozenset({Point.FILTER, Point.SCORE, Point.NORMALIZE_SCORE})


class Question:
    """A question, i.e. a message to a guest about one pod, for calls at Filter or Score about all or some nodes.

    The pod is encoded only once.
    """

    __slots__ = ("_about_all", "_before_rows")

    def __init__(self, shown: Document) -> None:
        self._about_all = _encode({"pods": [shown]})
        self._before_rows = _encode({"pods": [shown], "rows": b""})[: -len(_encode(b""))]

    @property
    def size_bytes(self) -> int:
        """The memory that the messages take."""
        return len(self._about_all) + len(self._before_rows)

    def about(self, rows: bytes | None) -> bytes:
        if rows is None:
            return self._about_all
        return self._before_rows + (_SHORT_BIN[len(rows)] + rows if len(rows) < len(_SHORT_BIN) else _encode(rows))


class Turn:
    """Runs the calls to a guest about one pod on other threads, one at a time; a call that has begun is completed.

    So no two threads use an instance at once, and a guest gets the changes of nodes in order.
    """

    def __init__(self) -> None:
        self._call: asyncio.Task[Any] | None = None

    @property
    def is_taken(self) -> bool:
        return self._call is not None and not self._call.done()

    async def wait(self) -> None:
        """Wait for the end of the current call, if any, even if its own caller was cancelled."""
        while self._call is not None and self.is_taken:
            await asyncio.wait([self._call])

    async def take(self, call: Coroutine[Any, Any, T]) -> T:
        """Run the call and return its result. If the caller is cancelled, the call goes on."""
        self._call = asyncio.get_running_loop().create_task(call)
        return await asyncio.shield(self._call)


class Asker:
    """Calls a guest. Raises GuestFault or Unavailable if it cannot be called, PluginError if it reports an error."""

    def __init__(
        self, pool: Pool, described: Description, table: NodeTable, metrics: LiveColumns | None = None
    ) -> None:
        self.pool = pool
        self.described = described
        self.view = PodView(described.pod)
        self._columns: NodeColumns = table.columns
        self._feed = TableFeed(table, described, metrics)

    @property
    def metrics(self) -> MetricFeed:
        """The columns of live metrics of nodes that the guest receives."""
        return self._feed.metrics

    def ask(
        self,
        point: Point,
        pod: PodInfo,
        read: Callable[[PodAnswer, int], T],
        state: bytes | None = None,
        *,
        rows: bytes | None = None,
        what_if: NodeInfo | None = None,
        holder: str | None = None,
        **more: Any,
    ) -> T:
        """Call an extension point for one pod, and return `read(answer, number of nodes in the question)`.

        `read` raises GuestFault if the answer violates the ABI. `state` is what the guest returned earlier in the pod's
        cycle. `rows` are the nodes to answer about, as packed int32 rows of the node table; None for all. `what_if` is
        a hypothetical state of one of these nodes, as in a preemption's dry run. `holder` is a pod's binding cycle
        whose own instance is used.
        """
        question: dict[str, Any] = {"pods": [self.view.show(pod, state)]}
        if point in _ROW_POINTS:
            rows = self._named(rows)
        if rows is not None:
            question["rows"] = rows
        question.update(more)
        message, count = _encode(question), self._rows_of(point, rows)

        def work(instance: Instance) -> T | GuestError:
            guest = self._up_to_date(instance)
            if what_if is not None:
                guest.take_table(self._feed.what_if(guest.mirror, what_if))
            return _answer(guest, point, message, count, pod, read)

        return _checked(point, self.pool.run(work, holder, point.word))

    async def ask_apart(
        self,
        threads: BindingThreads,
        point: Point,
        pod: PodInfo,
        read: Callable[[PodAnswer, int], T],
        state: bytes | None,
        *,
        holder: str,
        turn: Turn,
        **more: Any,
    ) -> T:
        """Call an extension point on another thread for a pod in its binding cycle, on the instance that `holder` has.

        `holder` is the name of the pod's binding cycle, and `turn` serialises its calls. The changes of nodes are
        encoded on the caller's thread, which alone may read the node table. Returns `read(answer, number of nodes in
        the question)`; `state` is what the guest returned earlier in the pod's cycle.
        """
        message = _encode({"pods": [self.view.show(pod, state)], **more})
        self.pool.hold(holder)
        packed = self.pool.attempt(lambda instance: self._feed.messages(_guest_of(instance).mirror), holder)
        if packed.fault is not None:
            self.pool.report(packed, point.word)
            raise packed.fault
        tables = packed.value or []

        def work(instance: Instance) -> T | GuestError:
            guest = _guest_of(instance)
            guest.take_table(tables)
            return _answer(guest, point, message, 0, pod, read)

        async def run() -> Outcome[T | GuestError]:
            outcome = await threads.run(lambda: self.pool.attempt(work, holder))
            self.pool.report(outcome, point.word)
            return outcome

        outcome = await turn.take(run())
        if outcome.fault is not None:
            raise outcome.fault
        return _checked(point, cast("T | GuestError", outcome.value))

    def question(self, pod: PodInfo, state: bytes | None) -> Question:
        """Encode a pod as a message for `ask_rows`.

        The result is equal for pods that are equal in all that the guest reads.
        """
        return Question(self.view.show(pod, state))

    def ask_rows(self, point: Point, question: Question, rows: bytes | None, read: Callable[[PodAnswer, int], T]) -> T:
        """Call Filter or Score with a prepared question, for these packed rows of nodes or, with None, for all nodes.

        Returns `read(answer, number of nodes)`, which raises GuestFault if the answer violates the ABI.
        """
        message, count = question.about(self._named(rows)), self._rows_of(point, rows)

        def work(instance: Instance) -> T | GuestError:
            return _answer(self._up_to_date(instance), point, message, count, None, read)

        return _checked(point, self.pool.run(work, export=point.word))

    def _named(self, rows: bytes | None) -> bytes | None:
        """Return the packed rows of a question. A guest without a table cannot know how many all of them are."""
        if rows is None and not self.described.has_table:
            return array("i", range(self._columns.rows)).tobytes()
        return rows

    def _rows_of(self, point: Point, rows: bytes | None) -> int:
        if point not in _ROW_POINTS:
            return 0
        return self._columns.rows if rows is None else len(rows) // 4

    def _up_to_date(self, instance: Instance) -> BatchGuest:
        guest = _guest_of(instance)
        guest.take_table(self._feed.messages(guest.mirror))
        return guest


def _guest_of(instance: Instance) -> BatchGuest:
    guest = instance.data
    assert isinstance(guest, BatchGuest)
    return guest


def _answer(
    guest: BatchGuest,
    point: Point,
    message: bytes,
    count: int,
    pod: PodInfo | None,
    read: Callable[[PodAnswer, int], T],
) -> T | GuestError:
    try:
        return read(guest.ask_one(point, message, count, pod), count)
    except GuestError as error:  # the instance is sound
        return error


def _checked(point: Point, answer: T | GuestError) -> T:
    if isinstance(answer, GuestError):
        raise PluginError(f"{point.word}: {answer}")
    return answer
