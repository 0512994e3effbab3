"""Leader election on the cluster in memory, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypedDict

import msgspec
import pytest

from kscheduler.api.objects import Lease, LeaseSpec, ObjectMeta
from kscheduler.client.handover import Seen, handover_of
from kscheduler.client.kinds import LEASES
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector, LeadershipLost
from kscheduler.client.times import micro_time
from kscheduler.errors import APIError, ConfigError
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.support.waits import until

KEY = "kube-system/kube-scheduler"


class JumpingClock(LoopClock):
    """Wall time can be set; monotonic time cannot."""

    jump_s = 0.0

    def wall(self) -> float:
        return super().wall() + self.jump_s


class Candidate(TypedDict, total=False):
    """What a replica may say about its candidacy."""

    may_try: Callable[[], bool]
    confirm: Callable[[], Coroutine[Any, Any, None]]
    seen: Callable[[], Seen | None]


class Replica:
    """One elector as a task, and what became of it."""

    def __init__(self, world: World, name: str, candidate: Candidate, **durations: float) -> None:
        self.name = name
        self.clock = JumpingClock(asyncio.get_running_loop())
        self.client: ClusterClient = world.cluster.client()
        self.log: list[tuple[float, str]] = []
        self.elector = LeaderElector(
            self.client,
            self.clock,
            random.Random(name),
            ElectionConfig(name, **durations),  # type: ignore[arg-type]
            on_started=lambda: self._note("started"),
            **candidate,
        )
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self.elector.run()
        finally:
            self._note("stopped")

    def _note(self, what: str) -> None:
        self.log.append((self.clock.now(), what))

    def when(self, what: str) -> float:
        return next(at for at, happened in self.log if happened == what)

    async def kill(self) -> None:
        """As SIGKILL: no release."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class World:
    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.replicas: list[Replica] = []
        self.beside: list[float] = []  # times at which two led
        self.led_s = 0.0  # how long there was a leader

    def start(self, name: str, candidate: Candidate = {}, **durations: float) -> Replica:  # noqa: B006
        replica = Replica(self, name, candidate, **durations)
        self.replicas.append(replica)
        return replica

    @property
    def lease(self) -> Lease:
        return self.cluster.leases[KEY]

    @property
    def leaders(self) -> list[str]:
        return [replica.name for replica in self.replicas if replica.elector.is_leader]

    async def observe(self) -> None:
        """The one promise: never two leaders."""
        while True:
            self.led_s += 0.05 * bool(self.leaders)
            if len(self.leaders) > 1:
                self.beside.append(self.clock.now())
            await asyncio.sleep(0.05)


