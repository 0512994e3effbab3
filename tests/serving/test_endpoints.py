"""Servers that start and stop as one."""

from __future__ import annotations

import pytest

from kscheduler.errors import ConfigError
from kscheduler.serving.endpoints import Endpoints


class Fake:
    def __init__(self, name: str, told: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.told = told
        self.fails = fails

    async def start(self) -> None:
        self.told.append(f"start {self.name}")
        if self.fails:
            raise ConfigError("cannot listen")

    async def stop(self) -> None:
        self.told.append(f"stop {self.name}")


async def test_all_start_and_all_stop() -> None:
    told: list[str] = []
    servers = Endpoints([Fake("a", told), Fake("b", told)])
    await servers.start()
    await servers.stop()
    assert told == ["start a", "start b", "stop a", "stop b"]


async def test_if_one_cannot_listen_none_does() -> None:
    told: list[str] = []
    with pytest.raises(ConfigError):
        await Endpoints([Fake("a", told), Fake("b", told, fails=True)]).start()
    assert told == ["start a", "start b", "stop a", "stop b"]
