"""Informers on the cluster in memory, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import pytest

from kscheduler.api.decode import UNNAMED
from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.client.informer import SHORT_LIST, SLICE_S, Informer
from kscheduler.client.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    GROUPS,
    METRIC_POLICIES,
    NODE_DOCUMENTS,
    NODES,
    POD_DOCUMENTS,
    PODS,
    STORAGE,
    UNFINISHED_PODS,
    Resource,
)
from kscheduler.client.missing_rights import GATHER_S
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import EventType, Page, WatchEvent
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.errors import APIError, DecodeError, Forbidden, Gone, NotFound, Unreachable
from kscheduler.observability.measurements import Measurements
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.support.changes import set_pod_phase
from tests.support.clocks import ManualClock
from tests.support.recorder import Recorder

T = TypeVar("T")

MANY_KINDS: tuple[Resource[Any], ...] = (PODS, NODES, *GROUPS, *STORAGE)


class World:
    """A cluster, an informer of its pods, and what the handler heard."""

    def __init__(self, **options: Any) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client: ClusterClient = self.cluster.client()
        self.heard = Recorder()
        self.informer: Informer[Pod] = Informer(
            self.client, PODS, self.heard, clock=self.clock, rng=random.Random(1), **options
        )

    def pod(self, name: str) -> Pod:
        return self.cluster.create_pod(Pod(metadata=ObjectMeta(name=name, namespace="ns")))

    def touch(self, name: str, **labels: str) -> None:
        pod = self.cluster.get_pod("ns", name)
        self.cluster.update_pod(msgspec.structs.replace(pod, metadata=_relabel(pod.metadata, labels)))

    def take(self) -> list[str]:
        calls, self.heard.calls = self.heard.calls, []
        return calls

    def check(self) -> None:
        """Store, handler and cluster agree."""
        truth = {key: pod.metadata.resource_version for key, pod in self.cluster.pods.items()}
        assert {key: pod.metadata.resource_version for key, pod in self.informer.store.items()} == truth
        assert self.heard.known == truth


class CountingClient:
    """Lists and watches through another client, and counts them."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.requests = 0

    async def list_page(self, resource: Resource[T], **named: Any) -> Page[T]:
        self.requests += 1
        return await self._client.list_page(resource, **named)

    def watch(self, resource: Resource[T], **named: Any) -> AsyncIterator[list[WatchEvent[T]]]:
        self.requests += 1
        return self._client.watch(resource, **named)


def _relabel(metadata: ObjectMeta, labels: dict[str, str]) -> ObjectMeta:
    return msgspec.structs.replace(metadata, labels=labels)


def simulate(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        world = World(**options)
        task = asyncio.ensure_future(world.informer.run())
        try:
            await scenario(world)
            assert world.heard.problems == []
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_what_exists_is_added_and_what_happens_is_reported_in_order() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.wait_for(world.informer.synced.wait(), 1)
        assert world.take() == ["add ns/a"]
        world.pod("b")
        world.touch("a", x="1")
        world.cluster.delete_pod("ns/b")
        await asyncio.sleep(1)
        assert world.take() == ["add ns/b", "update ns/a", "delete ns/b"]
        world.check()

    simulate(scenario)


def test_a_list_of_many_pages_is_complete_before_it_is_synced() -> None:
    async def scenario(world: World) -> None:
        for i in range(23):
            world.pod(f"p{i}")
        await asyncio.wait_for(world.informer.synced.wait(), 1)
        assert len(world.take()) == 23
        world.check()

    simulate(scenario, page_size=5)


def test_a_page_that_fails_while_the_one_before_is_handled_ends_the_list() -> None:
    client = ScriptedClient(
        [Page([pod_at(1, "a")], "5", "more"), Gone("expired", status=410), Page([pod_at(2, "b")], "6", "")], [["hang"]]
    )
    informer, heard = play(client, 1)
    assert list(informer.store) == ["ns/b"]
    assert heard.calls == ["add ns/a", "add ns/b", "delete ns/a"]


def test_the_version_of_the_last_change_is_that_of_no_bookmark() -> None:
    watches: list[list[Any]] = [[[bookmark(7)], [event(9)], [bookmark(11)], "hang"]]
    informer, _ = play(ScriptedClient([Page([pod_at(1)], "5", "")], watches), 1)
    assert (informer.resource_version, informer.changed_version) == ("11", "9")
    informer, _ = play(ScriptedClient([Page([pod_at(1)], "5", "")], [[[bookmark(7)], "hang"]]), 1)
    assert (informer.resource_version, informer.changed_version) == ("7", "5")


def test_a_change_that_comes_with_a_bookmark_counts_with_the_bookmarks_version() -> None:
    watches: list[list[Any]] = [[[event(9), bookmark(11)], "hang"]]
    informer, _ = play(ScriptedClient([Page([pod_at(1)], "5", "")], watches), 1)
    assert informer.changed_version == "11"


def test_finished_pods_leave_an_informer_that_selects_the_others() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        set_pod_phase(world.cluster, "ns/a", "Succeeded")
        await asyncio.sleep(1)
        assert world.take() == ["add ns/a", "delete ns/a"]

    simulate(scenario, field_selector=UNFINISHED_PODS)


def test_after_an_outage_all_informers_go_on_at_the_first_success() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster, pauses = Cluster(clock), RetryPauses(random.Random(2))
        client = CountingClient(cluster.client())
        informers = [
            Informer(client, NODES, Recorder(), clock=clock, rng=random.Random(seed), pauses=pauses)  # type: ignore[arg-type]
            for seed in range(10)
        ]
        tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
        await asyncio.sleep(5)
        cluster.stop()
        await asyncio.sleep(200)
        before = client.requests
        await asyncio.sleep(100)
        assert client.requests - before <= 200  # one a second, and what each has of its own backoff
        cluster.start()
        await asyncio.sleep(3)
        cluster.create_node(Node(metadata=ObjectMeta(name="late")))
        await asyncio.sleep(0.1)
        assert all("late" in informer.store for informer in informers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())


def test_what_a_frozen_watch_holds_back_comes_on_another_soon_after_it_fell_silent() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.SILENT, Verb.DELIVER, delay_s=3600.0, count=1)
        world.pod("b")
        await asyncio.sleep(3)
        world.pod("c")
        await asyncio.sleep(3)
        assert "add ns/b" in world.take()
        world.check()

    simulate(scenario, silence_s=2.0)


