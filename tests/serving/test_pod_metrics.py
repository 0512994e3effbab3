"""/metrics/resources: the samples, their order, and that decisions do not wait for them."""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp import web

from kscheduler.api.objects import Pod
from kscheduler.serving.pod_metrics import PODS_A_TURN, PodResourceMetrics
from kscheduler.testing.wrappers import PodBuilder, make_pod


async def answer(pods: dict[str, Pod]) -> str:
    response = await PodResourceMetrics(pods).answer(cast(web.Request, None))
    assert isinstance(response.body, bytes)
    return response.body.decode()


async def samples(*pods: PodBuilder) -> list[str]:
    built = [each.obj() for each in pods]
    text = await answer({pod.key: pod for pod in built})
    return [line for line in text.splitlines() if not line.startswith("#")]


async def amounts(pod: PodBuilder) -> dict[str, float]:
    """Metric and resource -> value."""
    found = {}
    for line in await samples(pod):
        labels, _, value = line.rpartition(" ")
        kind = labels.partition("{")[0].removeprefix("kube_pod_resource_")
        resource = labels.partition('resource="')[2].partition('"')[0]
        found[f"{kind} {resource}"] = float(value)
    return found


async def test_each_resource_has_a_sample_with_its_unit() -> None:
    asked: dict[str, str | int] = {
        "nvidia.com/gpu": 2,
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-csi-x": 3,
        "ephemeral-storage": 5,
    }
    pod = make_pod("web").node("n1").priority(7).req(cpu="1500m", memory="1Gi", **asked)
    front = 'kube_pod_resource_request{namespace="default",node="n1",pod="web",priority="7",resource='
    assert await samples(pod) == [
        f'{front}"attachable-volumes-csi-x",scheduler="default-scheduler",unit="integer"}} 3.0',
        f'{front}"cpu",scheduler="default-scheduler",unit="cores"}} 1.5',
        f'{front}"ephemeral-storage",scheduler="default-scheduler",unit="bytes"}} 5.0',
        f'{front}"hugepages-2Mi",scheduler="default-scheduler",unit="bytes"}} 4.194304e+06',
        f'{front}"memory",scheduler="default-scheduler",unit="bytes"}} 1.073741824e+09',
        f'{front}"nvidia.com/gpu",scheduler="default-scheduler",unit=""}} 2.0',
    ]


async def test_init_containers_overhead_and_pod_level_requests_count_as_for_scheduling() -> None:
    pod = make_pod("p").req(cpu=1).container("b", cpu=1).init_container("i", cpu=3)
    assert await amounts(pod) == {"request cpu": 3}
    assert await amounts(pod.overhead(cpu="250m", memory=10)) == {"request cpu": 3.25, "request memory": 10}
    assert await amounts(pod.pod_level_req(cpu=5)) == {"request cpu": 5.0}


async def test_overhead_is_added_to_limits_that_there_are() -> None:
    pod = make_pod("p").req(cpu=1, memory=1).limits(cpu=2).overhead(cpu=1, memory=10)
    assert await amounts(pod) == {"limit cpu": 3, "request cpu": 2, "request memory": 11}


async def test_pods_stand_in_order_and_limits_before_requests() -> None:
    pods = [
        make_pod("b").req(cpu=1).limits(cpu=1),
        make_pod("a", "other").req(cpu=1),
        make_pod("z").node("m").req(cpu=1),
        make_pod("a").node("n").req(cpu=1).limits(cpu=2),
    ]
    found = [line.replace('"', "").partition(",priority")[0].partition("{") for line in await samples(*pods)]
    assert [(name.removeprefix("kube_pod_resource_"), labels) for name, _, labels in found] == [
        ("limit", "namespace=default,node=,pod=b"),
        ("limit", "namespace=default,node=n,pod=a"),
        ("request", "namespace=default,node=,pod=b"),
        ("request", "namespace=default,node=m,pod=z"),
        ("request", "namespace=default,node=n,pod=a"),
        ("request", "namespace=other,node=,pod=a"),
    ]


async def test_finished_pods_and_those_that_cannot_be_read_are_left_out() -> None:
    pods = [
        make_pod("done").node("n").phase("Succeeded").req(cpu=1),
        make_pod("failed").node("n").phase("Failed").req(cpu=1),
        make_pod("odd").req(cpu="much"),
        make_pod("free").req(cpu=0),
    ]
    assert await samples(*pods) == []


async def test_a_pod_that_failed_before_it_had_a_node_counts_as_with_kube_scheduler() -> None:
    [requested] = await samples(make_pod("gone").phase("Failed").req(cpu=1))
    assert 'pod="gone"' in requested


async def test_what_a_user_wrote_cannot_end_a_label() -> None:
    assert r'scheduler="a\"b\\c"' in (await samples(make_pod("p").scheduler_name('a"b\\c').req(cpu=1)))[0]


async def test_others_have_their_turns_and_may_change_the_pods_meanwhile() -> None:
    built = [make_pod(f"p{number}").req(cpu=1).obj() for number in range(5 * PODS_A_TURN)]
    pods = {pod.key: pod for pod in built}
    asked = asyncio.ensure_future(answer(pods))
    turns = 0
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
        pods.clear()
    assert turns >= 10
    assert asked.result().count("\nkube_pod_resource_request{") == len(built)
