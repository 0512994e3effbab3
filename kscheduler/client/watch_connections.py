"""Keeps connections on which a watch has ended, for the next watch.

A silent watch is opened again every few seconds, to show that it works. On a new connection that costs a TLS handshake
each time, several times as much as the request itself, here and at the apiserver. On the same connection it shows the
same: that the connection still carries bytes both ways, and that the apiserver at its other end still serves watches.

A connection on which nothing has come for a minute, not even a bookmark, is not kept: behind a load balancer, a new one
may lead to another apiserver, and this one may be cut off from etcd, with watches that end in time and bring nothing.
A watch that is tested often may ask for one that was heard of later. After some minutes none is kept in any case, as
with watches that last so long. In a quiet cluster there are no bookmarks, unless etcd notifies of its progress.
"""

from __future__ import annotations

import asyncio

from kscheduler.client.line_streams import LineConnection

LONGEST_S = 300.0  # from a connection's opening to its last watch's beginning: client-go's shortest watch lasts so long
# From a connection's opening or its last line to its next watch's beginning: two of the longest tests of silence.
LONGEST_UNHEARD_S = 60.0
# From one watch to the next: an informer opens its next one at once, or after a pause for failures.
KEPT_S = 2.0


class WatchConnections:
    """The connections that carry no watch now. Use it from one event loop."""

    def __init__(self) -> None:
        self._idle: list[tuple[float, LineConnection]] = []  # since when by the loop's clock; longest ago first
        self._is_closed = False

    def keep(self, connection: LineConnection) -> None:
        """Take over a connection whose watch has ended."""
        self._drop_old()
        if self._is_closed:
            connection.abort()
            return
        self._idle.append((asyncio.get_running_loop().time(), connection))

    def take(self, unheard_s: float = LONGEST_UNHEARD_S) -> LineConnection | None:
        """Return an open connection that was silent for less than this, the caller's from now on; None without one."""
        self._drop_old()
        now = asyncio.get_running_loop().time()
        for index in reversed(range(len(self._idle))):
            connection = self._idle[index][1]
            if now - connection.heard_s < unheard_s:
                del self._idle[index]
                return connection
        return None

    def close(self) -> None:
        """Close all connections that carry no watch, and keep none any more."""
        self._is_closed = True
        while self._idle:
            self._idle.pop()[1].abort()

    def _drop_old(self) -> None:
        now = asyncio.get_running_loop().time()
        kept: list[tuple[float, LineConnection]] = []
        for since_s, connection in self._idle:
            is_new = now - connection.opened_s < LONGEST_S and now - connection.heard_s < LONGEST_UNHEARD_S
            if is_new and connection.is_open and now - since_s < KEPT_S:
                kept.append((since_s, connection))
            else:
                connection.abort()
        self._idle = kept