def test_a_quiet_watch_that_works_is_asked_to_show_it_and_is_no_failure() -> None:
    client = ScriptedClient([Page([], "5", "")], [["hang"] for _ in range(1000)])
    informer, _ = play(client, 300, silence_s=2.0)
    assert 50 <= len(client.watched_at) <= 150  # one in three seconds
    assert len(client.listed_at) == 1
    assert informer.last_error is None
    assert informer.seems_current


def test_a_watch_that_stays_quiet_is_asked_for_longer_and_longer_until_something_changes() -> None:
    changed: list[list[Any]] = [[[event(6)], "hang"]]
    client = ScriptedClient([Page([], "5", "")], [*([["hang"]] * 6), *changed, *([["hang"]] * 20)])
    play(client, 420, silence_s=10.0, longest_proof_s=30.0)
    steps = [round(later - sooner) for sooner, later in itertools.pairwise(client.watched_at)]
    assert steps[:7] == [10, 20, 30, 30, 30, 30, 30]  # the last of these has changed something
    assert steps[7:12] == [10, 10, 20, 30, 30]


def test_a_watch_that_breaks_its_promise_after_a_long_quiet_is_asked_again_for_a_short_time() -> None:
    client = ScriptedClient([Page([], "5", "")], [*([["hang"]] * 5), *([["hang for ever"]] * 2), *([["hang"]] * 20)])
    informer, _ = play(client, 190, silence_s=10.0, longest_proof_s=30.0)
    steps = [later - sooner for sooner, later in itertools.pairwise(client.watched_at)]
    assert steps[:5] == [10, 20, 30, 30, 30]
    assert 30 < steps[5] < 31
    assert 12 <= steps[6] <= 14  # with the grace, and the pause after a failure
    assert steps[7] == 10
    assert informer.last_error is None


def test_a_watch_that_does_not_end_in_time_is_first_opened_again_at_once_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = [["hang for ever"], ["hang"]] * 20
    client = ScriptedClient([Page([], "5", "")], [["hang for ever"], ["hang"], *late])
    informer, _ = play(client, 60, silence_s=2.0)
    steps = [later - sooner for sooner, later in itertools.pairwise(client.watched_at)]
    assert steps[2:8] == [pytest.approx(3.5), pytest.approx(3.0)] * 3
    assert informer.last_error is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_watch_that_neither_speaks_nor_ends_is_known_to_be_broken() -> None:
    client = ScriptedClient([Page([], "5", "")], [["hang for ever"] for _ in range(1000)])
    informer, _ = play(client, 60, silence_s=2.0)
    assert isinstance(informer.last_error, Unreachable)
    assert not informer.seems_current


def test_a_version_is_reached_by_a_list_where_that_is_short() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.SILENT, Verb.DELIVER, delay_s=3600.0, count=1)
        world.pod("b")
        await asyncio.sleep(1)
        assert "ns/b" not in world.informer.store
        await asyncio.wait_for(world.informer.confirm(), 0.1)
        world.check()

    simulate(scenario)


