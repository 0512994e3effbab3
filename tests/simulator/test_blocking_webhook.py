"""Questions to real extenders from within virtual time: answers, and what goes wrong."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kscheduler.config.duration import Duration
from kscheduler.config.types import Extender
from kscheduler.errors import ConfigError, PluginError
from kscheduler.input.redaction import SecretURL
from kscheduler.simulator.blocking_webhook import BlockingWebhook
from kscheduler.simulator.virtual_time import run_virtual

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer(self, self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *parts: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/prefix"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, timeout_s: float = 5.0) -> tuple[bytes, float]:
    """The answer, and the virtual seconds it took."""

    async def question() -> tuple[bytes, float]:
        webhook = BlockingWebhook(
            Extender(url_prefix=SecretURL(url), http_timeout=Duration(int(timeout_s * 1e9))), "extenders[0]"
        )
        loop = asyncio.get_running_loop()
        started = loop.time()
        return await webhook.ask("filter", b"question"), loop.time() - started

    return run_virtual(question())


def say(status: int, body: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, question: bytes) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_an_answer_costs_no_virtual_time() -> None:
    def echo(handler: BaseHTTPRequestHandler, question: bytes) -> None:
        say(200, handler.path.encode() + b" " + question)(handler, question)

    with serving(echo) as url:
        assert ask(url) == (b"/prefix/filter question", 0.0)


def test_another_status_is_a_fault() -> None:
    with serving(say(503, b"")) as url, pytest.raises(PluginError, match=f"extender at URL {url}/filter, code 503"):
        ask(url)


def test_an_answer_that_is_far_too_large_is_a_fault() -> None:
    with serving(say(200, b"x" * (3 << 20))) as url, pytest.raises(PluginError, match="expected an answer of at most"):
        ask(url)


def test_a_server_that_does_not_answer_is_given_up() -> None:
    def sleep(handler: BaseHTTPRequestHandler, question: bytes) -> None:
        time.sleep(0.3)

    with serving(sleep) as url, pytest.raises(PluginError, match=r"no answer within 0.05 s"):
        ask(url, 0.05)


def test_nobody_there_is_a_fault() -> None:
    with serving(say(200, b"")) as url:
        pass
    with pytest.raises(PluginError, match=f"extender at URL {url}/filter: "):
        ask(url)


def test_a_url_that_cannot_be_asked_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"extenders\[2\].urlPrefix"):
        BlockingWebhook(Extender(url_prefix=SecretURL("host:80")), "extenders[2]")
