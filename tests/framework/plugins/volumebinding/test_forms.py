"""On any cluster both forms say what the rules say; where there are many nodes, too."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.plugins.volumebinding.obstacles import status_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node
from tests.framework.plugins.volumebinding.both_forms import Judge
from tests.framework.plugins.volumebinding.clusters import CSI, SIZES, claims, judges, volumes
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_class,
    pod_with,
)
from tests.framework.plugins.volumebinding.oracle import judge

CHANGES = ("reserve", "reserve", "volume", "no volume", "claim", "class", "capacity", "no capacity", "node")


@settings(max_examples=400, deadline=None)
@given(judges(), st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=3))
def test_both_forms_say_what_the_rules_say(judged: Judge, names: list[str]) -> None:
    pod = pod_with(*names)
    found = judged.filter(pod)
    for node in judged.cache.table:
        expected = judge(pod.obj(), judged.volumes, node.labels, node.name)
        assert found[node.name] == (status_of(expected) if expected else None), node.name


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_remembered_of_one_pod_is_right_for_the_next(data: st.DataObject) -> None:
    judged = data.draw(judges())
    for _ in range(6):
        names = data.draw(st.lists(st.sampled_from(["c0", "c1", "c2"]), min_size=1, max_size=2))
        found = judged.filter(pod_with(*names))
        for node in judged.cache.table:
            expected = judge(pod_with(*names).obj(), judged.volumes, node.labels, node.name)
            assert found[node.name] == (status_of(expected) if expected else None), node.name
        change = data.draw(st.sampled_from(CHANGES))
        known = judged.volumes
        if change == "reserve":
            node_name = next((name for name, status in found.items() if status is None), "n0")
            info = PodInfo(pod_with(*names).obj())
            judged.plugin.reserve(judged.state, info, node_name)
            if data.draw(st.booleans()):
                judged.plugin.unreserve(judged.state, info, node_name)
        elif change == "volume":
            known.set_volume(data.draw(volumes(data.draw(st.sampled_from(["v0", "v1", "new"])))))
        elif change == "no volume":
            known.remove_volume("v0")
        elif change == "claim":
            known.set_claim(data.draw(claims("c0")))
        elif change == "class":
            known.set_storage_class(make_class("dynamic", CSI, "WaitForFirstConsumer", {"zone": ["b"]}))
        elif change == "capacity":
            topology = data.draw(st.sampled_from([{}, {"rack": "r2"}, {HOSTNAME: "n2"}]))
            known.set_capacity(make_capacity("k0", "dynamic", data.draw(st.sampled_from(SIZES)), topology))
        elif change == "no capacity":
            known.remove_capacity("kube-system", "k0")
        else:
            judged.cache.set_node(make_node("n0").label("zone", data.draw(st.sampled_from(["a", "b", "new"]))).obj())
