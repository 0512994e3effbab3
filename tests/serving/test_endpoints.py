"""Servers that start and stop as one."""

from __future__ import annotations

import pytest

from kscheduler.errors import ConfigError
from kscheduler.serving.endpoints import Endpoints


class Fake:
    def __init__(self, name: str, reported: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.reported = reported
        self.fails = fails

    async def start(self) -> None:
        self.reported.append(f"start {self.name}")
        if self.fails:
            raise ConfigError("cannot listen")

    async def stop(self) -> None:
        self.reported.append(f"stop {self.name}")


async def test_all_start_and_all_stop() -> None:
    reported: list[str] = []
    servers = Endpoints([Fake("a", reported), Fake("b", reported)])
    await servers.start()
    await servers.stop()
    assert reported == ["start a", "start b", "stop a", "stop b"]


async def test_if_one_cannot_listen_none_does() -> None:
    reported: list[str] = []
    with pytest.raises(ConfigError):
        await Endpoints([Fake("a", reported), Fake("b", reported, fails=True)]).start()
    assert reported == ["start a", "start b", "stop a", "stop b"]