def test_a_version_is_not_reached_while_neither_list_nor_watch_brings_it() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.SILENT, Verb.DELIVER, delay_s=3600.0)
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.LIST)
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.WATCH)
        world.pod("b")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(world.informer.reach(str(world.cluster.version)), 60)
        world.client.faults.clear()
        await asyncio.wait_for(world.informer.reach(str(world.cluster.version)), 3)
        world.check()

    simulate(scenario)


def test_many_objects_are_not_listed_again_where_a_watch_shows_that_nothing_was_missed() -> None:
    items = [pod_at(5, f"p{index}") for index in range(SHORT_LIST + 1)]
    client = ScriptedClient([Page(items, "5", "")], [["hang"], [[bookmark(9)], "hang"]])

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        informer: Informer[Pod] = Informer(client, PODS, Recorder(), clock=clock, rng=random.Random(1))  # type: ignore[arg-type]
        task = asyncio.ensure_future(informer.run())
        await asyncio.sleep(1)
        await asyncio.wait_for(informer.reach("9"), 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
    assert len(client.listed_at) == 1


def test_what_was_missed_while_cut_off_is_found(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        for name in ("stays", "changes", "goes", "reborn"):
            world.pod(name)
        await asyncio.sleep(1)
        world.take()
        world.cluster.stop()
        await asyncio.sleep(5)
        assert isinstance(world.informer.last_error, Unreachable)
        world.touch("changes", x="1")
        world.cluster.delete_pod("ns/goes")
        world.cluster.delete_pod("ns/reborn")
        world.pod("reborn")
        world.pod("new")
        world.cluster.compact()
        world.cluster.start()
        await asyncio.sleep(40)
        assert sorted(world.take()) == sorted(
            ["update ns/changes", "delete ns/goes", "delete ns/reborn", "add ns/reborn", "add ns/new"]
        )
        world.check()
        await asyncio.sleep(60)
        assert world.informer.last_error is None

    caplog.set_level(logging.INFO, logger="kscheduler.client.informer")
    simulate(scenario)
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert {r.message for r in warnings} == {"list or watch failed"}
    assert len({vars(r)["err"] for r in warnings}) == len(warnings) == 2  # each cause once, however often met
    assert "list and watch work again" in caplog.text


def test_a_cut_watch_goes_on_from_its_version_without_a_list() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.CUT, Verb.DELIVER, count=1)
        world.pod("b")
        await asyncio.sleep(5)
        world.check()

    lists: list[str] = []
    simulate(_counting_lists(scenario, lists))
    assert len(lists) == 1


def _counting_lists(
    scenario: Callable[[World], Awaitable[None]], lists: list[str]
) -> Callable[[World], Awaitable[None]]:
    async def counted(world: World) -> None:
        list_page = world.client.list_page

        async def counting(*args: Any, **named: Any) -> Any:
            lists.append("list")
            return await list_page(*args, **named)

        world.client.list_page = counting  # type: ignore[method-assign]
        await scenario(world)

    return counted


def test_a_version_too_old_means_a_new_list_at_once() -> None:
    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.CUT, Verb.DELIVER, count=1)
        world.client.faults.add(FaultKind.GONE, Verb.WATCH, count=1)
        world.pod("b")
        await asyncio.sleep(3)
        world.check()

    lists: list[str] = []
    simulate(_counting_lists(scenario, lists))
    assert len(lists) == 2


def test_events_that_come_twice_do_no_harm() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(1)
        world.client.faults.add(FaultKind.DUPLICATE, Verb.DELIVER, count=1)
        world.pod("a")
        world.touch("a", x="1")
        world.cluster.delete_pod("ns/a")
        await asyncio.sleep(10)
        world.check()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(8))
def test_after_any_faults_the_store_is_the_cluster(seed: int) -> None:
    async def scenario(world: World) -> None:
        rng = random.Random(seed)
        faults = world.client.faults
        faults.add(FaultKind.CUT, Verb.DELIVER, probability=0.2, count=10)
        faults.add(FaultKind.DUPLICATE, Verb.DELIVER, probability=0.1, count=10)
        faults.add(FaultKind.GONE, Verb.WATCH, probability=0.3, count=5)
        faults.add(FaultKind.SERVER_ERROR, [Verb.LIST, Verb.WATCH], probability=0.2, count=5)
        faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.LIST, probability=0.2, count=3, retry_after_s=7)
        for step in range(300):
            _change_something(world, rng, step)
            await asyncio.sleep(rng.random())
        await asyncio.sleep(600)
        world.check()

    simulate(scenario, page_size=3)


def _change_something(world: World, rng: random.Random, step: int) -> None:
    names = sorted(key.partition("/")[2] for key in world.cluster.pods)
    choice = rng.random()
    if choice < 0.5 or not names:
        world.pod(f"p{step}")
    elif choice < 0.8:
        world.touch(rng.choice(names), step=str(step))
    else:
        world.cluster.delete_pod(f"ns/{rng.choice(names)}")


