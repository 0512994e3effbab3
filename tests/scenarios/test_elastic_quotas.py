"""Namespaces with ElasticQuotas, in a whole scheduler: what is lent is taken back, and waiting pods get their turn."""

from __future__ import annotations

import cProfile
import logging
from collections import Counter
from types import CodeType

import pytest
from msgspec.structs import replace

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec, ElasticQuotaStatus
from kscheduler.api.objects import QuantityMap
from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.config.load import parse_config
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import PodBuilder, make_pod
from tests.scenarios.quotas import CONFIG, quota
from tests.support.world import World, in_virtual_time

GPU = "nvidia.com/gpu"


def world() -> World:
    return World(config=parse_config(CONFIG, "test"))


def pod(name: str, namespace: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    return make_pod(name, namespace).req(cpu=cpu).priority(priority).grace_period(0)


def bound(world: World) -> Counter[str]:
    """How many pods of each namespace have a node."""
    return Counter(each.metadata.namespace for each in world.cluster.pods.values() if each.spec.node_name)


def current(world: World, namespace: str) -> ElasticQuota:
    found: ElasticQuota = world.cluster.store(ELASTIC_QUOTAS).objects[f"{namespace}/quota"]
    return found


def used(world: World, namespace: str) -> QuantityMap | None:
    return current(world, namespace).status.used


@in_virtual_time
async def test_a_namespace_uses_what_others_do_not_use_until_they_want_it() -> None:
    async with world() as here:
        here.add_node("n1", cpu="4")
        for namespace in ("a", "b"):
            here.cluster.create_object(quota(namespace, {"cpu": "2"}, {"cpu": "4"}))
        for number in range(4):
            here.add_pod(pod(f"p{number}", "a", priority=10 * number))
        await here.until(here.all_bound)
        assert bound(here) == {"a": 4}
        here.add_pod(pod("q0", "b"))
        here.add_pod(pod("q1", "b"))
        await here.until(here.all_bound)
        assert bound(here) == {"a": 2, "b": 2}
        assert {each.metadata.name for each in here.cluster.pods.values()} >= {"p2", "p3"}, "the least important went"


@in_virtual_time
async def test_no_pod_goes_beyond_max_and_it_is_tried_again_when_one_ends() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.cluster.create_object(quota("a", {"cpu": "4"}, {"cpu": "2"}))
        for number in range(3):
            here.add_pod(pod(f"p{number}", "a"))
        await here.until(lambda: bound(here) == {"a": 2})
        await here.sleep(10.0)
        assert bound(here) == {"a": 2}
        condition = here.condition("a/p2")
        assert condition is not None
        assert condition.message == (
            "0/1 nodes are available: Pod a/p2 is rejected in PreFilter because ElasticQuota a is more than Max. "
            "0/1 nodes are available: 1 No victims found on node n1 for preemptor pod p2."
        )
        here.cluster.delete_pod("a/p0")
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_quota_that_grows_or_goes_wakes_the_pods_that_it_rejected() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.cluster.create_object(quota("a", {"cpu": "1"}))
        here.add_pod(pod("p0", "a", "2"))
        await here.sleep(5.0)
        assert not bound(here)
        grown = replace(current(here, "a"), spec=ElasticQuotaSpec({"cpu": "2"}))
        here.cluster.update_object(grown)
        await here.until(here.all_bound)
        here.add_pod(pod("p1", "a", "2"))
        await here.sleep(5.0)
        assert bound(here) == {"a": 1}
        here.cluster.delete_object(ELASTIC_QUOTAS, "a/quota")
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_pod_that_is_resized_leaves_room_to_the_next() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.cluster.create_object(quota("a", {"cpu": "3"}, {"cpu": "3"}))
        here.add_pod(pod("p0", "a", "2"))
        await here.until(here.all_bound)
        here.add_pod(pod("p1", "a", "2"))
        await here.sleep(5.0)
        assert bound(here) == {"a": 1}
        smaller = pod("p0", "a", "1").obj().spec.containers
        here.change_pod("a/p0", lambda each: replace(each, spec=replace(each.spec, containers=smaller)))
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_new_quota_counts_the_pods_that_are_there() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.add_pod(pod("p0", "a", "2"))
        await here.until(here.all_bound)
        here.cluster.create_object(quota("a", {"cpu": "3"}, {"cpu": "3"}))
        await here.sleep(1.0)
        here.add_pod(pod("p1", "a", "2"))
        here.add_pod(pod("free", "b", "2"))
        await here.sleep(5.0)
        assert bound(here) == {"a": 1, "b": 1}
        here.cluster.delete_pod("a/p1")


@in_virtual_time
async def test_a_quota_that_cannot_be_read_does_not_count_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with world() as here:
            here.add_node("n1", cpu="10")
            here.cluster.create_object(quota("a", {"cpu": "1"}, {"cpu": "1"}))
            await here.sleep(5.0)
            here.cluster.update_object(replace(current(here, "a"), spec=ElasticQuotaSpec({"cpu": "lots"})))
            here.add_pod(pod("p", "a", "2"))
            await here.until(here.all_bound)
    (record,) = (each for each in caplog.records if "elastic quota" in each.message)
    assert vars(record)["quota"] == "a/quota"
    assert 'spec.min[cpu]: expected a quantity such as "100m" or "2Gi", got "lots"' in vars(record)["err"]


@in_virtual_time
async def test_the_status_has_what_running_pods_use() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.cluster.create_object(quota("a", {"cpu": "8", "memory": "8Gi"}, {"cpu": "8", "memory": "8Gi", GPU: "4"}))
        await here.until(lambda: used(here, "a") == {"cpu": "0", "memory": "0", GPU: "0"})
        here.add_pod(pod("p0", "a", "1500m"))
        here.add_pod(pod("p1", "a", "500m").req(memory="1Gi"))
        await here.until(here.all_bound)
        await here.sleep(5.0)
        assert used(here, "a") == {"cpu": "0", "memory": "0", GPU: "0"}, "they have been bound, and do not run yet"
        for name in ("a/p0", "a/p1"):
            here.change_pod(name, lambda each: replace(each, status=replace(each.status, phase="Running")))
        await here.until(lambda: used(here, "a") == {"cpu": "2", "memory": str(1 << 30), GPU: "0"})
        here.cluster.delete_pod("a/p1")
        await here.until(lambda: used(here, "a") == {"cpu": "1500m", "memory": "0", GPU: "0"})
        events = [event for event in here.cluster.events if event.reason == "Synced"]
        assert [event.note for event in events] == ["Elastic Quota a/quota synced successfully"]


@in_virtual_time
async def test_a_status_that_could_not_be_written_is_written_later_and_one_that_is_right_never() -> None:
    async with world() as here:
        here.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_QUOTA, count=2)
        here.cluster.create_object(quota("a", {"cpu": "8"}))
        right = quota("b", {"cpu": "8"})
        here.cluster.create_object(replace(right, status=ElasticQuotaStatus({"cpu": "0.0"})))
        await here.until(lambda: used(here, "a") == {"cpu": "0"})
        assert used(here, "b") == {"cpu": "0.0"}


