"""What quotas leave to pods that are placed one after the other is what the comparisons at PreFilter would say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, QuantityMap
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.quotas.room import Room, has_room_for_all
from kscheduler.testing import make_pod

GPU = "nvidia.com/gpu"
amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 4).map(str), max_size=3)
namespaces = st.sampled_from(["a", "b"])


def quota(namespace: str, least: QuantityMap, most: QuantityMap | None) -> ElasticQuota:
    return ElasticQuota(ObjectMeta(name="quota", namespace=namespace), ElasticQuotaSpec(least, most))


@given(
    least=st.tuples(amounts, amounts),
    most=st.tuples(st.none() | amounts, st.none() | amounts),
    there=st.lists(st.tuples(namespaces, amounts), max_size=3),
    wanted=st.lists(st.tuples(namespaces, amounts, st.booleans()), max_size=6),
)
def test_it_agrees_with_a_view_of_the_same_pods(
    least: tuple[QuantityMap, QuantityMap],
    most: tuple[QuantityMap | None, QuantityMap | None],
    there: list[tuple[str, dict[str, str]]],
    wanted: list[tuple[str, dict[str, str], bool]],
) -> None:
    quotas = ElasticQuotas()
    for namespace, own_min, own_max in zip("ab", least, most, strict=True):
        quotas.set(quota(namespace, own_min, own_max))
    for number, (namespace, requests) in enumerate(there):
        quotas.pod_added(make_pod(f"t{number}", namespace).uid(f"t{number}").req(**requests).node("n").obj())
    room, view = Room(quotas), quotas.view()
    for number, (namespace, requests, is_counted) in enumerate(wanted):
        pod = make_pod(f"w{number}", namespace).uid(f"w{number}").req(**requests).obj()
        request = quotas.request_of(pod)
        is_within = not view.exceeds_max(namespace, request) and not view.exceeds_all_min(request)
        assert room.has(namespace, request) == is_within
        if is_counted:
            room.count(namespace, request)
            view.add(pod)
    # All together fit if each does after those before it.
    room, are_within = Room(quotas), True
    pods = [
        make_pod(f"w{number}", each).uid(f"w{number}").req(**asked).obj()
        for number, (each, asked, _) in enumerate(wanted)
    ]
    for pod in pods:
        namespace, request = pod.metadata.namespace, quotas.request_of(pod)
        are_within = are_within and room.has(namespace, request)
        room.count(namespace, request)
    assert has_room_for_all(quotas, quotas.by_kind(pods)) == are_within