def test_a_handler_that_raises_is_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        def explode(pod: Pod) -> None:
            raise ValueError("no pods today")

        world.heard.on_add = explode  # type: ignore[method-assign, assignment]
        world.pod("a")
        await asyncio.sleep(1)
        del world.heard.on_add
        world.pod("b")
        await asyncio.sleep(1)
        assert world.take() == ["add ns/b"]

    simulate(scenario)
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.__dict__["object"] == "ns/a"
    assert record.exc_info is not None


def test_keep_slims_objects_and_drops_others() -> None:
    def keep(pod: Pod) -> Pod | None:
        if pod.metadata.labels == {"hide": "1"}:
            return None
        return Pod(metadata=pod.metadata)

    async def scenario(world: World) -> None:
        world.pod("a")
        world.pod("b")
        world.touch("b", hide="1")
        await asyncio.sleep(1)
        world.touch("a", hide="1")
        world.touch("b", hide="0")
        await asyncio.sleep(1)
        assert world.take() == ["add ns/a", "delete ns/a", "add ns/b"]

    simulate(scenario, keep=keep)


def test_nodes_have_keys_without_a_namespace() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = Cluster(clock)
        cluster.create_node(Node(metadata=ObjectMeta(name="n1")))
        informer = Informer(cluster.client(), NODES, Recorder(), clock=clock, rng=random.Random(0))
        task = asyncio.ensure_future(informer.run())
        await asyncio.sleep(1)
        assert list(informer.store) == ["n1"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


KINDS = (PODS, NODES, NODE_DOCUMENTS, POD_DOCUMENTS, *GROUPS, *STORAGE, *DEVICES, ELASTIC_QUOTAS, METRIC_POLICIES)


@pytest.mark.parametrize("resource", KINDS, ids=lambda each: f"{each.plural} as {each.type.__name__}")
def test_what_a_watch_brings_is_stored_under_the_key_that_a_list_gives_it(resource: Resource[Any]) -> None:
    namespace = "ns" if resource.namespaced else ""
    made = msgspec.convert({"metadata": {"name": "a", "namespace": namespace, "uid": "u"}}, resource.type)
    clock = ManualClock()
    client = Cluster(clock).client()
    informer = Informer(client, resource, Recorder(), clock=clock, rng=random.Random(0))
    informer.receive([WatchEvent(EventType.ADDED, made, "5")])
    assert list(informer.store) == [made.key] == ["ns/a" if resource.namespaced else "a"]
    informer.receive([WatchEvent(EventType.DELETED, made, "6")])
    assert not informer.store


# --- a server that follows a script -------------------------------------------------------------------------------


class ScriptedClient:
    """Lists `pages` in turn, and plays `watches` in turn: batches, then an error, or the normal end."""

    def __init__(
        self, pages: list[Page[Any] | APIError], watches: list[list[Any]], *, list_takes_s: float = 0.0
    ) -> None:
        self.pages = pages
        self.watches = watches
        self._list_takes_s = list_takes_s
        self.listed_at: list[float] = []
        self.watched_at: list[float] = []
        self.versions: list[str] = []

    async def list_page(self, resource: Resource[T], **named: Any) -> Page[T]:
        self.listed_at.append(asyncio.get_running_loop().time())
        page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if isinstance(page, APIError):
            raise page
        if self._list_takes_s:
            await asyncio.sleep(self._list_takes_s)
        return page

    async def watch(
        self, resource: Resource[T], *, resource_version: str, field_selector: str = "", timeout_s: float = 300.0
    ) -> AsyncIterator[list[WatchEvent[T]]]:
        self.watched_at.append(asyncio.get_running_loop().time())
        self.versions.append(resource_version)
        steps: list[Any] = self.watches.pop(0) if self.watches else ["hang"]
        for step in steps:
            if isinstance(step, APIError):
                raise step
            if step == "hang":
                await asyncio.sleep(timeout_s)
            elif step == "hang for ever":
                await asyncio.Event().wait()
            else:
                yield step


def pod_at(version: int, name: str = "a", **labels: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name, resource_version=str(version), labels=labels))


def event(version: int, type_: EventType = EventType.MODIFIED, name: str = "a") -> WatchEvent[Pod]:
    return WatchEvent(type_, pod_at(version, name), str(version))


def bookmark(version: int) -> WatchEvent[Pod]:
    return WatchEvent(EventType.BOOKMARK, None, str(version))


def play(
    client: ScriptedClient,
    seconds: float,
    *,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    **options: Any,
) -> tuple[Informer[Pod], Recorder]:
    heard = Recorder()

    async def main() -> Informer[Pod]:
        clock = LoopClock(asyncio.get_running_loop())
        informer: Informer[Pod] = Informer(
            client,  # type: ignore[arg-type]
            PODS,
            heard,
            clock=clock,
            rng=random.Random(1),
            **options,
        )
        tasks = [asyncio.ensure_future(each()) for each in (informer.run, beside) if each is not None]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return informer

    return run_virtual(main()), heard


