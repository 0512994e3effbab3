"""Gangs in namespaces with ElasticQuotas: a quota admits a gang's minimum or none of it."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.elastic_quotas import ElasticQuotaSpec
from kscheduler.api.objects import QuantityMap
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.client.kinds import ELASTIC_QUOTAS
from kscheduler.config.load import parse_config
from kscheduler.testing import make_pod
from tests.scenarios.gangs import bound_pods, gang
from tests.scenarios.quotas import CONFIG, quota
from tests.support.world import World, in_virtual_time


def world(most: QuantityMap) -> World:
    here = World(
        config=parse_config(CONFIG + "    permit: {enabled: [{name: Coscheduling}]}\n", "test"), expect_conditions=False
    )
    here.add_node("n1", cpu="10")
    here.cluster.create_object(quota("default", most, most))
    return here


def add_members(here: World, name: str, count: int) -> None:
    for number in range(count):
        here.add_pod(make_pod(f"{name}-{number}").label(POD_GROUP_LABEL, name).req(cpu="1"))


@in_virtual_time
async def test_a_gang_beyond_its_quota_takes_nothing_of_it() -> None:
    async with world({"cpu": "4"}) as here:
        here.cluster.create_object(gang("large", 5))
        here.cluster.create_object(gang("small", 4))
        add_members(here, "large", 5)
        await here.sleep(5.0)
        assert not bound_pods(here)
        add_members(here, "small", 4)
        await here.until(lambda: bound_pods(here) == {"small": 4})
        await here.sleep(30.0)
        assert bound_pods(here) == {"small": 4}


@in_virtual_time
async def test_a_gang_is_placed_when_its_quota_has_grown() -> None:
    async with world({"cpu": "4"}) as here:
        here.cluster.create_object(gang("large", 5))
        add_members(here, "large", 5)
        await here.sleep(5.0)
        assert not bound_pods(here)
        current = here.cluster.store(ELASTIC_QUOTAS).objects["default/quota"]
        here.cluster.update_object(replace(current, spec=ElasticQuotaSpec({"cpu": "5"}, {"cpu": "5"})))
        await here.until(here.all_bound)


@in_virtual_time
async def test_members_above_the_minimum_fill_what_the_quota_leaves() -> None:
    async with world({"cpu": "4"}) as here:
        here.cluster.create_object(gang("elastic", 2))
        add_members(here, "elastic", 6)
        await here.until(lambda: bound_pods(here) == {"elastic": 4})
