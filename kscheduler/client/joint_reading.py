"""Has the process woken once for several answers that nobody waits for, and not for each of them.

Requests that are sent in one write are answered one after the other, some milliseconds apart. To be woken and to read
costs more than to handle such an answer. So the kernel is asked to report a connection as readable only when as many
bytes have come as all of its answers have at least (SO_RCVLOWAT); it reports the end of a connection at once. Answers
that are shorter than any before, such as refusals, may never be as many bytes together: whatever has come after
PATIENCE_S is read.
"""

from __future__ import annotations

import asyncio
import logging
import socket

log = logging.getLogger(__name__)

PATIENCE_S = 0.25  # well before a request counts as overdue
MOST_BYTES = 1 << 14  # kernels keep more than that of a connection that is not read


class JointReading:
    """Puts off the reading of one connection. Use it from one event loop."""

    __slots__ = ("_connection", "_loop", "_transport", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._connection = transport.get_extra_info("socket")  # None of a transport without one
        self.timer: asyncio.TimerHandle | None = None  # while reading is put off

    def begin(self, least_bytes: int) -> None:
        """Put off reading until so many bytes have come, the connection ends, or PATIENCE_S is over."""
        self._ask_for(min(least_bytes, MOST_BYTES))
        if self.timer is None:
            self.timer = self._loop.call_later(PATIENCE_S, self.end)

    def end(self) -> None:
        """Read whatever has come, and what comes from now on."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self._ask_for(1)

    def _ask_for(self, nbytes: int) -> None:
        # The descriptor of one that closes may be another connection's soon.
        if self._connection is None or self._transport.is_closing():
            return
        try:
            # uvloop would make a `socket.socket` of the descriptor for this: two more calls of Python functions.
            shared = socket.SocketType(fileno=self._connection.fileno())
            try:
                shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, nbytes)
            finally:
                shared.detach()
        except (OSError, ValueError) as error:  # then each answer is read when it comes
            log.debug("the reading of answers could not be put off", extra={"err": str(error)})