def test_a_bookmark_moves_the_version_from_which_a_watch_goes_on() -> None:
    client = ScriptedClient([Page([pod_at(5)], "5", "")], [[[event(6), bookmark(90)], Unreachable("cut")]])
    play(client, 10)
    assert client.versions == ["5", "90"]


def test_a_change_of_nothing_that_is_read_still_moves_the_version() -> None:
    bad: WatchEvent[Pod] = WatchEvent(EventType.MODIFIED, None, "8")
    client = ScriptedClient([Page([pod_at(5)], "5", "")], [[[bad], Unreachable("cut")]])
    _, heard = play(client, 10)
    assert client.versions == ["5", "8"]
    assert heard.calls == ["add ns/a"]


def test_versions_that_go_back_are_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    pages: list[Page[Any] | APIError] = [Page([pod_at(50)], "50", ""), Page([pod_at(60)], "60", "")]
    client = ScriptedClient(pages, [[[event(51), event(9), event(52)]]])
    _, heard = play(client, 10)
    assert heard.calls == ["add ns/a", "update ns/a", "update ns/a"]
    assert heard.known == {"ns/a": "60"}  # 9 and what came after it were not taken; the new list was
    assert "version 9 came after 51" in str([r.__dict__.get("err") for r in caplog.records])


def test_a_bookmark_from_the_past_is_ignored() -> None:
    client = ScriptedClient([Page([pod_at(50)], "50", "")], [[[bookmark(9), event(51)], Unreachable("cut")]])
    play(client, 10)
    assert client.versions == ["50", "51"]
    assert len(client.listed_at) == 1


def test_one_informer_alone_tries_about_every_two_seconds_while_nothing_answers() -> None:
    client = ScriptedClient([Unreachable("refused")], [])
    play(client, 300)
    gaps = [b - a for a, b in zip(client.listed_at, client.listed_at[1:], strict=False)]
    assert 0.5 <= gaps[0] <= 1.0
    assert all(1.0 <= gap <= 2.5 for gap in gaps[1:])


def test_a_watch_that_is_always_gone_backs_off_up_to_half_a_minute_whatever_else_succeeds() -> None:
    client = ScriptedClient([Page([], "5", "")], [[Gone("too old")] for _ in range(1000)], list_takes_s=2.0)
    play(client, 300)
    gaps = [b - a for a, b in zip(client.listed_at, client.listed_at[1:], strict=False)]
    assert all(gap <= 32.0 for gap in gaps)
    assert min(gaps[6:]) >= 17.0


def test_a_short_list_is_made_again_within_a_second_however_often_the_watch_was_gone() -> None:
    client = ScriptedClient([Page([], "5", "")], [[Gone("too old")] for _ in range(1000)])
    play(client, 60)
    gaps = [b - a for a, b in zip(client.listed_at, client.listed_at[1:], strict=False)]
    assert gaps[0] == 0.0  # the apiserver was away, perhaps
    assert all(0.249 <= gap <= 1.001 for gap in gaps[1:])


def test_what_is_forbidden_is_tried_every_second() -> None:
    client = ScriptedClient([Forbidden("RBAC is not loaded", status=403)], [])
    play(client, 120)
    gaps = [b - a for a, b in zip(client.listed_at, client.listed_at[1:], strict=False)]
    assert max(gaps) <= 1.001
    assert min(gaps[3:]) >= 0.5


def test_a_retry_waits_as_long_as_the_server_asks() -> None:
    client = ScriptedClient([APIError("busy", status=429, retry_after_s=42.0), Page([], "1", "")], [])
    play(client, 60)
    assert client.listed_at == [0.0, 42.0]


def test_a_watch_that_is_always_gone_does_not_list_in_a_circle() -> None:
    client = ScriptedClient([Page([], "5", "")], [[Gone("too old")] for _ in range(1000)], list_takes_s=0.5)
    play(client, 120)
    assert len(client.listed_at) < 20  # a twentieth of the time


def test_a_version_too_old_after_an_outage_is_followed_by_a_list_at_once() -> None:
    """An apiserver that was away answers 410 to old versions: the streak of failures before says nothing any more."""
    watches: list[list[Any]] = [*([Unreachable("refused")] for _ in range(6)), [Gone("too old")]]
    client = ScriptedClient([Page([], "5", "")], watches)
    play(client, 120)
    assert len(client.listed_at) == 2
    assert client.listed_at[1] == client.watched_at[6]


