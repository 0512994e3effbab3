"""The words for a server that cannot be reached, from real attempts."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import aiohttp
import pytest

from kscheduler.client.connect_errors import reason_of


async def refused(url: str, proxy: str | None = None) -> Exception:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as caught:
            await session.get(url, proxy=proxy)
    return caught.value


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that is bound, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def test_where_nobody_listens_the_connection_is_refused(silent: str) -> None:
    assert reason_of(await refused(f"http://{silent}")) == "Connection refused"


async def test_a_proxy_that_is_not_there_is_named(silent: str) -> None:
    error = await refused("http://example.com", proxy=f"http://{silent}")
    assert reason_of(error) == f"proxy {silent}: Connection refused"


async def test_a_name_that_nobody_knows_is_the_resolvers_word() -> None:
    error = await refused("http://nobody.invalid")
    assert "ssl:default" not in reason_of(error)
    assert "name" in reason_of(error).lower() or "resol" in reason_of(error).lower()


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("no size"), "no size"), (aiohttp.ServerDisconnectedError(), "Server disconnected")]
)
def test_other_errors_have_their_own_words(error: Exception, text: str) -> None:
    assert reason_of(error) == text


def test_an_error_without_a_text_is_named() -> None:
    assert reason_of(ConnectionResetError()) == "ConnectionResetError"
