"""Objects that say which pods belong together: namespaces, services and controllers, as the watch brings them."""

from __future__ import annotations

from kscheduler.api.objects import Namespace, ObjectMeta, Service, ServiceSpec
from kscheduler.testing import make_node, make_pod
from tests.support.world import World, in_virtual_time


async def place_six(world: World) -> tuple[int, int]:
    """How many of six pods go to a node in use, and how many to an empty one in another zone."""
    for zone in ("a", "b"):
        world.add_node(make_node(zone).label("topology.kubernetes.io/zone", zone).capacity(cpu="64", memory="256Gi"))
    world.add_pod(make_pod("filler").node("a").req(cpu="8", memory="32Gi"))
    for index in range(6):
        world.add_pod(make_pod(f"web-{index}").label("app", "web").req(cpu="1", memory="4Gi"))
    await world.until(world.all_bound)
    nodes = [world.node_of(f"web-{index}") for index in range(6)]
    return nodes.count("a"), nodes.count("b")


@in_virtual_time
async def test_pods_of_no_service_go_where_there_is_most_room() -> None:
    async with World() as world:
        assert await place_six(world) == (0, 6)


@in_virtual_time
async def test_pods_of_one_service_are_spread_over_zones_without_saying_so() -> None:
    async with World() as world:
        service = Service(ObjectMeta(name="web", namespace="default"), ServiceSpec(selector={"app": "web"}))
        world.cluster.create_object(service)
        assert await place_six(world) == (3, 3)


@in_virtual_time
async def test_a_namespace_selector_sees_the_labels_of_namespaces() -> None:
    async with World() as world:
        for name, team in (("shop", "x"), ("bank", "y")):
            meta = ObjectMeta(name=name, labels={"team": team})
            world.cluster.create_object(Namespace(meta))
        for node, namespace in (("n1", "shop"), ("n2", "bank")):
            world.add_node(node)
            world.cluster.create_pod(make_pod("db", namespace=namespace).label("app", "db").node(node).obj())
        pod = make_pod("near").pod_affinity("kubernetes.io/hostname", {"app": "db"}, namespace_selector={"team": "y"})
        world.cluster.create_pod(pod.obj())
        await world.until(lambda: world.node_of("near") != "")
        assert world.node_of("near") == "n2"