def test_a_first_page_that_is_too_old_is_tried_again_as_soon_as_anything_succeeds() -> None:
    refusals: list[Page[Any] | APIError] = [Gone("disorder", status=410) for _ in range(8)]
    client = ScriptedClient([*refusals, Page([], "5", "")], [])
    pauses = RetryPauses(random.Random(1))

    async def answer_others() -> None:
        await asyncio.sleep(20.0)
        while True:
            pauses.succeeded()
            await asyncio.sleep(0.5)

    play(client, 40, beside=answer_others, pauses=pauses)
    late = [at_s for at_s in client.listed_at if at_s > 20.0]
    assert late[0] <= 21.0  # a second after the failure before, at the soonest
    assert all(b - a <= 2.0 for a, b in itertools.pairwise(late))


def test_a_watch_that_always_ends_at_once_is_not_repeated_in_a_circle() -> None:
    client = ScriptedClient([Page([], "5", "")], [[] for _ in range(1000)])
    play(client, 120)
    assert len(client.watched_at) < 12


def test_after_a_watch_that_lasted_the_next_starts_at_once() -> None:
    client = ScriptedClient([Page([], "5", "")], [["hang"], ["hang"]])
    play(client, 1300)
    assert len(client.watched_at) >= 3
    assert all(300 <= b - a <= 600 for a, b in zip(client.watched_at, client.watched_at[1:], strict=False))


def test_what_is_forbidden_is_named_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    refusal = Forbidden("GET /api/v1/pods: 403", status=403)
    client = ScriptedClient([*[refusal] * 5, Page([pod_at(5)], "5", "")], [])
    informer, _ = play(client, 30)
    assert informer.synced.is_set()
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.__dict__["needs"] == "list and watch on pods in v1"


def test_credentials_that_are_not_accepted_are_no_missing_right(caplog: pytest.LogCaptureFixture) -> None:
    refusals: list[Page[Any] | APIError] = [
        *[Forbidden("GET /api/v1/pods: 403", status=403)] * 5,
        Forbidden("GET /api/v1/pods: 401 Unauthorized", status=401),
        Forbidden("GET /api/v1/pods: 401 Unauthorized", status=401),
        Page([pod_at(5)], "5", ""),
    ]
    play(ScriptedClient(refusals, []), 30)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        "not allowed to list and watch",
        "credentials are not accepted",
    ]
    assert errors[1].__dict__["needs"].startswith("a token or certificate")


def logged_of_many_kinds(
    scenario: Callable[[Cluster, ClusterClient], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> list[logging.LogRecord]:
    """Run informers of many kinds beside the scenario, and return what they logged except for their lists."""

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster, pauses, outages = Cluster(clock), RetryPauses(random.Random(2)), Outages(clock)
        client = cluster.client()
        informers = [
            Informer(client, kind, Recorder(), clock=clock, rng=random.Random(seed), pauses=pauses, outages=outages)
            for seed, kind in enumerate(MANY_KINDS)
        ]
        tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
        await scenario(cluster, client)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    caplog.set_level(logging.INFO, logger="kscheduler.client")
    run_virtual(main())
    return [record for record in caplog.records if record.getMessage() != "list complete"]


def test_an_outage_is_logged_once_for_all_kinds_and_its_end_when_the_last_kind_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: Cluster, client: ClusterClient) -> None:
        cluster.stop()
        await asyncio.sleep(100)
        cluster.start()
        await asyncio.sleep(700)

    lines = logged_of_many_kinds(scenario, caplog)
    assert [line.getMessage() for line in lines] == ["list or watch failed", "list and watch work again"]
    assert vars(lines[1])["kinds"] == len(MANY_KINDS)
    assert vars(lines[1])["seconds"] >= 100


@pytest.mark.parametrize(("times", "expected"), [(1, set()), (2, {"watch version too old, listing again"})])
def test_watches_of_all_kinds_that_a_compaction_ends_are_logged_as_lists_only_unless_they_end_again(
    caplog: pytest.LogCaptureFixture, times: int, expected: set[str]
) -> None:
    async def scenario(cluster: Cluster, client: ClusterClient) -> None:
        for kind in MANY_KINDS:
            client.faults.add(FaultKind.GONE, Verb.WATCH, resource=kind.plural, count=times)
        await asyncio.sleep(100)

    lines = logged_of_many_kinds(scenario, caplog)
    assert {line.getMessage() for line in lines if line.getMessage() != "list and watch work again"} == expected
    assert ("list and watch work again" in {line.getMessage() for line in lines}) is bool(expected)


def test_credentials_that_expire_are_logged_once_for_all_kinds_and_again_when_others_are_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: Cluster, client: ClusterClient) -> None:
        await asyncio.sleep(10)
        client.faults.add(FaultKind.UNAUTHORIZED, (Verb.LIST, Verb.WATCH))
        await asyncio.sleep(1_000)  # the watches that were open end in this time
        client.faults.clear()
        await asyncio.sleep(700)

    lines = logged_of_many_kinds(scenario, caplog)
    assert [line.getMessage() for line in lines] == ["credentials are not accepted", "list and watch work again"]
    assert vars(lines[1])["kinds"] == len(MANY_KINDS)


