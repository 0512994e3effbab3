"""What plugins of guests are lent: nothing before there is a scheduler, everything of it afterwards."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from kscheduler.api.documents import NodeDocument
from kscheduler.client.protocol import Regarding
from kscheduler.client.recorder import EventRecorder
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.wasm.engine import FaultKind, GuestFault, Instance
from kscheduler.wasm.loading.abi import Abi
from kscheduler.wasm.pool import Pool, PoolOptions
from kscheduler.wasm.scheduler_link import Lender, host_of
from tests.support.clocks import ManualClock
from tests.wasm.batch.fake_guest import FakeModule, ListGuest

POD = PodInfo(make_pod("p").obj())


class Clock:
    def now(self) -> float:
        return 7.0

    def wall(self) -> float:
        return 9.0


class Reported:
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
def reported() -> Reported:
    return Reported()


def test_without_a_scheduler_nothing_is_reported_and_the_clock_is_the_machines() -> None:
    lender = Lender()
    use(lender)
    assert lender.now() <= lender.now()
    assert lender.wall() > 1_700_000_000


def test_everything_is_reported_to_a_scheduler_and_its_clock_counts(reported: Reported) -> None:
    lender = Lender()
    lender.attach(clock=Clock(), observer=reported, recorder=reported, nodes={"n": NodeDocument()})
    use(lender)
    assert reported.calls == [
        ("called", ("x", 1.0, "")),
        ("sizes", ("x", 1, 2)),
        ("quarantined", ("X.y", True, "trap")),
        ("x-y", ("Warning", "PluginQuarantined", "plugin X.y: trap")),
        ("p", ("Normal", "Because", "so it is")),
    ]
    assert (lender.now(), lender.wall()) == (7.0, 9.0)
    assert (lender.node("n"), lender.node("m"), lender.pod(POD.pod)) == (NodeDocument(), None, None)


def test_the_event_of_each_version_keeps_its_own_reason_and_only_repetitions_are_counted(reported: Reported) -> None:
    async def main() -> list[tuple[str, int]]:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = Cluster(clock)
        recorder = EventRecorder(cluster.client(), clock, random.Random(1), controller="c", instance="i")
        lender = Lender()
        lender.attach(clock=clock, observer=reported, recorder=recorder, nodes={})
        for why in ("sha256 1: traps", "sha256 2: loops", "sha256 2: loops"):
            lender.record_refusal("x", why)
        writing = asyncio.ensure_future(recorder.run())
        await asyncio.sleep(10)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        counts = [(event.note, event.series) for event in cluster.events]
        return [(note, 1 if series is None else series.count) for note, series in counts]

    goes_on = "; the version that runs goes on"
    assert run_virtual(main()) == [
        (f"plugin x: sha256 1: traps{goes_on}", 1),
        (f"plugin x: sha256 2: loops{goes_on}", 2),
    ]


def test_events_of_a_version_that_is_tried_out_in_another_thread_are_left_out(reported: Reported) -> None:
    lender = Lender()
    lender.attach(clock=Clock(), observer=reported, recorder=reported, nodes={"n": NodeDocument()})
    thread = threading.Thread(target=use, args=(lender,))
    thread.start()
    thread.join()
    assert [what for what, _ in reported.calls] == ["called", "sizes", "quarantined"]


async def test_events_of_guests_that_bind_beside_the_loop_are_recorded_by_its_thread(reported: Reported) -> None:
    lender = Lender(has_threads=True)
    lender.attach(clock=Clock(), observer=reported, recorder=reported, nodes={})
    threads, recorded_on = lender.threads, []
    assert threads is not None
    record = reported.record

    def noting(*args: Any, **fields: Any) -> None:
        recorded_on.append(threading.get_ident())
        record(*args, **fields)

    reported.record = noting  # type: ignore[method-assign]
    await threads.run(lambda: use(lender))
    await asyncio.to_thread(use, lender)  # as a version on trial: left out
    await asyncio.sleep(0)
    threads.close()
    assert [what for what, _ in reported.calls if what in ("x-y", "p")] == ["x-y", "p"]
    assert recorded_on == [threading.get_ident()] * 2


def test_an_event_from_beside_a_loop_that_has_ended_is_nobodys(reported: Reported) -> None:
    lender = Lender(has_threads=True)
    lender.attach(clock=Clock(), observer=reported, recorder=reported, nodes={})
    threads, has_begun, has_ended = lender.threads, threading.Event(), threading.Event()
    assert threads is not None

    def work() -> None:
        has_begun.set()
        eventually(has_ended.is_set, "it has ended")
        use(lender)

    async def begin() -> None:
        asked = asyncio.ensure_future(threads.run(work))
        await asyncio.to_thread(has_begun.wait, 10.0)
        asked.cancel()

    asyncio.run(begin())
    has_ended.set()
    threads.close()
    assert [what for what, _ in reported.calls] == ["called", "sizes", "quarantined"]


async def test_a_quarantine_that_begins_while_a_pod_binds_is_an_event(reported: Reported) -> None:
    lender = Lender(has_threads=True)
    lender.attach(clock=ManualClock(), observer=reported, recorder=reported, nodes={})
    pool = Pool("X", FakeModule(ListGuest()), PoolOptions(setup=_fail), lender, lender)
    assert lender.threads is not None
    for _ in range(3):
        with pytest.raises(GuestFault):
            await lender.threads.run(lambda: pool.hold("p"))
    await asyncio.sleep(0)
    lender.threads.close()
    assert reported.calls[-1] == ("x", ("Warning", "PluginQuarantined", "plugin X: no"))


def _fail(instance: Instance) -> None:
    raise GuestFault(FaultKind.TRAP, "no")


def test_what_became_of_a_new_version_is_an_event_of_the_plugin(reported: Reported) -> None:
    lender = Lender()
    lender.record_refusal("X.y", "it traps")  # nobody hears it
    lender.attach(clock=Clock(), observer=reported, recorder=reported, nodes={})
    lender.record_refusal("X.y", "it traps")
    lender.record_replacement("X.y", "abc")
    assert reported.calls == [
        ("x-y", ("Warning", "PluginVersionRefused", "plugin X.y: it traps; the version that runs goes on")),
        ("x-y", ("Normal", "PluginReplaced", "plugin X.y: now runs sha256 abc")),
    ]


def test_who_tries_a_version_may_watch_its_pool(reported: Reported) -> None:
    lender = Lender(observer=reported)
    use(lender)
    assert [what for what, _ in reported.calls] == ["called", "sizes", "quarantined"]


def test_an_object_is_encoded_once_for_all_guests_that_see_it() -> None:
    lender = Lender()
    for _ in range(2):
        host_of(Abi.EXTENSION, lender)
    first = lender.encoder
    assert first is not None
    host_of(Abi.EXTENSION, lender)
    assert lender.encoder is first
