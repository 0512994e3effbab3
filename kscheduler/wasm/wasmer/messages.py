"""What the two processes say to each other: a length, then a list in msgpack, over a pair of sockets.

The child runs somebody else's code: what comes from it is decoded as plain data, and bounded.

    parent: ["compile", wasm]                               child: ["ok", code]
            ["new", code, imports, exports]                        ["ok", None]
            ["call", export, numbers]                              ["ok", number or None]
            ["read", address, size] ["write", address, data]       ["ok", data or None]
            ["size"]                                               ["ok", bytes of memory]
    child, within new or call: ["host", index, numbers]     parent: any of read, write, size; then
                                                                   ["answer", number or None] or ["raise"]
    child, instead of ok: ["trap", text] or ["refused", text]
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

import msgspec

from kscheduler.decoding import msgpack_decoder
from kscheduler.errors import DecodeError

MAX_BYTES = 1 << 30
MAX_TEXT = 1000  # characters of a trap; a stack overflow comes with half a million frames
_decode = msgpack_decoder(object)
_LENGTH = struct.Struct("<I")


class ChannelClosed(Exception):
    """The other process has ended."""


class Channel:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, message: list[Any]) -> None:
        data = msgspec.msgpack.encode(message)
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error

    def has_message(self, timeout_s: float) -> bool:
        """Whether one has begun to arrive, or the other process has ended, by then."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def receive(self, timeout_s: float | None = None) -> list[Any]:
        """The next message; TimeoutError if it has not begun by then."""
        self._socket.settimeout(timeout_s)
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if size > MAX_BYTES:
            raise ChannelClosed
        try:
            message = _decode(self._exactly(size))
        except DecodeError as error:  # the process that runs there is no longer the one that was started
            raise ChannelClosed from error
        if not isinstance(message, list):
            raise ChannelClosed
        return message

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(min(size - len(data), 1 << 20))
            except socket.timeout as error:  # noqa: UP041 (another class on 3.9 only, but 3.10 is what runs this)
                raise TimeoutError from error
            except ConnectionResetError as error:
                raise ChannelClosed from error
            if not piece:
                raise ChannelClosed
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()