def test_a_missing_right_is_logged_for_its_kind_even_while_all_kinds_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: Cluster, client: ClusterClient) -> None:
        client.faults.add(FaultKind.FORBIDDEN, (Verb.LIST, Verb.WATCH), resource="nodes")
        client.faults.add(FaultKind.UNAVAILABLE, (Verb.LIST, Verb.WATCH))
        await asyncio.sleep(100)

    lines = logged_of_many_kinds(scenario, caplog)
    assert sorted((line.getMessage(), vars(line).get("needs")) for line in lines) == [
        ("list or watch failed", None),
        ("not allowed to list and watch", "list and watch on nodes in v1"),
    ]


def test_rights_that_are_taken_away_are_named_in_one_line_for_all_kinds_that_miss_them_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(cluster: Cluster, client: ClusterClient) -> None:
        client.faults.add(FaultKind.FORBIDDEN, (Verb.LIST, Verb.WATCH))
        await asyncio.sleep(1_000)
        client.faults.clear()
        await asyncio.sleep(700)

    missing, end = logged_of_many_kinds(scenario, caplog)
    assert missing.levelno == logging.ERROR
    assert vars(missing)["kinds"] == len(MANY_KINDS)
    assert all(kind.plural in vars(missing)["needs"] for kind in MANY_KINDS)
    assert (end.getMessage(), vars(end)["kinds"]) == ("allowed to list and watch again", len(MANY_KINDS))


def test_an_informer_that_is_stopped_while_it_is_refused_misses_no_right_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        outages = Outages(clock)
        refused: Any = ScriptedClient([Forbidden("no", status=403)], [])
        kinds: tuple[Resource[Any], ...] = (PODS, NODES)
        informers = [
            Informer(refused, kind, Recorder(), clock=clock, rng=random.Random(1), outages=outages) for kind in kinds
        ]
        tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
        await asyncio.sleep(GATHER_S / 2)
        tasks[0].cancel()
        await asyncio.sleep(30)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
    assert [vars(record).get("needs") for record in caplog.records] == ["list and watch on nodes in v1"]


def test_a_kind_that_is_not_served_any_more_misses_no_right(caplog: pytest.LogCaptureFixture) -> None:
    refused, unknown = Forbidden("no", status=403), NotFound("no such kind", status=404)
    client = ScriptedClient([refused, refused, refused, refused, unknown], [])
    caplog.set_level(logging.INFO, logger="kscheduler.client")
    play(client, 30, may_be_unknown=True)
    assert [record.getMessage() for record in caplog.records] == [
        "not allowed to list and watch",
        "allowed to list and watch again",
        "kind not served by the apiserver; it is looked for again",
    ]


def test_the_last_error_is_there_for_readiness() -> None:
    client = ScriptedClient([Forbidden("no", status=403)], [])
    informer, _ = play(client, 10)
    assert isinstance(informer.last_error, Forbidden)
    assert not informer.synced.is_set()


def test_objects_of_the_same_version_are_reported_once() -> None:
    pages: list[Page[Any] | APIError] = [Page([pod_at(5)], "5", ""), Page([pod_at(5)], "9", "")]
    client = ScriptedClient(pages, [[Gone("too old")]])
    _, heard = play(client, 10)
    assert heard.calls == ["add ns/a"]


class SlowHandler(Recorder):
    """Takes 0.4 ms over each object."""

    def __init__(self, clock: Any) -> None:
        super().__init__()
        self._clock = clock

    def on_add(self, obj: Any) -> None:
        super().on_add(obj)
        self._clock.advance(0.0004)


def test_others_get_a_turn_while_a_page_is_handled() -> None:
    async def main() -> None:
        clock = ManualClock()
        pages: list[Page[Any] | APIError] = [Page([pod_at(5, f"p{i}") for i in range(100)], "5", "")]
        handler = SlowHandler(clock)
        informer = Informer(ScriptedClient(pages, []), PODS, handler, clock=clock, rng=random.Random(0))  # type: ignore[arg-type]
        task = asyncio.ensure_future(informer.run())
        between: list[int] = []
        while not informer.synced.is_set():
            await asyncio.sleep(0)
            between.append(len(handler.calls))
        steps = [after - before for before, after in itertools.pairwise([0, *between])]
        assert sum(steps) == 100
        assert max(steps) * 0.0004 <= SLICE_S + 0.0004
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_the_next_page_is_requested_while_the_objects_of_one_are_handled() -> None:
    async def main() -> None:
        clock = ManualClock()
        handler = SlowHandler(clock)
        handled_when_asked: list[int] = []

        class Asked(ScriptedClient):
            async def list_page(self, resource: Resource[T], **named: Any) -> Page[T]:
                handled_when_asked.append(len(handler.calls))
                return await super().list_page(resource, **named)

        pages: list[Page[Any] | APIError] = [
            Page([pod_at(5, f"p{i}") for i in range(100)], "5", "more"),
            Page([pod_at(5, "last")], "5", ""),
        ]
        informer = Informer(Asked(pages, []), PODS, handler, clock=clock, rng=random.Random(0))  # type: ignore[arg-type]
        task = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        assert len(handler.calls) == 101
        first, second = handled_when_asked
        assert first == 0
        assert second * 0.0004 <= SLICE_S + 0.0004
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


