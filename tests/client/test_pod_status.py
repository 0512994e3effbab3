"""PodScheduled conditions on their lane: the newest only, a few tries, and nothing after the pod is bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client import pod_status
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kube import status_patch_body
from kscheduler.client.pod_status import TRIES, WORKERS, PodStatusLane
from kscheduler.client.protocol import Binding, PodStatusPatch
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient, Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing import make_pod


def waits(message: str, reason: str = "Unschedulable") -> PodCondition:
    return PodCondition(type="PodScheduled", status="False", reason=reason, message=message)


class Bench:
    def __init__(self, latency: Latency | None = None) -> None:
        self.cluster = Cluster(LoopClock(asyncio.get_running_loop()))
        self.client = self.cluster.client(latency=latency)
        self.faults = self.client.faults
        self.lane = PodStatusLane(self.client)
        self.writes = 0
        self.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=0, matches=self._count)

    def _count(self, subject: object) -> bool:
        self.writes += 1
        return False

    def pod(self, name: str = "p") -> Pod:
        return self.cluster.create_pod(make_pod(name).obj())

    def recorded(self, name: str = "p") -> str:
        conditions = self.cluster.get_pod("default", name).status.conditions or []
        return next((found.message for found in conditions if found.type == "PodScheduled"), "")


def run(scenario: Callable[[Bench], Awaitable[None]], latency: Latency | None = None) -> None:
    async def main() -> None:
        bench = Bench(latency)
        lane = asyncio.ensure_future(bench.lane.run())
        await scenario(bench)
        assert not lane.done()
        lane.cancel()
        await asyncio.gather(lane, return_exceptions=True)

    run_virtual(main())


def test_a_condition_is_written_soon_and_once() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        for _ in range(3):
            bench.lane.patch(pod, waits("no room"))
            await asyncio.sleep(1)
        assert bench.recorded() == "no room"
        assert bench.writes == 1

    run(scenario)


def test_a_condition_that_the_pod_has_already_is_not_written() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.cluster.create_pod(
            make_pod("p").condition("PodScheduled", "False", "Unschedulable", "no room").obj()
        )
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(1)
        assert bench.writes == 0
        bench.lane.patch(pod, waits("no room", reason="SchedulerError"))
        await asyncio.sleep(1)
        assert bench.writes == 1

    run(scenario)


def test_of_several_conditions_in_a_hurry_the_newest_is_written() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        for message in ("one", "two", "three"):
            bench.lane.patch(pod, waits(message))
        await asyncio.sleep(1)
        assert bench.recorded() == "three"
        assert bench.writes == 1

    run(scenario)


def test_pods_do_not_wait_for_one_another() -> None:
    async def scenario(bench: Bench) -> None:
        for index in range(4):
            bench.lane.patch(bench.pod(f"p{index}"), waits("no room"))
        await asyncio.sleep(0.11)
        assert [bench.recorded(f"p{index}") for index in range(4)] == ["no room"] * 4

    run(scenario, Latency(write_s=0.1))


class EncodingClient:
    """Encodes patches as the client of a real apiserver does, and hands them to one in memory."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def patch_pod_status(self, pod: Pod, patch: PodStatusPatch, on_overdue: Callable[[], None]) -> None:
        status_patch_body(pod.metadata.uid, patch)
        await self._client.patch_pod_status(pod, patch, on_overdue)


def test_a_condition_that_cannot_be_encoded_is_logged_and_those_of_other_pods_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        lane = PodStatusLane(EncodingClient(bench.client))  # type: ignore[arg-type]
        running = asyncio.ensure_future(lane.run())
        for index in range(2 * WORKERS):
            lane.patch(bench.pod(f"odd{index}"), waits("no \ud800"))
        lane.patch(bench.pod("even"), waits("no room"))
        await asyncio.sleep(1)
        await cancel_and_wait(running)
        assert bench.recorded("even") == "no room"
        assert len([record for record in caplog.records if record.exc_info]) == 2 * WORKERS

    run(scenario)


