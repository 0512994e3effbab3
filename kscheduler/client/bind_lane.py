"""Writes bindings by callbacks instead of one asyncio task each, and leaves those in doubt to the `Binder`.

A binding is first written once, in the cheapest way that the client has. Nearly always the apiserver answers with
success or with a definite refusal, and the binding is finished. If the outcome is not certain (no answer, a late
answer, 429, a server error, an expired token), a task of the `Binder` repeats the write until it is. The same task
writes every binding if the client has no cheap way. Bindings that are overdue and still undecided do not keep others
from being submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from kscheduler.client.bind_tries import Tries, Try
from kscheduler.client.binder import Binder
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.protocol import Binding, BindsDirectly, Client, OnAnswered, nothing
from kscheduler.client.slots import OVERDUE_S
from kscheduler.errors import APIError, NotLeading

DEFAULT_LIMIT = 100


class _Period:
    """The time between two calls of `BindLane.cancel`. Outcomes of bindings from an earlier period are not reported."""

    __slots__ = ("is_ending", "is_over")

    def __init__(self) -> None:
        self.is_ending = False  # no binding is sent for the first time any more
        self.is_over = False


class BindLane:
    """The bindings under way: it writes each one and reports its outcome.

    Use it from one event loop. `len` returns the number of bindings that are submitted and not decided yet.
    """

    def __init__(
        self,
        client: Client,
        binder: Binder,
        *,
        limit: int = DEFAULT_LIMIT,
        on_overdue: Callable[[], None] = nothing,
    ) -> None:
        """Create the lane. At most `limit` bindings are under way at once; the client may lower that for the moment.

        `on_overdue` is called when a binding becomes overdue, because there may be room for another one then.
        """
        self._on_overdue = on_overdue
        self._binder = binder
        self.permission = binder.permission
        self._limit = limit
        self._direct = client.direct_binds(limit) if isinstance(client, BindsDirectly) else None
        self._period = _Period()
        self._open = 0
        self._overdue = 0  # of those
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Future[None] | None = None  # somebody waits for the last one

    def __len__(self) -> int:
        return self._open

    @property
    def limit(self) -> int:
        """The number of bindings that may be under way, i.e. sent, at the moment.

        More may be submitted; they wait in the lane.
        """
        return self._limit if self._direct is None else min(self._limit, self._direct.limit.value)

    @property
    def has_room(self) -> bool:
        """True if the lane can take more bindings, so that the scheduler should decide more pods."""
        return self.room_and_backlog()[0] > 0

    def room_and_backlog(self) -> tuple[int, int]:
        """Return how many more bindings to have here, and how many in all: those under way and as many that wait.

        At most `limit` overdue ones are left out.
        """
        most, overdue = self._limit, self._overdue
        load = self._open - (overdue if overdue < most else most)
        if self._direct is not None:
            backlog = 2 * self._direct.limit.value
            most = backlog if backlog < most else most
        return most - load, most

    def submit(self, binding: Binding, on_done: OnAnswered) -> None:
        """Write the binding and call `on_done` once, from the event loop.

        `on_done` gets None when the pod is bound to that node, and an APIError when it certainly is not.
        """
        self._open += 1
        one = _Submitted(self, self._period, binding, on_done)
        if self._direct is None or not self._direct.write(one):
            self.go_on(one, Tries())

    def refuse_to(self, node: str) -> None:
        """Send no bindings to a node that was deleted: those that wait to be sent end with NodeGone."""
        if self._direct is not None:
            self._direct.refuse_to(node)

    async def drain(self, timeout_s: float) -> int:
        """Wait up to `timeout_s` seconds for all bindings, and return how many are still not decided."""
        if self._open:
            if self._empty is None:
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=timeout_s)
        return self._open

    async def withdraw_unsent(self, timeout_s: float) -> int:
        """Send no further bindings; wait up to `timeout_s` seconds for those that were sent, as `drain` does.

        The outcome of a binding that was not sent is not reported. The client lets go of it when the next token of its
        rate limit comes.
        """
        self._period.is_ending = True
        return await self.drain(timeout_s)

    async def cancel(self) -> None:
        """Stop writing bindings, and report none of those under way, whose outcomes remain unknown.

        The lane can be used again afterwards.
        """
        self._period.is_over = True
        self._period = _Period()
        self._open = self._overdue = 0
        self._tell_empty()
        await cancel_and_wait(*self._tasks)

    # --- one binding --------------------------------------------------------------------------------------------

    def go_on(self, one: _Submitted, tries: Tries) -> None:
        """Start a task in which the `Binder` writes the binding until its outcome is certain."""
        task = asyncio.get_running_loop().create_task(self._bind(one, tries))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, one: _Submitted, tries: Tries) -> None:
        error: APIError | None = None
        overdue = asyncio.get_running_loop().call_later(OVERDUE_S, one.set_aside)
        try:
            await self._binder.bind(one.binding, tries)
        except APIError as refusal:
            error = refusal
        finally:
            overdue.cancel()
            one.give_up()
        if not one.period.is_over:
            self.end(one, error)

    def note_overdue(self) -> None:
        self._overdue += 1
        self._on_overdue()

    def end(self, one: _Submitted, error: APIError | None) -> None:
        self._open -= 1
        self._overdue -= one.counts_as_overdue
        try:
            one.on_done(error)
        except Exception as bug:
            # Not the fault of the connection that brought the answer, nor of the pods that come after.
            context = {"message": "the work after a binding raised", "exception": bug}
            asyncio.get_running_loop().call_exception_handler(context)
        if self._empty is not None and not self._open and not one.period.is_over:
            self._tell_empty()

    def leave(self, one: _Submitted) -> None:
        """Forget a binding that was withdrawn before it was sent."""
        self._open -= 1
        self._overdue -= one.counts_as_overdue
        if not self._open:
            self._tell_empty()

    def _tell_empty(self) -> None:
        if self._empty is not None and not self._empty.done():
            self._empty.set_result(None)
        self._empty = None


class _Submitted(msgspec.Struct, eq=False):
    """One submitted binding and the state of its first try, i.e. of the first request that writes it."""

    lane: BindLane
    period: _Period
    binding: Binding
    on_done: OnAnswered
    counts_as_overdue: bool = False
    first_try: Try | None = None  # set once the binder has taken over
    give_up_first: Callable[[], None] = nothing  # abandons the first try; set once that is overdue

    def may_write(self) -> bool:
        period, elected = self.period, self.lane.permission.elected  # as WritePermission.may_write, without its call
        return not (period.is_over or period.is_ending) and (elected is None or elected.is_leader)

    def on_overdue(self) -> None:
        """Let the `Binder` write the binding again, since its first request has had no answer for longer than usual.

        That request stays open, and a late answer to it still counts.
        """
        if not self.period.is_over and self.first_try is None:
            self.set_aside()
            self._hand_over().is_late()

    def may_give_up(self, give_up: Callable[[], None]) -> None:
        self.give_up_first = give_up

    def give_up(self) -> None:
        """Stop waiting for a first try that still hangs, because the binding is decided."""
        self.give_up_first()

    def set_aside(self) -> None:
        """Count the binding as overdue (no answer for longer than usual), so that another may be submitted instead."""
        if not self.period.is_over and not self.counts_as_overdue:
            self.counts_as_overdue = True
            self.lane.note_overdue()

    def on_answer(self, error: APIError | None) -> None:
        """Take the outcome of the first request that writes the binding.

        If it is certain, the binding is finished; else the `Binder` repeats the write.
        """
        if self.first_try is not None:
            self.first_try.ended(error)
        elif self.period.is_over:
            return
        elif self.period.is_ending and isinstance(error, NotLeading):  # not sent
            self.lane.leave(self)
        elif error is not None and error.status == 401:
            # Certainly not carried out, and nothing was written before; the ordinary way reads the token again.
            self.lane.go_on(self, Tries())
        elif error is not None and error.is_transient and not error.is_failed_admission:
            self._hand_over().ended(error)
        else:
            self.lane.end(self, error)

    def _hand_over(self) -> Try:
        """Leave the binding to the `Binder`, and return the first try, to which its outcome is to be reported."""
        tries = Tries()
        self.first_try = tries.begin()
        self.lane.go_on(self, tries)
        return self.first_try
