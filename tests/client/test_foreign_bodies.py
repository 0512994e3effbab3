from __future__ import annotations

import gzip
import logging

import pytest

from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.foreign_bodies import kind_of_foreign
from kscheduler.client.kinds import PODS
from kscheduler.client.kube import KubeClient
from kscheduler.client.protobuf import MAGIC
from kscheduler.errors import APIError, Unreachable
from tests.client.fake_apiserver import BINDING, FakeAPIServer, WatchScript
from tests.support.clocks import CLOCK

PAGE = b"\r\n<!DOCTYPE html>\r\n<html>\r\n<body>\r\n<h1>Maintenance</h1>\r\n</body>\r\n</html>\r\n"
HTML = "HTML or XML, as proxies and load balancers write it"


def test_what_an_apiserver_may_have_written_is_not_foreign() -> None:
    assert [kind_of_foreign(body) for body in (b'{"kind":"List"}', MAGIC + b"\x0a", b"spoilt")] == ["", "", ""]


def test_what_no_apiserver_writes_has_a_name() -> None:
    assert kind_of_foreign(PAGE) == HTML
    assert kind_of_foreign(gzip.compress(b"{}")) == "gzip, which was not asked for"
    assert kind_of_foreign(b"") == kind_of_foreign(b" \r\n") == "nothing"


async def test_a_page_in_place_of_an_answer_is_named_and_warned_of_once_for_each_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeAPIServer().running() as server:
        client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=-1)
        for verb in ("GET", "POST"):
            server.fail(verb, "/", body=PAGE, times=100)
        with pytest.raises(APIError, match=f"list of pods: expected JSON, got {HTML}$"):
            await client.list_page(PODS)
        expected = f"expected an apiserver's answer to a write, as JSON or protobuf, got a success with {HTML}$"
        with pytest.raises(Unreachable, match=expected):
            await client.bind(BINDING)
        server.faults.clear()
        server.watches.append(WatchScript([PAGE]))
        with caplog.at_level(logging.WARNING):
            events = [event async for batch in client.watch(PODS, resource_version="1") for event in batch]
        assert len(events) == len(PAGE.split(b"\n")) - 1
        assert [record.__dict__["err"] for record in caplog.records] == [f"expected JSON, got {HTML}"]
        await client.close()


async def test_a_redirect_is_not_followed_and_called_one() -> None:
    async with FakeAPIServer().running() as server:
        client = KubeClient(Credentials(Endpoint(server.url, None), CLOCK), CLOCK, qps=-1)
        for verb in ("GET", "POST"):
            server.fail(verb, "/", status=307, body=b"", times=1)
        for request in (client.list_page(PODS), client.bind(BINDING)):
            with pytest.raises(
                APIError, match=r"307: a redirect, which no apiserver sends, and which is not followed$"
            ):
                await request
        assert len(server.requests) == 2
        await client.close()