@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.TIMEOUT, FaultKind.TOO_MANY_REQUESTS])
def test_a_write_that_fails_is_tried_a_few_times(kind: FaultKind) -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(kind, Verb.PATCH_STATUS, count=TRIES - 1)
        bench.lane.patch(bench.pod(), waits("no room"))
        await asyncio.sleep(10)
        assert bench.recorded() == "no room"

    run(scenario)


def test_a_write_that_keeps_failing_is_given_up_with_a_warning_and_made_at_the_next_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=TRIES)
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(60)
        assert (bench.recorded(), bench.writes) == ("", TRIES)
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(1)
        assert bench.recorded() == "no room"

    run(scenario)
    assert [record.message for record in caplog.records] == ["pod condition not written"]


@pytest.mark.parametrize("kind", [FaultKind.NOT_FOUND, FaultKind.CONFLICT])
def test_a_pod_that_is_gone_is_let_go(kind: FaultKind) -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(kind, Verb.PATCH_STATUS)
        bench.lane.patch(bench.pod(), waits("no room"))
        await asyncio.sleep(60)
        assert bench.writes == 1

    run(scenario)


def test_a_certain_refusal_is_not_met_a_second_time(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(FaultKind.GONE, Verb.PATCH_STATUS, count=1)
        bench.lane.patch(bench.pod("refused"), waits("no room"))
        bench.lane.patch(bench.pod("next"), waits("no room"))
        await asyncio.sleep(0.01)
        assert bench.recorded("next") == "no room"
        await asyncio.sleep(60)
        assert bench.writes == 2

    run(scenario)
    assert [record.message for record in caplog.records] == ["pod condition not written"]


def test_a_cause_for_which_the_conditions_of_all_pods_fail_is_logged_once_until_one_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(FaultKind.UNAUTHORIZED, Verb.PATCH_STATUS, count=50)
        bench.faults.add(FaultKind.FORBIDDEN, Verb.PATCH_STATUS, count=50)
        for number in range(101):
            bench.lane.patch(bench.pod(f"p{number}"), waits("no room"))
            await asyncio.sleep(0.1)
        assert bench.recorded("p100") == "no room"
        bench.faults.add(FaultKind.FORBIDDEN, Verb.PATCH_STATUS, count=50)
        for number in range(101, 151):
            bench.lane.patch(bench.pod(f"p{number}"), waits("no room"))
            await asyncio.sleep(0.1)

    run(scenario)
    assert [vars(record)["pod"] for record in caplog.records] == ["default/p0", "default/p50", "default/p101"]


def test_a_condition_still_waiting_when_its_pod_is_bound_is_dropped() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.lane.patch(pod, waits("no room"))
        bench.lane.forget(pod.metadata.uid)
        await asyncio.sleep(1)
        assert bench.writes == 0

    run(scenario)


def test_what_waits_when_its_pod_is_about_to_be_bound_is_withdrawn_and_can_be_written_again() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.lane.patch(pod, waits("no room"), "n1")
        bench.lane.withdraw(pod.metadata.uid)
        await asyncio.sleep(1)
        assert bench.writes == 0
        bench.lane.patch(pod, waits("no room"), "n1")
        await asyncio.sleep(1)
        assert (bench.writes, bench.recorded()) == (1, "no room")
        assert bench.cluster.get_pod("default", "p").status.nominated_node_name == "n1"

    run(scenario)


def test_a_condition_being_tried_when_its_pod_is_bound_is_not_tried_again() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(0.5)
        bench.cluster.bind(Binding("default", "p", pod.metadata.uid, "n1"))
        bench.lane.forget(pod.metadata.uid)
        await asyncio.sleep(60)
        assert bench.writes == 1
        assert bench.recorded() == ""

    run(scenario)


def test_a_newer_condition_takes_the_place_of_one_that_is_being_tried() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        bench.lane.patch(pod, waits("old"))
        await asyncio.sleep(0.5)
        bench.lane.patch(pod, waits("new"))
        await asyncio.sleep(60)
        assert bench.recorded() == "new"
        assert bench.writes == 2

    run(scenario)


def test_what_was_written_before_a_pod_was_forgotten_can_be_written_again() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        for _ in range(2):
            bench.lane.patch(pod, waits("no room"))
            await asyncio.sleep(1)
            bench.lane.forget(pod.metadata.uid)
        assert bench.writes == 2

    run(scenario)


def test_beyond_the_limit_the_oldest_condition_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_status, "MAX_WAITING", 2)

    async def scenario(bench: Bench) -> None:
        for index in range(3):
            bench.lane.patch(bench.pod(f"p{index}"), waits("no room"))
        await asyncio.sleep(1)
        assert [bench.recorded(f"p{index}") for index in range(3)] == ["", "no room", "no room"]

    run(scenario)


