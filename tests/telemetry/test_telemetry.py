"""Live telemetry as a whole, in virtual time: what plugins see while a source answers, fails, hangs and lies."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable

import pytest

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness, Metric, PlanB, PolicySpec, ScoreRule, Source
from kscheduler.framework.telemetry import PolicyRef
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.telemetry.policy_book import PolicyBook
from kscheduler.telemetry.telemetry import MAX_METRICS_OF_POLICIES, LiveTelemetry
from kscheduler.testing.wrappers import make_node, make_pod
from tests.telemetry.fakes import SOURCE, FakeSource, measurements, no_policies, telemetry_of

MINUTE = Freshness(max_age=Duration.of_seconds(60))


def table_of(*names: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.set_node(make_node(name).obj())
    return table


def values(telemetry: LiveTelemetry, freshness: Freshness = MINUTE, **how: bool) -> list[float | None]:
    column = telemetry.column("load", freshness, **how)
    return [None if math.isnan(value) else value for value in column.values]


def live(test: Callable[[NodeTable, FakeSource, LiveTelemetry], Awaitable[None]]) -> None:
    """Run it beside a telemetry over two nodes; the source's interval is 15 s."""

    async def main() -> None:
        table, source = table_of("a", "b"), FakeSource()
        source.values = {"load": {"a": 1.0, "b": 3.0}}
        telemetry = telemetry_of(table, source, LoopClock(asyncio.get_running_loop()))
        running = asyncio.ensure_future(telemetry.run())
        try:
            await telemetry.wait_for_first_answers()
            await test(table, source, telemetry)
        finally:
            await cancel_and_wait(running)
        assert source.is_closed

    run_virtual(main())


def test_values_are_there_after_the_first_answer() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        column = telemetry.column("load", MINUTE)
        assert values(telemetry) == [1.0, 3.0]
        assert (column.least, column.most) == (1.0, 3.0)

    live(test)


def test_values_change_with_the_next_answer_and_readers_are_notified() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        column, reported = telemetry.column("load", MINUTE), []
        telemetry.watch(lambda: reported.append(telemetry.now()))
        version = column.version
        source.values["load"]["a"] = 2.0
        await asyncio.sleep(20)
        assert values(telemetry) == [2.0, 3.0]
        assert telemetry.column("load", MINUTE) is column
        assert column.version > version
        assert len(reported) == 1

    live(test)


def test_values_grow_old_while_the_source_fails_and_are_gone_when_their_time_is_over() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        values(telemetry)
        source.fail()
        await asyncio.sleep(59.9)
        assert values(telemetry) == [1.0, 3.0]
        reported: list[float] = []
        telemetry.watch(lambda: reported.append(telemetry.now()))
        await asyncio.sleep(0.2)
        assert values(telemetry) == [None, None]
        assert math.isnan(telemetry.column("load", MINUTE).least)
        assert reported == [60.0]

    live(test)


def test_how_long_values_outlive_their_source_is_a_matter_of_how_fast_they_change() -> None:
    """The source is asked each 15 s; its values change each minute."""

    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        for minute in range(6):
            source.values["load"] = {"a": float(minute), "b": 2.0 * minute}
            await asyncio.sleep(60)
        values(telemetry, Freshness())
        source.fail()
        await asyncio.sleep(120)
        assert values(telemetry, Freshness()) == [5.0, 10.0]
        await asyncio.sleep(90)
        assert values(telemetry, Freshness()) == [None, None]

    live(test)


def test_values_of_a_dead_source_grow_old_however_often_others_answer() -> None:
    async def main() -> None:
        often = Source(name="often", resource_metrics={}, interval=Duration.of_seconds(0.1))
        sources = {"fake": FakeSource(), "often": FakeSource()}
        sources["fake"].values, sources["often"].values = {"load": {"a": 1.0}}, {"heat": {"a": 40.0}}
        telemetry = LiveTelemetry(
            table_of("a"),
            [SOURCE, often],
            [Metric(name="load", source="fake"), Metric(name="heat", source="often")],
            lambda config: sources[config.name],
            clock=LoopClock(asyncio.get_running_loop()),
            rng=random.Random(1),
            policies=no_policies(),
            observer=measurements(),
            record_for_pod=lambda pod, reason, note: None,
        )
        running = asyncio.ensure_future(telemetry.run())
        await telemetry.wait_for_first_answers()
        assert values(telemetry) == [1.0]
        sources["fake"].fail()
        await asyncio.sleep(62)
        assert values(telemetry) == [None]
        await cancel_and_wait(running)

    run_virtual(main())


def test_last_good_values_stay_as_long_as_the_source_fails() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        source.fail()
        await asyncio.sleep(3600)
        assert values(telemetry, last_good=True) == [1.0, 3.0]
        assert telemetry.failures("load") > 5

    live(test)


