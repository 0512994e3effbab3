"""Says in words why a server could not be reached, where aiohttp repeats its address with internals of its own."""

from __future__ import annotations

import os
import socket

import aiohttp


def reason_of(error: Exception) -> str:
    """Return what a request failed with, such as "Connection refused"; the caller names the server, and not a proxy."""
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return str(error) or type(error).__name__
    cause = error.os_error
    # An event loop puts addresses into its text; a resolver's number is none of the operating system.
    number = None if isinstance(cause, socket.gaierror) else cause.errno
    reason = os.strerror(number) if number else cause.strerror or str(cause)
    is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
    return f"proxy {error.host}:{error.port}: {reason}" if is_proxy else reason
