"""Writes bindings by callbacks instead of a task for each, and hands those in doubt to the binder.

A binding is written once in the cheapest way the client has. Nearly all answers are a plain yes, or a no that is
certain, and that is all. An outcome that decides nothing (no answer, an overdue answer, a plea to slow down, a
server's fault, an expired token) goes on as a task of the `Binder`, which writes until the answer is certain. So does
every binding if the client has no such cheap way. Bindings that are overdue and not decided, because their tries hang
or meet answers that decide nothing, do not keep others from being submitted.
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
from kscheduler.errors import APIError

DEFAULT_LIMIT = 100


class _Period:
    """The time from one cancellation to the next: nobody is called for bindings submitted in an earlier period."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class BindLane:
    """Bindings under way. Use from one event loop. `len` is the number of bindings submitted and not decided yet."""

    def __init__(
        self,
        client: Client,
        binder: Binder,
        *,
        limit: int = DEFAULT_LIMIT,
        on_overdue: Callable[[], None] = nothing,
    ) -> None:
        """`limit` is the most bindings at once; the client may find that fewer are better at the moment.

        `on_overdue` is called when there may be room since a binding is overdue.
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
        """The number of bindings to have under way now. More may be submitted: they wait here."""
        return self._limit if self._direct is None else min(self._limit, self._direct.limit)

    @property
    def backlog(self) -> int:
        """The number of bindings to have here: those under way and as many waiting behind them, up to the limit."""
        return self._limit if self._direct is None else min(self._limit, 2 * self._direct.limit)

    @property
    def load(self) -> int:
        """The number of bindings that count against the backlog: at most `limit` overdue ones are left out."""
        return self._open - min(self._overdue, self._limit)

    @property
    def has_room(self) -> bool:
        """True if more pods should be decided."""
        return self.load < self.backlog

    def submit(self, binding: Binding, on_done: OnAnswered) -> None:
        """Bind, and call `on_done` once, from the event loop: with None when the pod is bound to that node, with an
        APIError when it certainly is not.
        """
        self._open += 1
        one = _Submitted(self, self._period, binding, on_done)
        if self._direct is None or not self._direct.write(one):
            self.go_on(one, Tries())

    async def drain(self, timeout_s: float) -> int:
        """Wait for all bindings for at most `timeout_s` seconds, and return how many are still not decided."""
        if self._open:
            if self._empty is None:
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=timeout_s)
        return self._open

    async def cancel(self) -> None:
        """Write nothing more and call nobody: the outcomes stay open. The lane can be used again."""
        self._period.is_over = True
        self._period = _Period()
        self._open = self._overdue = 0
        self._tell_empty()
        await cancel_and_wait(*self._tasks)

    # --- one binding --------------------------------------------------------------------------------------------

    def go_on(self, one: _Submitted, tries: Tries) -> None:
        """Start a task that writes the binding until the answer is certain."""
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
        if not self._open and not one.period.is_over:
            self._tell_empty()

    def _tell_empty(self) -> None:
        if self._empty is not None and not self._empty.done():
            self._empty.set_result(None)
        self._empty = None


class _Submitted(msgspec.Struct, eq=False):
    """One submitted binding, and the state of its first try."""

    lane: BindLane
    period: _Period
    binding: Binding
    on_done: OnAnswered
    counts_as_overdue: bool = False
    first_try: Try | None = None  # once the binder goes on
    give_up_first: Callable[[], None] = nothing  # the first try, once it is overdue

    def may_write(self) -> bool:
        return not self.period.is_over and self.lane.permission.may_write()

    def on_overdue(self) -> None:
        """Let the binder write the binding again beside the first try, whose late answer still counts."""
        if not self.period.is_over and self.first_try is None:
            self.set_aside()
            self._hand_over().is_late()

    def may_give_up(self, give_up: Callable[[], None]) -> None:
        self.give_up_first = give_up

    def give_up(self) -> None:
        """Stop waiting for the first try if it still hangs: the binding is decided."""
        self.give_up_first()

    def set_aside(self) -> None:
        """Count the binding as overdue, so that others may be submitted in its place."""
        if not self.period.is_over and not self.counts_as_overdue:
            self.counts_as_overdue = True
            self.lane.note_overdue()

    def on_answer(self, error: APIError | None) -> None:
        """Take the outcome of the first try: end the binding, or hand it over to the binder."""
        if self.first_try is not None:
            self.first_try.ended(error)
        elif self.period.is_over:
            return
        elif error is not None and error.status == 401:
            # Certainly not carried out, and nothing was written before; the ordinary way reads the token again.
            self.lane.go_on(self, Tries())
        elif error is not None and error.is_transient:
            self._hand_over().ended(error)
        else:
            self.lane.end(self, error)

    def _hand_over(self) -> Try:
        """Let the binder go on, and return the first try, whose outcome is to be reported to it."""
        tries = Tries()
        self.first_try = tries.begin()
        self.lane.go_on(self, tries)
        return self.first_try