def test_a_source_that_hangs_is_given_up_after_its_timeout_and_recovers_by_itself() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        source.hangs = True
        await asyncio.sleep(120)
        assert values(telemetry) == [None, None]
        assert telemetry.failures("load") >= 3
        assert telemetry.pollers["fake"].last_error == "no answer within 5 s"
        source.hangs, source.values = False, {"load": {"a": 5.0, "b": 6.0}}
        await asyncio.sleep(40)
        assert values(telemetry) == [5.0, 6.0]
        assert telemetry.failures("load") == 0

    live(test)


def test_an_open_breaker_lets_only_a_probe_through() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        source.fail()
        await asyncio.sleep(60)
        source.asked.clear()
        await asyncio.sleep(300)
        assert 9 <= len(source.asked) <= 10  # once in 30 s, not in 15

    live(test)


def test_a_source_that_answers_about_no_node_of_ours_counts_as_failing() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        source.values = {"load": {}}
        await asyncio.sleep(20)
        assert telemetry.failures("load") == 1
        source.values = {"load": {"elsewhere": 1.0}}
        await asyncio.sleep(15)
        assert telemetry.failures("load") == 2
        source.values = {"load": {"a": math.nan, "b": math.inf}}
        await asyncio.sleep(15)
        assert telemetry.failures("load") == 3
        assert values(telemetry) == [1.0, 3.0]
        source.values = {"load": {"b": 1.0}}
        await asyncio.sleep(15)
        assert telemetry.failures("load") == 0

    live(test)


def test_a_node_that_comes_is_absent_and_one_that_goes_takes_its_value_along() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        column = telemetry.column("load", MINUTE)
        before = column.version
        table.remove_node("b")
        assert values(telemetry) == [1.0, None]
        assert column.most == 1.0
        table.set_node(make_node("c").obj())  # gets the row of b
        table.set_node(make_node("d").obj())
        assert values(telemetry) == [1.0, None, None]
        assert values(telemetry, last_good=True) == [1.0, None, None]
        assert column.version > before

    live(test)


def test_a_metric_nobody_declared_is_a_key_error() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        with pytest.raises(KeyError):
            telemetry.column("heat", MINUTE)

    live(test)


def test_a_source_that_raises_what_it_must_not_ends_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        source.failure = ZeroDivisionError("division by zero")
        await asyncio.sleep(20)
        assert telemetry.pollers["fake"].last_error == "ZeroDivisionError: division by zero"
        source.failure = None
        await asyncio.sleep(15)
        assert telemetry.pollers["fake"].last_error == ""

    live(test)


def test_each_change_of_state_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        caplog.set_level("INFO")
        source.fail()
        await asyncio.sleep(600)
        source.failure = None
        source.values["load"]["b"] = math.nan
        await asyncio.sleep(600)
        source.values["load"]["b"] = 1.0
        await asyncio.sleep(600)
        assert [record.message for record in caplog.records] == [
            "metric source fails",
            "metric source is left alone after repeated failures",
            "metric source answers again",
            "samples of a metric are refused",
            "samples of a metric are refused no longer",
        ]

    live(test)


def test_a_start_waits_for_a_source_that_hangs_no_longer_than_two_seconds() -> None:
    async def main() -> None:
        source, loop = FakeSource(), asyncio.get_running_loop()
        source.hangs = True
        telemetry = telemetry_of(table_of("a"), source, LoopClock(loop))
        running = asyncio.ensure_future(telemetry.run())
        await telemetry.wait_for_first_answers()
        assert loop.time() == 2.0
        await cancel_and_wait(running)

    run_virtual(main())


def test_states_count_fresh_stale_and_absent_nodes() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        values(telemetry)
        table.set_node(make_node("c").obj())
        del source.values["load"]["b"]
        await asyncio.sleep(70)
        [state] = telemetry.states()
        assert (state.fresh, state.stale, state.absent) == (1, 1, 1)
        assert state.age_s is not None
        assert state.age_s < 20

    live(test)


def test_a_big_answer_is_taken_in_slices() -> None:
    async def main() -> None:
        names = [f"n{number}" for number in range(5_000)]
        table, source = table_of(*names), FakeSource()
        source.values = {"load": {name: float(index) for index, name in enumerate(names)}}
        telemetry = telemetry_of(table, source, LoopClock(asyncio.get_running_loop()))
        column = telemetry.column("load", MINUTE)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while math.isnan(column.values[0]):
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.ensure_future(telemetry.run())
        await count_turns()
        assert column.present == 5_000  # all at once, in the end
        assert turns >= 5
        await cancel_and_wait(running)

    run_virtual(main())


class OnePolicy(PolicyBook):
    """Policies that a test changes: the metrics they bring along, and one that all pods are under."""

    def __init__(self, *brought: str) -> None:
        super().__init__((), lambda verdict: None)
        self.brought = brought
        self.spec = PolicySpec(score=(ScoreRule(metric="load"),), plan_b=PlanB(after_failures=3))

    def policy_of(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec]:
        return PolicyRef("team", "hot"), self.spec

    def knows(self, policy: PolicyRef) -> bool:
        return policy.name == "hot"

    def metrics(self) -> tuple[Metric, ...]:
        return tuple(Metric(name=name, source="fake") for name in self.brought)

    def bring(self, *brought: str) -> None:
        self.brought = brought
        self._changed()