def simulate(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        observer = asyncio.ensure_future(world.observe())
        try:
            await scenario(world)
        finally:
            for task in [observer, *(replica.task for replica in world.replicas)]:
                task.cancel()
            await asyncio.gather(*(replica.task for replica in world.replicas), observer, return_exceptions=True)
        assert world.beside == []

    run_virtual(main())


def test_an_absent_lease_is_created_with_client_gos_fields() -> None:
    async def scenario(world: World) -> None:
        replica = world.start("a")
        await asyncio.sleep(1)
        now = micro_time(1_700_000_000.0)
        assert world.lease.spec == LeaseSpec("a", 15, now, now, 0)
        assert replica.elector.is_leader
        assert replica.log == [(0.0, "started")]

    simulate(scenario)


def test_the_leader_renews_every_retry_period_without_reading() -> None:
    async def scenario(world: World) -> None:
        replica = world.start("a")
        reads: list[str] = []
        await asyncio.sleep(1)
        replica.client.get_lease = _note_calls(reads, replica.client.get_lease)  # type: ignore[method-assign, assignment]
        await asyncio.sleep(60)
        assert world.lease.spec.acquire_time == micro_time(1_700_000_000.0)
        assert world.lease.spec.renew_time == micro_time(1_700_000_060.0)
        assert world.lease.spec.lease_transitions == 0
        assert replica.elector.last_renew == 60.0
        assert reads == []

    simulate(scenario)


def _note_calls(calls: list[str], function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def noting(*args: Any) -> Any:
        calls.append("read")
        return await function(*args)

    return noting


def test_of_two_that_race_one_leads_and_the_other_knows_it() -> None:
    async def scenario(world: World) -> None:
        a, b = world.start("a"), world.start("b")
        await asyncio.sleep(100)
        (leader,) = world.leaders
        assert {a.elector.leader_identity, b.elector.leader_identity} == {leader}
        assert world.lease.spec.lease_transitions == 0

    simulate(scenario)


def test_a_released_lease_is_taken_over_at_once() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        await asyncio.sleep(29.3)
        await a.elector.stop()
        await a.task
        await asyncio.sleep(3)
        assert a.log[-1] == (30.3, "stopped")
        assert b.when("started") - 30.3 < 0.1
        assert world.lease.spec.holder_identity == "b"
        assert world.lease.spec.lease_transitions == 1
        assert world.lease.spec.lease_duration_seconds == 15

    simulate(scenario)


def test_a_released_lease_is_taken_over_at_once_however_seldom_candidates_try() -> None:
    async def scenario(world: World) -> None:
        seldom = {"lease_duration_s": 7200.0, "renew_deadline_s": 5400.0, "retry_period_s": 3600.0}
        a = world.start("a", {}, **seldom)
        await asyncio.sleep(1)
        b = world.start("b", {}, **seldom)
        await asyncio.sleep(29)
        await a.elector.stop()
        await a.task
        await asyncio.sleep(3)
        assert b.when("started") - a.when("stopped") < 0.1

    simulate(scenario)


def test_a_lease_that_is_released_between_its_first_read_and_the_watch_is_taken_over_at_once() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        list_page = b.client.list_page

        async def list_late(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(0.5)
            assert b.elector.leader_identity == "a", "it has read the Lease"
            await a.elector.stop()
            await a.task
            return await list_page(*args, **options)

        b.client.list_page = list_late  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert b.when("started") - a.when("stopped") < 0.1

    simulate(scenario)


def test_without_a_watch_a_released_lease_is_taken_at_the_next_poll() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        b.client.faults.add(FaultKind.SERVER_ERROR, [Verb.WATCH, Verb.LIST])
        await asyncio.sleep(29)
        await a.elector.stop()
        await asyncio.sleep(5)
        assert b.when("started") - 30 <= 2.0 * 2.2

    simulate(scenario)


def test_a_released_lease_has_no_holder_and_keeps_its_transitions() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(5)
        await a.elector.stop()
        await a.task
        now = micro_time(1_700_000_005.0)
        assert world.lease.spec == LeaseSpec("", 1, now, now, 0)
        assert not a.elector.is_leader

    simulate(scenario)


def test_a_dead_leader_is_succeeded_when_its_lease_runs_out() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b, c = world.start("b"), world.start("c")
        await asyncio.sleep(30)
        await a.kill()
        last_renewal = 30.0
        await asyncio.sleep(20)
        (leader,) = world.leaders
        heir = b if leader == "b" else c
        assert 15.0 <= heir.when("started") - last_renewal <= 15.0 + 2.0
        assert world.lease.spec.lease_transitions == 1

    simulate(scenario)


def test_losing_the_apiserver_ends_leadership_before_anyone_may_follow() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        await asyncio.sleep(10)
        a.client.faults.add(FaultKind.TIMEOUT, list(_requests()), delay_s=3.0)
        await asyncio.sleep(60)
        with pytest.raises(LeadershipLost, match="not renewed within 10 s"):
            await a.task
        # Last renewal at 10 s; the next try begins a retry period later and has the renew deadline.
        assert a.when("stopped") == pytest.approx(22.0)
        assert b.when("started") >= 25.0

    simulate(scenario)


def _requests() -> set[Verb]:
    return set(Verb) - {Verb.DELIVER}


def test_an_answer_that_never_comes_does_not_outlast_the_renew_deadline() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        a.client.faults.add(FaultKind.TIMEOUT, list(_requests()), delay_s=3600.0)
        await asyncio.sleep(60)
        assert a.when("stopped") == pytest.approx(12.0)

    simulate(scenario)


def test_a_short_outage_is_survived() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        world.cluster.stop()
        await asyncio.sleep(8)
        world.cluster.start()
        await asyncio.sleep(20)
        assert world.leaders == ["a"]
        assert ("stopped") not in [what for _, what in a.log]

    simulate(scenario)


def test_a_lease_that_cannot_be_read_is_logged_once_for_each_cause_and_when_it_can_be_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        world.start("a")
        await asyncio.sleep(1)
        standby = world.start("b")
        await asyncio.sleep(10)
        standby.client.faults.add(FaultKind.UNAVAILABLE, list(_requests()), count=600)
        standby.client.faults.add(FaultKind.FORBIDDEN, list(_requests()), count=600)
        await asyncio.sleep(3600)

    caplog.set_level(logging.INFO, logger="kscheduler.client.leaderelection")
    simulate(scenario)
    lines = [vars(record) for record in caplog.records if vars(record)["identity"] == "b"]
    assert [(line["levelname"], line["message"]) for line in lines if "leader" not in line["message"]] == [
        ("WARNING", "lease could not be read or written"),
        ("WARNING", "lease could not be read or written"),
        ("INFO", "the lease is read and written again"),
    ]
    errors = [line["err"] for line in lines if "err" in line]
    assert "503" in errors[0]
    assert "403" in errors[1]
    assert lines[-1]["failed"] > 1000


def test_a_candidate_that_comes_second_has_nothing_to_complain_about(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        first = world.start("a")
        await asyncio.sleep(1)
        second = world.start("b")
        await asyncio.sleep(1)
        second.client.faults.add(FaultKind.CONFLICT, Verb.UPDATE_LEASE, count=1)
        await first.kill()
        await asyncio.sleep(60)
        assert second.client.faults.struck(FaultKind.CONFLICT) == 1
        assert world.leaders == ["b"]

    caplog.set_level(logging.INFO, logger="kscheduler.client.leaderelection")
    simulate(scenario)
    assert {record.getMessage() for record in caplog.records} == {
        "trying to become leader",
        "new leader observed",
        "became leader",
    }


def test_a_lost_answer_to_a_renewal_is_no_loss() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        a.client.faults.add(FaultKind.LOST_ANSWER, Verb.UPDATE_LEASE, count=2)
        await asyncio.sleep(30)
        assert world.leaders == ["a"]
        assert world.lease.spec.lease_transitions == 0

    simulate(scenario)


def test_a_leader_whose_lease_was_taken_stops_at_once() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(5)
        _write(world, msgspec.structs.replace(world.lease.spec, holder_identity="other"))
        await asyncio.sleep(2.1)
        assert not a.elector.is_leader
        with pytest.raises(LeadershipLost, match="taken by other"):
            await a.task
        assert world.lease.spec.holder_identity == "other"

    simulate(scenario)


def _write(world: World, spec: LeaseSpec) -> None:
    """As another program would."""
    if KEY in world.cluster.leases:
        world.cluster.update_lease(msgspec.structs.replace(world.lease, spec=spec))
    else:
        meta = ObjectMeta(name="kube-scheduler", namespace="kube-system")
        world.cluster.create_lease(Lease(metadata=meta, spec=spec))


def test_a_lease_that_has_changed_hands_as_often_as_it_can_count_is_taken_nevertheless() -> None:
    async def scenario(world: World) -> None:
        old = micro_time(1_600_000_000.0)
        _write(world, LeaseSpec("", 1, old, old, 2**31 - 1))
        a = world.start("a")
        await asyncio.sleep(5)
        assert a.elector.is_leader
        assert world.lease.spec.lease_transitions == 2**31 - 1

    simulate(scenario)


def test_a_duration_beyond_what_a_lease_holds_is_written_as_the_longest_there_is() -> None:
    async def scenario(world: World) -> None:
        world.start("a", lease_duration_s=100 * 365 * 86_400.0)
        await asyncio.sleep(5)
        assert world.lease.spec.lease_duration_seconds == 2**31 - 1

    simulate(scenario)


def test_a_lease_held_by_a_kube_scheduler_is_respected_while_it_renews() -> None:
    async def scenario(world: World) -> None:
        old = micro_time(1_600_000_000.0)  # its clock is years behind: only changes count
        _write(world, LeaseSpec("host_uuid", 15, old, old, 7))
        a = world.start("a")
        for minute in range(20):
            await asyncio.sleep(10)
            assert not a.elector.is_leader
            assert a.elector.leader_identity == "host_uuid"
            _write(world, LeaseSpec("host_uuid", 15, old, micro_time(1_600_000_001.0 + minute), 7))
        await asyncio.sleep(18)
        assert a.elector.is_leader
        assert a.when("started") == pytest.approx(215.0, abs=0.2)
        assert world.lease.spec.lease_transitions == 8

    simulate(scenario)


def test_the_duration_that_counts_is_the_holders_own() -> None:
    async def scenario(world: World) -> None:
        now = micro_time(1_700_000_000.0)
        _write(world, LeaseSpec("slow", 60, now, now, 0))
        a = world.start("a")
        await asyncio.sleep(59)
        assert not a.elector.is_leader
        await asyncio.sleep(3)
        assert a.elector.is_leader

    simulate(scenario)


def test_fields_we_do_not_use_survive() -> None:
    async def scenario(world: World) -> None:
        meta = ObjectMeta(name="kube-scheduler", namespace="kube-system", labels={"a": "b"})
        world.cluster.create_lease(Lease(metadata=meta, spec=LeaseSpec("", 1, strategy="OldestEmulationVersion")))
        world.start("a")
        await asyncio.sleep(5)
        assert world.lease.spec.holder_identity == "a"
        assert world.lease.spec.strategy == "OldestEmulationVersion"
        assert world.lease.metadata.labels == {"a": "b"}

    simulate(scenario)


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_jump_of_the_wall_clock_changes_nothing(jump_s: float) -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        await asyncio.sleep(10)
        a.clock.jump_s = jump_s
        b.clock.jump_s = -jump_s
        await asyncio.sleep(60)
        assert world.leaders == ["a"]

    simulate(scenario)


def test_a_leader_that_stood_still_is_none_when_it_wakes() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(1)
        now = a.clock.now
        a.clock.now = lambda: now() + 20.0  # as after SIGSTOP and SIGCONT
        assert not a.elector.is_leader

    simulate(scenario)


def test_a_deleted_lease_is_made_again_by_its_holder() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a")
        await asyncio.sleep(5)
        store = world.cluster.store(LEASES)
        world.cluster._remove(store, KEY)
        await asyncio.sleep(5)
        assert world.leaders == ["a"]
        assert world.lease.spec.holder_identity == "a"
        assert a.log[-1][1] == "started"

    simulate(scenario)


def test_a_candidate_can_be_stopped() -> None:
    async def scenario(world: World) -> None:
        world.start("a")
        await asyncio.sleep(1)
        b = world.start("b")
        await asyncio.sleep(10)
        await b.elector.stop()
        await asyncio.wait_for(b.task, 1)
        assert [what for _, what in b.log] == ["stopped"]

    simulate(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_fails_there_are_never_two_leaders(seed: int) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        for name in "abc":
            replica = world.start(f"{name}{seed}")
            faults = replica.client.faults
            faults.add(FaultKind.TIMEOUT, list(_requests()), probability=0.15, delay_s=rng.uniform(0, 8))
            faults.add(FaultKind.LOST_ANSWER, [Verb.UPDATE_LEASE, Verb.CREATE_LEASE], probability=0.1)
            faults.add(FaultKind.SLOW, [Verb.UPDATE_LEASE, Verb.GET_LEASE], probability=0.2, delay_s=rng.uniform(0, 9))
            faults.add(FaultKind.CONFLICT, Verb.UPDATE_LEASE, probability=0.05)
        for step in range(30):
            await asyncio.sleep(rng.uniform(5, 40))
            for replica in list(world.replicas):
                if replica.task.done():
                    assert replica.task.cancelled() or isinstance(replica.task.exception(), LeadershipLost)
                    world.replicas.remove(replica)
                    world.start(f"{replica.name}.{step}")
            if rng.random() < 0.3:
                await rng.choice(world.replicas).kill()
        assert world.led_s > 0.3 * world.clock.now()

    simulate(scenario)


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        ({"lease_duration_s": 10.0}, "leaseDuration: 10s: must be greater than renewDeadline"),
        ({"retry_period_s": 9.0}, "renewDeadline: 10s: must be greater than 1.2 times retryPeriod"),
        ({"retry_period_s": 0.0}, "retryPeriod, which is 0s"),
    ],
)
def test_durations_that_cannot_work_are_refused(durations: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ElectionConfig("a", **durations)  # type: ignore[arg-type]


# --- before leading -----------------------------------------------------------------------------------------------


def test_late_news_of_old_renewals_do_not_prolong_the_lease_of_one_that_was_killed() -> None:
    async def scenario(world: World) -> None:
        first = world.start("a")
        await asyncio.sleep(1)
        second = world.start("b")
        second.client.faults.add(FaultKind.DELAYED, Verb.DELIVER, resource=LEASES.plural, delay_s=14.0)
        await asyncio.sleep(60)
        await first.kill()
        killed = world.clock.now()
        await asyncio.sleep(40)
        assert second.when("started") - killed <= 15 + 3

    simulate(scenario)


def test_a_try_that_gets_no_answer_does_not_outlast_the_lease_by_far() -> None:
    async def scenario(world: World) -> None:
        first = world.start("a")
        await asyncio.sleep(1)
        second = world.start("b")
        await asyncio.sleep(20)
        await first.kill()
        killed = world.clock.now()
        await asyncio.sleep(12.5)
        second.client.faults.add(FaultKind.TIMEOUT, Verb.GET_LEASE, delay_s=3600.0, count=1)
        await asyncio.sleep(30)
        assert second.when("started") - killed <= 15 + 3

    simulate(scenario)


def test_a_candidate_that_may_not_lead_leaves_a_free_lease_alone() -> None:
    async def scenario(world: World) -> None:
        world.start("a", {"may_try": lambda: False})
        await asyncio.sleep(10)
        assert KEY not in world.cluster.leases
        world.start("b")
        await asyncio.sleep(1)
        assert world.leaders == ["b"]

    simulate(scenario)


def test_a_leader_that_cannot_confirm_what_it_knows_gives_the_lease_to_another() -> None:
    async def scenario(world: World) -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        first = world.start("a", {"confirm": never})
        await asyncio.sleep(1)
        second = world.start("b")
        await asyncio.sleep(10)
        assert world.leaders == ["b"]
        assert world.lease.spec.holder_identity == "b"
        assert [what for _, what in first.log if what == "started"] == []
        await second.kill()

    simulate(scenario)


def test_a_replica_alone_goes_on_trying_until_it_can_confirm() -> None:
    async def scenario(world: World) -> None:
        works_from = 60.0

        async def confirm() -> None:
            if world.clock.now() < works_from:
                raise APIError("no quorum", status=500)

        world.start("a", {"confirm": confirm})
        await asyncio.sleep(59)
        assert world.leaders == []
        await asyncio.sleep(6)
        assert world.leaders == ["a"]

    simulate(scenario)


def test_the_lease_is_renewed_while_it_is_confirmed() -> None:
    async def scenario(world: World) -> None:
        async def slowly() -> None:
            await asyncio.sleep(4.0)

        short = {"lease_duration_s": 3.0, "renew_deadline_s": 2.0, "retry_period_s": 0.5}
        world.start("a", {"confirm": slowly}, **short)
        world.start("b", {"confirm": slowly}, **short)
        await asyncio.sleep(10)
        assert len(world.leaders) == 1
        assert world.lease.spec.lease_transitions == 0

    simulate(scenario)


SEEN = Seen(pods="12", nodes="3")


def test_what_a_leader_has_seen_is_left_for_the_next_one_and_for_no_later_one() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a", {"seen": lambda: SEEN})
        await asyncio.sleep(1)
        b = world.start("b")
        await asyncio.sleep(1)
        await a.elector.stop()
        await a.task
        await asyncio.sleep(3)
        assert b.elector.predecessor_saw == SEEN
        assert world.lease.metadata.annotations is None
        c = world.start("c")
        await asyncio.sleep(1)
        await b.kill()
        await asyncio.sleep(20)
        assert world.leaders == ["c"]
        assert c.elector.predecessor_saw is None

    simulate(scenario)


def test_what_a_killed_leader_was_left_is_not_taken_for_what_it_has_seen() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a", {"seen": lambda: SEEN})
        await asyncio.sleep(1)
        await a.elector.stop()
        await a.task
        b = world.start("b")
        await asyncio.sleep(3)
        assert b.elector.predecessor_saw == SEEN
        await b.elector.stop()  # it leaves nothing of its own
        await b.task
        c = world.start("c")
        await asyncio.sleep(3)
        assert world.leaders == ["c"]
        assert c.elector.predecessor_saw is None

    simulate(scenario)


def test_a_candidate_that_could_not_confirm_leaves_what_the_last_leader_left() -> None:
    async def scenario(world: World) -> None:
        a = world.start("a", {"seen": lambda: SEEN})
        await asyncio.sleep(1)
        await a.elector.stop()
        await a.task

        async def fails() -> None:
            raise APIError("no quorum", status=500)

        b = world.start("b", {"confirm": fails, "seen": lambda: Seen("1", "1")})
        await until(lambda: b.elector.predecessor_saw is not None and not b.elector.leader_identity, 60)
        await b.kill()
        assert handover_of(world.lease) == SEEN

    simulate(scenario)


def test_each_leader_is_reported_once_however_often_its_lease_is_renewed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        first = world.start("a")
        await asyncio.sleep(1)
        world.start("b")
        await asyncio.sleep(600)
        await first.elector.stop()
        await asyncio.sleep(600)

    caplog.set_level(logging.INFO, logger="kscheduler.client.leaderelection")
    simulate(scenario)
    observed = [vars(record) for record in caplog.records if record.getMessage() == "new leader observed"]
    assert [(line["identity"], line["holder"]) for line in observed] == [("a", "a"), ("b", "a"), ("b", "b")]
