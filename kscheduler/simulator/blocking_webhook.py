"""Sends requests to extenders from a simulation: they take real time, during which virtual time stands still.

An answer therefore costs no virtual time, however slow it was, and the same extender gives the same simulation.
"""

from __future__ import annotations

import http.client
import time
from contextlib import closing
from urllib.parse import urlsplit

from kscheduler.client.urls import basic_header
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.errors import PluginError
from kscheduler.extenders.webhook import Webhook, answer_limit

_CHUNK = 1 << 16


class BlockingWebhook:
    """Sends each request to an extender on a new connection, and blocks until the answer.

    Raises what `Webhook` raises.
    """

    def __init__(self, config: ExtenderConfig, path: str) -> None:
        self._settings = Webhook(config, path)
        self.url = self._settings.url
        self._parts = urlsplit(self.url.reveal())
        login = basic_header(self.url)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": login} if login else {})

    async def ask(self, verb: str, question: bytes) -> bytes:
        shown = f"{self.url.shown}/{verb}"
        with closing(self._connection()) as connection:
            try:
                return self._ask(connection, verb, question, shown)
            except TimeoutError as error:
                raise PluginError(
                    f"extender at URL {shown}: no answer within {self._settings.timeout_s:g} s"
                ) from error
            except (http.client.HTTPException, OSError) as error:
                why = self.url.hide_in(str(error) or type(error).__name__)
                raise PluginError(f"extender at URL {shown}: {why}") from None

    def _connection(self) -> http.client.HTTPConnection:
        timeout_s, host, port = self._settings.timeout_s, self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._settings.ssl_context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _ask(self, connection: http.client.HTTPConnection, verb: str, question: bytes, url: str) -> bytes:
        deadline = time.monotonic() + self._settings.timeout_s
        connection.request("POST", self._path(verb), body=question, headers=self._headers)
        with closing(connection.getresponse()) as response:  # which may hold the socket by itself
            if response.status != 200:
                raise PluginError(f"failed {verb} with extender at URL {url}, code {response.status}")
            return _read(response, answer_limit(question), deadline, url)

    def _path(self, verb: str) -> str:
        """Return the request target for a verb.

        Like kube-scheduler, append the verb to the whole URL, after any query.
        """
        path, query = self._parts.path, self._parts.query
        return f"{path or '/'}?{query}/{verb}" if query else f"{path}/{verb}"

    async def close(self) -> None:
        pass


def _read(response: http.client.HTTPResponse, limit: int, deadline: float, url: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(_CHUNK):
        size += len(chunk)
        if size > limit:
            raise PluginError(f"extender at URL {url}: expected an answer of at most {limit} bytes, got more")
        if time.monotonic() > deadline:
            raise TimeoutError
        chunks.append(chunk)
    return b"".join(chunks)
