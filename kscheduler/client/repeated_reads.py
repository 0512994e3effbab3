"""Reads that are repeated beside an overdue request, and answered by whichever answer comes first.

Behind a balancer one server of several may hang, and a connection may break without a sign: a request there
waits for a minute, while the next request would be answered at once. Reading twice costs little,
so each repeat waits twice as long as the one before, and a server that is known to be slow is given its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kscheduler.client.concurrency import abandon
from kscheduler.clock import Clock
from kscheduler.errors import Unreachable

T = TypeVar("T")

OVERDUE_S = 2.0  # without an answer, before the first repeat
TIMES_USUAL = 4.0  # or so many times what the last answer of its kind took
MOST_REQUESTS = 4  # at once: after 2, 6 and 14 s


class RepeatedReads:
    """Reads with repeats; it remembers how long answers took, by kind."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._took_s: dict[str, float] = {}

    async def read(
        self,
        kind: str,
        ask: Callable[[bool], Coroutine[Any, Any, T]],
        *,
        overdue_s: float = OVERDUE_S,
        give_up: Callable[[T], object] | None = None,
    ) -> T:
        """Return the first answer. `ask(True)` repeats a request, and should take a connection of its own.

        `give_up` is given the other answers, for those that have to be closed. Raises what an answer says, or
        Unreachable once no request is left that could be answered.
        """
        overdue_s = max(overdue_s, TIMES_USUAL * self._took_s.get(kind, 0.0))
        began = self._clock.now()
        requests: list[asyncio.Future[T]] = []
        answer: asyncio.Future[T] | None = None
        try:
            while True:
                requests.append(asyncio.ensure_future(ask(bool(requests))))
                wait_s = None if len(requests) == MOST_REQUESTS else overdue_s * 2.0 ** (len(requests) - 1)
                answer = await _first_answer(requests, wait_s)
                if answer is not None:
                    if answer is requests[0]:
                        self._took_s[kind] = self._clock.now() - began
                    return answer.result()
        finally:
            others = [request for request in requests if request is not answer]
            if others:
                try:
                    await abandon(give_up, *others)
                except asyncio.CancelledError:  # nobody takes the answer either
                    if answer is not None:
                        await abandon(give_up, answer)
                    raise


async def _first_answer(requests: list[asyncio.Future[T]], wait_s: float | None) -> asyncio.Future[T] | None:
    """Return a request that was answered, or any when none can be any more; None when the time is over."""
    loop = asyncio.get_running_loop()
    until_s = None if wait_s is None else loop.time() + wait_s
    while True:
        pending = [request for request in requests if not request.done()]
        for request in requests:
            if request.done() and not (pending and isinstance(request.exception(), Unreachable)):
                return request
        left_s = None if until_s is None else until_s - loop.time()
        if left_s is not None and left_s <= 0:
            return None
        await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
