"""The lane on which bindings are written: callbacks instead of a task for each, and the binder's certainty.

A binding is written once in the cheapest way the client has. Nearly all answers are a plain yes, or a no that is
certain, and that is all. What decides nothing (no answer, a plea to slow down, a server's fault, an old token) goes on
as a task of the `Binder`, which writes until the answer is certain. So does everything if the client has no such way.
"""

from __future__ import annotations

import asyncio
from functools import partial

from kscheduler.client.binder import Binder, may_change
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.protocol import Binding, BindsDirectly, Client, OnBound
from kscheduler.errors import APIError

DEFAULT_LIMIT = 100


class _Period:
    """From one cancellation to the next: what was submitted in a period that is over is heard of no more."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class BindLane:
    """Use from one event loop. `len` is the number of bindings submitted and not decided yet."""

    def __init__(self, client: Client, binder: Binder, *, limit: int = DEFAULT_LIMIT) -> None:
        """`limit`: bindings at once, at most; the client may find that fewer are better just now."""
        self._binder = binder
        self._limit = limit
        self._direct = client.direct_binds(limit) if isinstance(client, BindsDirectly) else None
        self._period = _Period()
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty: asyncio.Future[None] | None = None  # somebody waits for the last one

    def __len__(self) -> int:
        return self._open

    @property
    def limit(self) -> int:
        """How many to have under way now. More may be submitted: they wait here."""
        return self._limit if self._direct is None else min(self._limit, self._direct.limit)

    @property
    def backlog(self) -> int:
        """How many to have here: those under way and as many that wait behind them, but never more than the limit."""
        return self._limit if self._direct is None else min(self._limit, 2 * self._direct.limit)

    @property
    def has_room(self) -> bool:
        """Whether to decide about more pods."""
        return self._open < self.backlog

    def submit(self, binding: Binding, on_done: OnBound) -> None:
        """Bind, and call `on_done` once, from the event loop: with None when the pod is bound to that node, with an
        APIError when it certainly is not.
        """
        self._open += 1
        period = self._period
        direct = self._direct
        if direct is None or not direct.write(
            binding, partial(self._may_write, period), partial(self._answered, period, binding, on_done)
        ):
            self._go_on(period, binding, on_done, None)

    async def drain(self, timeout_s: float) -> int:
        """Wait for all, at most so long; returns how many are still not decided."""
        if self._open:
            if self._empty is None:
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=timeout_s)
        return self._open

    async def cancel(self) -> None:
        """Write nothing more and call nobody: the outcomes stay open. The lane can be used again."""
        self._period.is_over = True
        self._period = _Period()
        self._open = 0
        self._tell_empty()
        await cancel_and_wait(*self._tasks)

    # --- one binding --------------------------------------------------------------------------------------------

    def _may_write(self, period: _Period) -> bool:
        return not period.is_over and self._binder.may_bind()

    def _answered(self, period: _Period, binding: Binding, on_done: OnBound, error: APIError | None) -> None:
        """The first try has an answer."""
        if period.is_over:
            return
        if error is None:
            self._end(period, on_done, None)
        elif error.status == 401:  # certainly not carried out; the ordinary way reads the token again
            self._go_on(period, binding, on_done, None)
        elif may_change(error):
            self._go_on(period, binding, on_done, error)
        else:
            self._end(period, on_done, error)

    def _go_on(self, period: _Period, binding: Binding, on_done: OnBound, met: APIError | None) -> None:
        """Until the answer is certain."""
        task = asyncio.get_running_loop().create_task(self._bind(period, binding, on_done, met))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, period: _Period, binding: Binding, on_done: OnBound, met: APIError | None) -> None:
        error: APIError | None = None
        try:
            await self._binder.bind(binding, met=met)
        except APIError as refusal:
            error = refusal
        if not period.is_over:
            self._end(period, on_done, error)

    def _end(self, period: _Period, on_done: OnBound, error: APIError | None) -> None:
        self._open -= 1
        try:
            on_done(error)
        except Exception as bug:
            # Not the fault of the connection that brought the answer, nor of the pods that come after.
            context = {"message": "what follows a binding raised", "exception": bug}
            asyncio.get_running_loop().call_exception_handler(context)
        if not self._open and not period.is_over:
            self._tell_empty()

    def _tell_empty(self) -> None:
        if self._empty is not None and not self._empty.done():
            self._empty.set_result(None)
        self._empty = None
