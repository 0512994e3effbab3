"""Each fault does what it says, as often as it says, and the same way for the same seed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kscheduler.client.kinds import PODS
from kscheduler.client.protocol import Binding
from kscheduler.errors import APIError, Conflict, Gone, NotFound, TooManyRequests, Unreachable
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Faults, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.simulator.objects import binding, make_pod, next_batch


def new_cluster() -> Cluster:
    return Cluster(LoopClock(asyncio.get_running_loop()))


def now() -> float:
    return asyncio.get_running_loop().time()


async def outcome(request: Coroutine[Any, Any, object]) -> str:
    try:
        await request
    except APIError as error:
        return type(error).__name__
    return "ok"


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        (FaultKind.CONFLICT, Conflict, 409),
        (FaultKind.NOT_FOUND, NotFound, 404),
        (FaultKind.GONE, Gone, 410),
        (FaultKind.TOO_MANY_REQUESTS, TooManyRequests, 429),
        (FaultKind.SERVER_ERROR, APIError, 500),
        (FaultKind.TIMEOUT, Unreachable, 0),
    ],
)
def test_a_refused_request_raises_its_error_and_changes_nothing(
    kind: FaultKind, error: type[APIError], status: int
) -> None:
    async def main() -> None:
        cluster, faults = new_cluster(), Faults()
        pod = cluster.create_pod(make_pod("a"))
        faults.add(kind, Verb.BIND, count=1, retry_after_s=2.0)
        client = cluster.client(faults=faults)
        with pytest.raises(error, match="injected fault") as caught:
            await client.bind(binding(pod))
        assert caught.value.status == status
        assert cluster.pods["default/a"].spec.node_name == ""
        await client.bind(binding(pod))
        assert cluster.pods["default/a"].spec.node_name == "n0"

    run_virtual(main())


def test_a_lost_answer_leaves_the_pod_bound() -> None:
    async def main() -> None:
        cluster, faults = new_cluster(), Faults()
        pod = cluster.create_pod(make_pod("a"))
        faults.add(FaultKind.LOST_ANSWER, Verb.BIND)
        with pytest.raises(Unreachable, match="the answer to bind was lost"):
            await cluster.client(faults=faults).bind(binding(pod))
        assert cluster.pods["default/a"].spec.node_name == "n0"

    run_virtual(main())


def test_a_fault_skips_counts_and_chooses_by_predicate() -> None:
    async def main() -> list[str]:
        cluster, faults = new_cluster(), Faults()
        pods = [cluster.create_pod(make_pod(f"p{index}")) for index in range(6)]

        def is_not_p0(subject: object) -> bool:
            return isinstance(subject, Binding) and subject.name != "p0"

        faults.add(FaultKind.CONFLICT, Verb.BIND, skip=1, count=2, matches=is_not_p0)
        client = cluster.client(faults=faults)
        outcomes = [await outcome(client.bind(binding(pod))) for pod in pods]
        assert faults.struck(FaultKind.CONFLICT) == 2
        return outcomes

    assert run_virtual(main()) == ["ok", "ok", "Conflict", "Conflict", "ok", "ok"]


def test_chance_comes_from_the_seed_alone() -> None:
    async def main(seed: int) -> list[str]:
        cluster, faults = new_cluster(), Faults(seed)
        faults.add(FaultKind.SERVER_ERROR, [Verb.LIST, Verb.BIND], probability=0.5)
        client = cluster.client(faults=faults)
        return [await outcome(client.list_page(PODS)) for _ in range(50)]

    first, again, other = (run_virtual(main(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert 10 < first.count("APIError") < 40


def test_a_watch_is_cut_duplicated_delayed_and_silent() -> None:
    async def main() -> None:
        cluster, faults = new_cluster(), Faults()
        client = cluster.client(faults=faults)
        faults.add(FaultKind.DUPLICATE, Verb.DELIVER, count=1)
        faults.add(FaultKind.DELAYED, Verb.DELIVER, count=1, delay_s=5.0)
        faults.add(FaultKind.SILENT, Verb.DELIVER, count=1, delay_s=90.0)
        faults.add(FaultKind.CUT, Verb.DELIVER, count=1)
        events = client.watch(PODS, resource_version="0")
        cluster.create_pod(make_pod("a"))
        assert await next_batch(events) == [("ADDED", "a")]
        assert await next_batch(events) == [("ADDED", "a")]
        cluster.create_pod(make_pod("b"))
        assert (await next_batch(events), now()) == ([("ADDED", "b")], 5.0)
        cluster.create_pod(make_pod("c"))
        with pytest.raises(Unreachable, match="silent"):
            await next_batch(events)
        assert now() == 95.0
        with pytest.raises(Unreachable, match="cut"):
            await next_batch(client.watch(PODS, resource_version="0"))
        assert len(await next_batch(client.watch(PODS, resource_version="0"))) == 3

    run_virtual(main())


def test_a_stale_list_is_the_list_of_some_changes_ago() -> None:
    async def main() -> None:
        cluster, faults = new_cluster(), Faults()
        for name in "abc":
            cluster.create_pod(make_pod(name))
        cluster.delete_pod("default/a")
        cluster.bind(Binding("default", "b", "", "n0"))
        faults.add(FaultKind.STALE_LIST, Verb.LIST, count=1, changes=3)
        client = cluster.client(faults=faults)
        page = await client.list_page(PODS)
        assert [(pod.metadata.name, pod.spec.node_name) for pod in page.items] == [("a", ""), ("b", "")]
        assert [pod.metadata.resource_version for pod in page.items] == ["1", "2"]  # as they were then
        assert page.resource_version == "2"
        events = await next_batch(client.watch(PODS, resource_version=page.resource_version))
        assert events == [("ADDED", "c"), ("DELETED", "a"), ("MODIFIED", "b")]

    run_virtual(main())


def test_an_open_watch_gone_at_the_server_is_gone_when_asked_for() -> None:
    async def main() -> None:
        cluster, faults = new_cluster(), Faults()
        faults.add(FaultKind.GONE, Verb.WATCH, resource="pods", count=1)
        client = cluster.client(faults=faults)
        with pytest.raises(Gone):
            await next_batch(client.watch(PODS, resource_version="0"))

    run_virtual(main())


def test_latency_passes_in_virtual_time_and_the_write_happens_halfway() -> None:
    async def main() -> None:
        cluster = new_cluster()
        pod = cluster.create_pod(make_pod("a"))
        task = asyncio.create_task(cluster.client(latency=Latency(bind_s=2.0)).bind(binding(pod)))
        await asyncio.sleep(0.9)
        assert cluster.pods["default/a"].spec.node_name == ""
        await asyncio.sleep(0.2)
        assert cluster.pods["default/a"].spec.node_name == "n0"
        await task
        assert now() == pytest.approx(2.0)

    run_virtual(main())


def test_a_write_whose_server_dies_before_the_answer_may_have_happened() -> None:
    async def main() -> None:
        cluster = new_cluster()
        pod = cluster.create_pod(make_pod("a"))
        task = asyncio.create_task(cluster.client(latency=Latency(bind_s=2.0)).bind(binding(pod)))
        await asyncio.sleep(1.5)
        cluster.stop()
        with pytest.raises(Unreachable):
            await task
        assert cluster.pods["default/a"].spec.node_name == "n0"

    run_virtual(main())


def test_a_quiet_watch_sends_bookmarks_and_ends_in_time() -> None:
    async def main() -> None:
        cluster = new_cluster()
        cluster.create_pod(make_pod("a"))
        batches = [batch async for batch in cluster.client().watch(PODS, resource_version="1", timeout_s=150)]
        assert [(event.type.value, event.resource_version) for batch in batches for event in batch] == [
            ("BOOKMARK", "1")
        ] * 3
        assert now() == 150

    run_virtual(main())


def test_a_fault_for_open_watches_cannot_be_asked_of_other_requests() -> None:
    with pytest.raises(ValueError, match="CUT happens to an open watch"):
        Faults().add(FaultKind.CUT, Verb.LIST)