# --- what cannot be read ------------------------------------------------------------------------------------------


def unread(version: str, key: str = "ns/a", type_: EventType = EventType.MODIFIED) -> WatchEvent[Pod]:
    return WatchEvent(type_, None, version, key)


@pytest.mark.parametrize("lost", [unread("8"), unread("", UNNAMED), unread("8", type_=EventType.DELETED)])
def test_a_change_that_cannot_be_read_is_found_by_a_list(lost: WatchEvent[Pod]) -> None:
    pages: list[Page[Any] | APIError] = [Page([pod_at(5), pod_at(5, "b")], "5", ""), Page([pod_at(9)], "9", "")]
    client = ScriptedClient(pages, [[[event(7), lost, event(8, name="b")]]])
    informer, heard = play(client, 10)
    assert heard.calls == ["add ns/a", "add ns/b", "update ns/a", "update ns/a", "delete ns/b"]
    assert heard.known == {"ns/a": "9"}
    assert (len(client.listed_at), informer.resource_version) == (2, "9")
    assert client.listed_at[1] > client.listed_at[0]  # after a pause: a server whose lines are never sound


def test_what_no_list_can_read_is_left_as_it_was_read_last_and_asked_for_once() -> None:
    pages: list[Page[Any] | APIError] = [
        Page([pod_at(5), pod_at(5, "b")], "5", ""),
        Page([pod_at(9, "b")], "9", "", ["ns/a"]),
    ]
    watches: list[list[Any]] = [[[unread("8")]], [[unread("10"), event(11, name="b"), unread("12")], "hang"]]
    informer, heard = play(ScriptedClient(pages, watches), 10)
    assert heard.calls == ["add ns/a", "add ns/b", "update ns/b", "update ns/b"]
    assert (heard.known, informer.resource_version) == ({"ns/a": "5", "ns/b": "11"}, "12")


def test_a_list_without_it_ends_what_could_not_be_read() -> None:
    pages: list[Page[Any] | APIError] = [
        Page([pod_at(5)], "5", "", []),
        Page([], "9", "", ["ns/a", UNNAMED]),
        Page([], "20", ""),
    ]
    watches: list[list[Any]] = [[[unread("8")]], [[unread("10"), unread("", UNNAMED)]]]
    _, heard = play(ScriptedClient(pages, watches), 20)
    assert heard.calls == ["add ns/a", "delete ns/a"]


def test_an_object_that_keep_cannot_read_is_left_as_it_was_read_last() -> None:
    def keep(pod: Pod) -> Pod:
        if pod.metadata.resource_version in ("8", "9"):
            raise DecodeError("a part of it cannot be read")
        return pod

    pages: list[Page[Any] | APIError] = [Page([pod_at(5)], "5", ""), Page([pod_at(9)], "9", "")]
    client = ScriptedClient(pages, [[[event(8)]], [[event(9), event(10)], "hang"]])
    _, heard = play(client, 10, keep=keep)
    assert heard.calls == ["add ns/a", "update ns/a"]
    assert (heard.known, len(client.listed_at)) == ({"ns/a": "10"}, 2)


def test_lists_are_counted_by_their_reason_and_events_of_watches_by_their_type() -> None:
    measurements = Measurements()

    async def scenario(world: World) -> None:
        world.pod("a")
        await asyncio.wait_for(world.informer.synced.wait(), 1)
        world.touch("a", x="1")
        world.cluster.delete_pod("ns/a")
        await asyncio.sleep(1)
        world.cluster.stop()
        await asyncio.sleep(1)
        world.pod("b")
        world.cluster.compact()
        world.cluster.start()
        await asyncio.sleep(60)

    simulate(scenario, measurements=measurements)
    lists, events = measurements.metrics.informer_lists_total, measurements.metrics.informer_watch_events_total
    assert {labels: counter.value for labels, counter in lists.items()} == {
        ("pods", "start"): 1,
        ("pods", "expired"): 1,
    }
    assert events.labels("pods", "MODIFIED").value == 1
    assert events.labels("pods", "DELETED").value == 1
