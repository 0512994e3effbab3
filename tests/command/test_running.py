"""A scheduler that waits for the apiserver before it runs can be stopped by signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.command.emulation import Emulation
from kscheduler.command.running import until_signal, warn, with_probes
from kscheduler.command.stop_signals import SIGNALS, end_at_once, end_hurried
from kscheduler.config.load import parse_config
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from tests.config.documents import HEAD


@pytest.fixture
def handled() -> Iterator[None]:
    """Signals are handled as in a scheduler that starts."""
    before = {number: signal.signal(number, end_at_once) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.usefixtures("handled")
async def test_a_scheduler_that_waits_for_the_apiservers_version_can_be_stopped(number: signal.Signals) -> None:
    asyncio.get_running_loop().call_soon(signal.raise_signal, number)
    assert await until_signal(asyncio.Event().wait()) is None
    assert [signal.getsignal(each) for each in SIGNALS] == [end_hurried, end_hurried]  # by a second signal, at once


@pytest.mark.usefixtures("handled")
async def test_after_the_wait_signals_are_handled_as_before() -> None:
    assert await until_signal(asyncio.sleep(0.0, "chosen")) == "chosen"
    assert [signal.getsignal(number) for number in SIGNALS] == [end_at_once, end_at_once]


async def test_what_is_waited_for_is_returned_or_raised() -> None:
    assert await until_signal(asyncio.sleep(0.0, "chosen")) == "chosen"
    with pytest.raises(ConfigError, match="wrong"):
        await until_signal(_wrong())


class Endpoint:
    """Notes when it is started and stopped."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_started = asyncio.Event()

    async def start(self) -> None:
        self.calls.append("start")
        self.is_started.set()

    async def stop(self) -> None:
        self.calls.append("stop")


async def test_probes_are_answered_while_the_apiserver_is_waited_for_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kscheduler.command.running.PROBES_AFTER_S", 0.0)
    endpoint = Endpoint()

    async def until_it_serves() -> str:
        await endpoint.is_started.wait()
        return "chosen"

    assert await with_probes(until_it_serves(), lambda: endpoint) == "chosen"
    assert endpoint.calls == ["start", "stop"]


async def test_an_apiserver_that_answers_soon_needs_no_endpoint_for_probes() -> None:
    endpoint = Endpoint()
    assert await with_probes(asyncio.sleep(0.0, "chosen"), lambda: endpoint) == "chosen"
    with pytest.raises(ConfigError, match="wrong"):
        await with_probes(_wrong(), lambda: endpoint)
    assert endpoint.calls == []


async def test_a_wait_without_an_endpoint_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.command.running.PROBES_AFTER_S", 0.0)
    assert await with_probes(asyncio.sleep(0.01, "chosen"), None) == "chosen"


async def _wrong() -> None:
    raise ConfigError("wrong")


def test_fields_of_a_file_that_have_no_effect_are_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    emulation = Emulation(parse_config(HEAD + "parallelism: 32\n"))
    warn(emulation, None, is_from_file=False)
    assert caplog.records == []
    warn(emulation, None, is_from_file=True)
    (record,) = caplog.records
    assert vars(record)["reason"] == "parallelism has no effect: kernels look at all nodes"


def test_a_bind_plugin_that_is_never_asked_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "logged_binder.py").write_text(
        "class Mine:\n    name = 'Mine'\n    def __init__(self, args, handle): pass\n"
        "    async def bind(self, state, pod, node_name): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    body = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'logged_binder:Mine'}]}}}]"
    warn(Emulation(parse_config(HEAD + body, find_plugins=find_plugins)), None, is_from_file=True)
    (record,) = caplog.records
    assert record.message == "a Bind plugin behind DefaultBinder is never asked"
    assert vars(record)["plugin"] == "logged_binder:Mine"
