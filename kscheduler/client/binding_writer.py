"""Writes bindings on keep-alive connections without creating a task, a coroutine or a future for each.

Each binding waits for a token of the rate limit and a slot (the permission for one more concurrent request), is checked
once more and sent; its answer is passed on. Behind a proxy, or while the credentials are read again, a binding cannot
be sent in this way and is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from functools import partial
from urllib.parse import quote

from kscheduler.client import protobuf
from kscheduler.client.connections import Carrier
from kscheduler.client.protocol import Binding, BindRequest
from kscheduler.client.ratelimit import Priority, RateLimiter
from kscheduler.client.slots import Slots
from kscheduler.client.transport import Transport
from kscheduler.client.write_permission import NOT_BOUND, not_leading
from kscheduler.clock import Clock
from kscheduler.errors import APIError

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*").fullmatch  # what needs no percent-encoding: all names the API admits


class BindingWriter:
    """Writes bindings over HTTP by callbacks; implements `client.protocol.DirectBinds`."""

    def __init__(
        self,
        transport: Transport,
        limiter: RateLimiter,
        slots: Slots,
        clock: Clock,
        *,
        accept: str,
        timeout_s: float,
    ) -> None:
        self._transport = transport
        self._limiter = limiter
        self._slots = slots
        self._clock = clock
        self._accept = accept
        self._timeout_s = timeout_s
        self._waiting: deque[BindRequest] = deque()
        self._tokens = 0  # taken for bindings that wait
        self._asked = 0  # tokens we wait for
        slots.call_when_free(self._pump)

    @property
    def limit(self) -> int:
        return self._slots.limit.value

    def write(self, request: BindRequest) -> bool:
        if not self._transport.sends:
            return False
        self._waiting.append(request)
        self._pump()
        return True

    def _pump(self) -> None:
        """Send waiting bindings while there is a rate-limit token and a slot for each."""
        waiting = self._waiting
        while waiting:
            request = waiting[0]
            if request.may_write():
                if not self._has_token() or not self._slots.try_take(Priority.BIND):
                    return
                self._tokens -= 1
                self._send(request)
            else:
                asyncio.get_running_loop().call_soon(request.on_answer, not_leading(NOT_BOUND))
            waiting.popleft()

    def _has_token(self) -> bool:
        """Return True if a rate-limit token is held, and ask for one otherwise.

        A token is kept until there is a slot as well.
        """
        if self._tokens:
            return True
        if self._limiter.try_acquire():
            self._tokens = 1
            return True
        while self._asked < min(len(self._waiting), self.limit):
            self._asked += 1
            self._limiter.call_with_token(Priority.BIND, partial(self._token_came, self._clock.now()))
        return False

    def _token_came(self, asked_at: float) -> None:
        self._asked -= 1
        self._tokens += 1
        self._transport.observer.observe_rate_limiter("POST", self._transport.host, self._clock.now() - asked_at)
        self._pump()

    def _send(self, request: BindRequest) -> None:
        sent = _Sent(self._slots, request)
        self._transport.send(
            "POST",
            binding_path(request.binding),
            protobuf.encode_binding(request.binding),
            protobuf.CONTENT_TYPE,
            self._accept,
            self._timeout_s,
            sent.receive,
            sent,
        )


class _Sent(Carrier):
    """The request of one binding from when it is sent until it is answered or given up."""

    def __init__(self, slots: Slots, request: BindRequest) -> None:
        self._slots = slots
        self._request = request
        self._has_ended = False
        self._slot = slots.sent(Priority.BIND, self._is_overdue)

    def _is_overdue(self) -> None:
        self.distrust()
        self._request.may_give_up(self._give_up)
        self._request.on_overdue()

    def _give_up(self) -> None:
        """Abandon a request that hangs although its binding is decided, so that it no longer counts as overdue."""
        if not self._has_ended:
            self._has_ended = True
            self.abandon()
            self._slots.drop(self._slot)

    def receive(self, error: APIError | None, took_s: float) -> None:
        """Take the apiserver's answer, or the error of the connection: give the slot back and pass the answer on."""
        if self._has_ended:  # given up while its connection was opened, and that failed
            return
        self._has_ended = True
        self._slots.ended(self._slot, error)
        self._request.on_answer(error)


def binding_path(binding: Binding) -> str:
    namespace, name = binding.namespace, binding.name
    if not (_PLAIN(namespace) and _PLAIN(name)):
        namespace, name = quote(namespace, safe=""), quote(name, safe="")
    return f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