@in_virtual_time
async def test_nothing_is_watched_and_counted_where_no_profile_keeps_quotas() -> None:
    async with World() as here:
        here.add_node("n1", cpu="4")
        here.cluster.create_object(quota("a", {"cpu": "1"}, {"cpu": "1"}))
        here.add_pod(pod("p", "a", "2"))
        await here.until(here.all_bound)
        assert ELASTIC_QUOTAS not in [informer.resource for informer in here.scheduler.informers]
        assert here.scheduler.elastic_quotas is None


def called(profile: cProfile.Profile) -> set[str]:
    """The functions about quotas that were called, by file and name."""
    codes = [entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType)]
    about = ("kscheduler/quotas/", "capacityscheduling/", "quota_events", "quota_statuses")
    return {code.co_qualname for code in codes if any(part in code.co_filename for part in about)}


@pytest.mark.parametrize(("config", "are_called"), [(None, False), (CONFIG, True)])
@in_virtual_time
async def test_pods_of_profiles_without_the_plugin_call_nothing_about_quotas(
    config: str | None, are_called: bool
) -> None:
    async with World(config=None if config is None else parse_config(config, "test")) as here:
        here.add_node("n1", cpu="20")
        await here.sleep(1.0)
        profile = cProfile.Profile(subcalls=False, builtins=False)
        profile.enable()
        try:
            for number in range(10):
                here.add_pod(pod(f"p{number}", "a"))
            await here.until(here.all_bound)
            here.cluster.delete_pod("a/p0")
            await here.sleep(1.0)
        finally:
            profile.disable()
        found = called(profile)
        assert ("ElasticQuotas.pods_added" in found) == ("CapacityScheduling.admitted" in found) == are_called
        assert are_called or found == set()