def test_metrics_that_policies_bring_are_asked_for_while_they_are_there() -> None:
    async def main() -> None:
        policies, source = OnePolicy("heat"), FakeSource()
        source.values = {"load": {"a": 1.0}, "heat": {"a": 80.0}, "cost": {"a": 3.0}}
        clock = LoopClock(asyncio.get_running_loop())
        telemetry = telemetry_of(table_of("a"), source, clock, policies=policies)
        running = asyncio.ensure_future(telemetry.run())
        await asyncio.sleep(1)
        assert list(telemetry.column("heat", MINUTE).values) == [80.0]
        load = telemetry.column("load", MINUTE)
        policies.bring("cost")
        with pytest.raises(KeyError):
            telemetry.column("heat", MINUTE)
        assert math.isnan(telemetry.column("cost", MINUTE).values[0])
        await asyncio.sleep(20)
        assert source.asked[-1] == ["load", "cost"]
        assert list(telemetry.column("cost", MINUTE).values) == [3.0]
        assert telemetry.column("load", MINUTE) is load
        await cancel_and_wait(running)

    run_virtual(main())


def test_policies_cannot_bring_metrics_without_end(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        source = FakeSource()
        policies = OnePolicy(*(f"m{number}" for number in range(1_000)))
        clock = LoopClock(asyncio.get_running_loop())
        telemetry = telemetry_of(table_of("a"), source, clock, policies=policies)
        assert len(telemetry.wanted("fake")) == 1 + MAX_METRICS_OF_POLICIES
        assert caplog.records[0].message == "policy objects name too many metrics; the rest are not asked for"

    run_virtual(main())


def test_versions_of_policies_grow_when_plan_b_may_begin_or_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def main() -> None:
        policies, source = OnePolicy(), FakeSource()
        source.values = {"load": {"a": 1.0}}
        clock = LoopClock(asyncio.get_running_loop())
        telemetry = telemetry_of(table_of("a"), source, clock, policies=policies)
        running = asyncio.ensure_future(telemetry.run())
        telemetry.policy_of(PodInfo(make_pod("p").obj()))
        await asyncio.sleep(1)
        assert telemetry.plans_b() == {"team/hot": False}
        before = telemetry.policies_version
        source.fail()
        await asyncio.sleep(60)
        assert telemetry.plans_b() == {"team/hot": True}
        during = telemetry.policies_version
        assert during > before
        await asyncio.sleep(300)  # it is reported once, however long it lasts
        source.failure = None
        await asyncio.sleep(60)
        assert telemetry.plans_b() == {"team/hot": False}
        assert telemetry.policies_version > during
        reported = [record.message for record in caplog.records if record.message.startswith("plan B")]
        assert reported == ["plan B of a metric policy is in force", "plan B of a metric policy has ended"]
        await cancel_and_wait(running)

    run_virtual(main())


def test_a_source_that_repeats_old_samples_counts_as_failing_once_they_are_too_old() -> None:
    async def test(table: NodeTable, source: FakeSource, telemetry: LiveTelemetry) -> None:
        values(telemetry)
        await asyncio.sleep(20)
        source.stamps = dict.fromkeys("ab", 1_700_000_000.0)
        await asyncio.sleep(50)
        assert telemetry.failures("load") == 0
        await asyncio.sleep(90)
        assert values(telemetry) == [None, None]
        assert telemetry.failures("load") >= 3

    live(test)


def test_a_source_whose_clock_is_far_behind_counts_as_failing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        source, clock = FakeSource(), LoopClock(asyncio.get_running_loop())
        telemetry = telemetry_of(table_of("a"), source, clock)
        source.values, source.stamps = {"load": {"a": 1.0}}, {"a": clock.wall() - 1_000.0}
        running = asyncio.ensure_future(telemetry.run())
        await asyncio.sleep(1)
        assert telemetry.failures("load") == 1
        assert caplog.records[-1].message == "metric is not answered"
        assert caplog.records[-1].__dict__["err"] == "the newest sample is 1000 s old"
        await cancel_and_wait(running)

    run_virtual(main())


class Gone(Measurements):
    def __init__(self) -> None:
        super().__init__(Metrics(process=False))
        self.gone: list[str] = []

    def metric_gone(self, metric: str) -> None:
        self.gone.append(metric)

    def policy_gone(self, policy: str) -> None:
        self.gone.append(policy)


def test_of_policies_and_metrics_that_are_gone_nothing_is_shown_any_more() -> None:
    async def main() -> None:
        policies, observer = OnePolicy("heat"), Gone()
        clock = LoopClock(asyncio.get_running_loop())
        telemetry = telemetry_of(table_of("a"), FakeSource(), clock, policies=policies, observer=observer)
        for name in ("hot", "old"):
            telemetry.count("neutral", PolicyRef("team", name))
        policies.bring()
        assert observer.gone == ["team/old", "heat"]

    run_virtual(main())