# --- nominations --------------------------------------------------------------------------------------------------


def nominated(bench: Bench) -> str:
    return bench.cluster.get_pod("default", "p").status.nominated_node_name


def test_a_nomination_is_written_with_the_condition_and_alone_if_that_is_recorded_already() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.lane.patch(pod, waits("no room"), "n1")
        await asyncio.sleep(1)
        assert (bench.recorded(), nominated(bench), bench.writes) == ("no room", "n1", 1)
        bench.lane.patch(bench.cluster.get_pod("default", "p"), waits("no room"), "n2")
        await asyncio.sleep(1)
        assert (bench.recorded(), nominated(bench), bench.writes) == ("no room", "n2", 2)

    run(scenario)


def test_a_nomination_that_is_written_or_none_of_the_patchs_business_is_left_alone() -> None:
    async def scenario(bench: Bench) -> None:
        bench.lane.patch(bench.pod(), waits("no room"), "n1")
        await asyncio.sleep(1)
        seen = bench.cluster.get_pod("default", "p")
        bench.lane.patch(seen, waits("no room"), "n1")
        bench.lane.patch(seen, waits("no room"), None)
        await asyncio.sleep(1)
        assert (nominated(bench), bench.writes) == ("n1", 1)
        bench.lane.patch(seen, waits("still none"), None)
        await asyncio.sleep(1)
        assert (bench.recorded(), nominated(bench)) == ("still none", "n1")

    run(scenario)


def test_a_nomination_is_taken_back_even_if_the_watch_has_not_shown_it_yet() -> None:
    async def scenario(bench: Bench) -> None:
        stale = bench.pod()
        bench.lane.patch(stale, waits("no room"), "n1")
        await asyncio.sleep(1)
        bench.lane.patch(stale, waits("no room"), "")
        await asyncio.sleep(1)
        assert nominated(bench) == ""

    run(scenario)


def test_patches_of_a_pod_that_wait_become_one_that_forgets_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.lane.patch(pod, waits("old"), "n1")
        bench.lane.patch(pod, waits("new"), None)
        await asyncio.sleep(1)
        assert (bench.recorded(), nominated(bench), bench.writes) == ("new", "n1", 1)

    run(scenario)


def test_a_pod_about_to_be_bound_is_nominated_before_the_call_returns() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.lane.patch(pod, waits("no room"), "")
        await bench.lane.nominate(pod, "n1")
        assert nominated(bench) == "n1"
        await asyncio.sleep(1)
        assert nominated(bench) == "n1"
        await bench.lane.nominate(bench.cluster.get_pod("default", "p"), "n1")
        assert bench.writes <= 2

    run(scenario)


def test_an_older_word_on_the_nomination_does_not_come_after_a_newer_one() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        bench.lane.patch(pod, waits("no room"), "n9")
        await asyncio.sleep(0.5)  # the lane has failed once, and will try again
        await bench.lane.nominate(pod, "n1")
        await asyncio.sleep(60)
        assert nominated(bench) == "n1"

    run(scenario)


def test_a_nomination_that_cannot_be_written_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        await bench.lane.nominate(bench.pod(), "n1")
        assert nominated(bench) == ""

    run(scenario)
    assert [record.message for record in caplog.records] == ["nominated node not written"]


