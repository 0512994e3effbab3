"""What plugins of guests are lent: nothing before there is a scheduler, everything of it afterwards."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kscheduler.api.documents import NodeDocument
from kscheduler.client.protocol import Regarding
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.loading.hosts import Lender, host_of

POD = PodInfo(make_pod("p").obj())


class Clock:
    def now(self) -> float:
        return 7.0

    def wall(self) -> float:
        return 9.0


class Told:
    """Observer and recorder."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def wasm_called(self, plugin: str, seconds: float, fault: str) -> None:
        self.calls.append(("called", (plugin, seconds, fault)))

    def wasm_sizes(self, plugin: str, instances: int, memory_pages: int) -> None:
        self.calls.append(("sizes", (plugin, instances, memory_pages)))

    def wasm_quarantined(self, plugin: str, quarantined: bool, reason: str) -> None:
        self.calls.append(("quarantined", (plugin, quarantined, reason)))

    def record(self, regarding: Any, **fields: Any) -> None:
        name = regarding.name if isinstance(regarding, Regarding) else regarding.metadata.name
        self.calls.append((name, (fields["type"], fields["reason"], fields["note"])))


def use(lender: Lender) -> None:
    lender.wasm_called("x", 1.0, "")
    lender.wasm_sizes("x", 1, 2)
    lender.wasm_quarantined("X.y", True, "trap")
    lender.record_of_pod(POD, "Normal", "Because", "so it is")


@pytest.fixture
def told() -> Told:
    return Told()


def test_without_a_scheduler_nothing_is_told_and_the_clock_is_the_machines() -> None:
    lender = Lender()
    use(lender)
    assert lender.now() <= lender.now()
    assert lender.wall() > 1_700_000_000


def test_a_scheduler_is_told_everything_and_its_clock_counts(told: Told) -> None:
    lender = Lender()
    lender.attach(clock=Clock(), observer=told, recorder=told, nodes={"n": NodeDocument()})
    use(lender)
    assert told.calls == [
        ("called", ("x", 1.0, "")),
        ("sizes", ("x", 1, 2)),
        ("quarantined", ("X.y", True, "trap")),
        ("x-y", ("Warning", "PluginQuarantined", "plugin X.y: trap")),
        ("p", ("Normal", "Because", "so it is")),
    ]
    assert (lender.now(), lender.wall()) == (7.0, 9.0)
    assert (lender.node("n"), lender.node("m"), lender.pod(POD.pod)) == (NodeDocument(), None, None)


def test_events_of_a_version_that_is_tried_out_in_another_thread_are_left_out(told: Told) -> None:
    lender = Lender()
    lender.attach(clock=Clock(), observer=told, recorder=told, nodes={"n": NodeDocument()})
    thread = threading.Thread(target=use, args=(lender,))
    thread.start()
    thread.join()
    assert [what for what, _ in told.calls] == ["called", "sizes", "quarantined"]


def test_what_became_of_a_new_version_is_an_event_of_the_plugin(told: Told) -> None:
    lender = Lender()
    lender.record_refusal("X.y", "it traps")  # nobody hears it
    lender.attach(clock=Clock(), observer=told, recorder=told, nodes={})
    lender.record_refusal("X.y", "it traps")
    lender.record_replacement("X.y", "abc")
    assert told.calls == [
        ("x-y", ("Warning", "PluginVersionRefused", "plugin X.y: it traps; the version that runs goes on")),
        ("x-y", ("Normal", "PluginReplaced", "plugin X.y: now runs sha256 abc")),
    ]


def test_who_tries_a_version_may_watch_its_pool(told: Told) -> None:
    lender = Lender(observer=told)
    use(lender)
    assert [what for what, _ in told.calls] == ["called", "sizes", "quarantined"]


def test_an_object_is_encoded_once_for_all_guests_that_see_it() -> None:
    lender = Lender()
    for _ in range(2):
        host_of(Abi.EXTENSION, lender)
    first = lender.encoder
    assert first is not None
    host_of(Abi.EXTENSION, lender)
    assert lender.encoder is first