def test_writes_that_hang_do_not_keep_others_from_being_written() -> None:
    async def scenario(bench: Bench) -> None:
        hung = [f"hung-{number}" for number in range(2 * WORKERS)]
        bench.faults.add(FaultKind.TIMEOUT, Verb.PATCH_STATUS, count=len(hung), delay_s=30.0)
        for name in [*hung, "next"]:
            bench.lane.patch(bench.pod(name), waits("no room"))
        await asyncio.sleep(5.0)
        assert bench.recorded("next") == "no room"
        # Each of those that hang has been repeated.
        assert all(bench.recorded(name) == "no room" for name in hung)
        await asyncio.sleep(60.0)
        assert bench.writes == 2 * len(hung) + 1

    run(scenario)


def test_a_late_answer_counts_and_what_is_newer_is_not_overtaken() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=1, delay_s=4.0)
        pod = bench.pod()
        bench.lane.patch(pod, waits("old"))
        await asyncio.sleep(0.5)
        bench.lane.patch(pod, waits("new"))
        await asyncio.sleep(60.0)
        assert bench.recorded() == "new"

    run(scenario)


def test_a_nomination_is_not_overtaken_by_an_overdue_one() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=2, delay_s=10.0)
        bench.lane.patch(pod, waits("no room"), "n9")
        await asyncio.sleep(1.5)  # the first request is overdue, and the second under way
        await bench.lane.nominate(pod, "n1")
        await asyncio.sleep(60.0)
        assert nominated(bench) == "n1"

    run(scenario)


def test_an_overdue_condition_is_not_written_once_its_pod_is_about_to_be_bound() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=2, delay_s=10.0)
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(1.5)
        bench.lane.withdraw(pod.metadata.uid)
        await asyncio.sleep(60.0)
        assert bench.recorded() == ""

    run(scenario)


def test_an_overdue_condition_is_given_up_for_a_newer_one_even_if_that_is_refused() -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        bench.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=2, delay_s=10.0)
        bench.faults.add(FaultKind.FORBIDDEN, Verb.PATCH_STATUS, count=1)
        bench.lane.patch(pod, waits("old"))
        await asyncio.sleep(1.5)
        bench.lane.patch(pod, waits("new"))
        await asyncio.sleep(60.0)
        assert bench.recorded() == ""

    run(scenario)


@pytest.mark.parametrize(
    "delays_s", [pytest.param([10.0], id="the repeat is answered"), pytest.param([2.5, 10.0, 10.0], id="the first is")]
)
def test_once_one_request_of_a_patch_is_answered_the_others_change_the_pod_no_more(delays_s: list[float]) -> None:
    async def scenario(bench: Bench) -> None:
        pod = bench.pod()
        for delay_s in delays_s:
            bench.faults.add(FaultKind.SLOW, Verb.PATCH_STATUS, count=1, delay_s=delay_s)
        bench.lane.patch(pod, waits("no room"))
        await asyncio.sleep(5.0)
        assert bench.recorded() == "no room"
        bench.cluster.patch_pod_status(pod, PodStatusPatch(waits("of somebody else")))
        await asyncio.sleep(60.0)
        assert bench.recorded() == "of somebody else"

    run(scenario)


def test_a_program_that_ends_while_a_write_is_overdue_reports_no_fault() -> None:
    faults: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        bench = Bench()
        bench.faults.add(FaultKind.TIMEOUT, Verb.PATCH_STATUS, count=9, delay_s=30.0)
        lane = asyncio.ensure_future(bench.lane.run())
        bench.lane.patch(bench.pod(), waits("no room"))
        await asyncio.sleep(1.2)  # the first is overdue, and the second under way
        lane.cancel()
        await asyncio.gather(lane, return_exceptions=True)
        await asyncio.sleep(0)

    run_virtual(main())
    assert faults == []


def test_a_nomination_that_hangs_does_not_hold_up_the_binding() -> None:
    async def scenario(bench: Bench) -> None:
        bench.faults.add(FaultKind.TIMEOUT, Verb.PATCH_STATUS, count=1, delay_s=30.0)
        began_s = asyncio.get_running_loop().time()
        await bench.lane.nominate(bench.pod(), "n1")
        assert asyncio.get_running_loop().time() - began_s < 2.0

    run(scenario)
