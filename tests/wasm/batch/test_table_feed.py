from __future__ import annotations

import random
from typing import Any

import pytest

from kscheduler._fast import COMPILED
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.wrappers import NodeBuilder
from kscheduler.wasm.batch import table_feed
from kscheduler.wasm.batch.indexed_column import SPARE_VALUES, IndexedColumn
from tests.wasm.batch.fake_guest import ListGuest, unpack
from tests.wasm.batch.plugins import info, make, score_all

GPU = "x.io/gpu"
EVERYTHING: dict[str, Any] = {
    "pod": ["labels"],
    "table": ["names", "unschedulable", "allocatable", "taints", "images", "usage", "pods"],
    "resources": ["cpu", "memory", GPU, "x.io/never"],
    "labels": ["zone"],
    "annotations": ["rack"],
    "metrics": ["watts"],
}


def expected(table: NodeTable, row: int) -> dict[str, Any]:
    found = table.find(row)
    if found is None:
        nothing = dict.fromkeys(("cpu", "memory", GPU, "x.io/never"), 0)
        return {
            "alive": 0, "names": "", "cordoned": 0, "max_pods": 0, "used_cpu": 0, "used_memory": 0, "pods_n": 0,
            "labels/zone": None, "annotations/rack": None, "taints": None, "images": None, "pods": [],
            "metrics/watts": -(1 << 63),
            **{f"alloc/{name}": amount for name, amount in nothing.items()},
            **{f"used/{name}": amount for name, amount in nothing.items()},
        }  # fmt: skip
    return expected_of(table, found)


def expected_of(table: NodeTable, node: NodeInfo) -> dict[str, Any]:
    cpu, memory = node.non_zero_requested
    found: dict[str, Any] = {
        "alive": 1,
        "names": node.name,
        "cordoned": int(node.node.spec.unschedulable),
        "max_pods": node.allocatable.pods,
        "used_cpu": cpu,
        "used_memory": memory,
        "pods_n": len(node.pods),
        "labels/zone": node.labels.get("zone"),
        "annotations/rack": (node.node.metadata.annotations or {}).get("rack"),
        "taints": [[t.key, t.value, t.effect] for t in node.node.spec.taints or ()] or None,
        "images": [[name, i.size_bytes] for i in node.node.status.images or () for name in i.names or ()] or None,
        "pods": [
            {"uid": pod.uid, **({"labels": pod.pod.metadata.labels} if pod.pod.metadata.labels else {})}
            for pod in node.pods.values()
        ],
        "metrics/watts": -(1 << 63),
    }
    for name in EVERYTHING["resources"]:
        column = table.resources.find(name)
        found[f"alloc/{name}"] = 0 if column is None else table.columns.allocatable(node.row, column)
        found[f"used/{name}"] = 0 if column is None else table.columns.requested(node.row, column)
    return found


def random_node(name: str, chance: random.Random) -> NodeBuilder:
    node = make_node(name).allocatable(cpu=str(chance.randrange(9)), memory="1Gi", pods=str(chance.randrange(200)))
    if chance.random() < 0.5:
        node = node.label("zone", f"z{chance.randrange(5)}").annotation("rack", f"r{chance.randrange(99)}")
    if chance.random() < 0.3:
        node = node.taint("dedicated", chance.choice("abc")).image(f"img{chance.randrange(3)}", 1 << 20)
    return node.unschedulable() if chance.random() < 0.2 else node


@pytest.mark.parametrize("most", [table_feed.MOST_IN_A_MESSAGE, 4])
@pytest.mark.parametrize("seed", range(8))
def test_a_guests_table_is_the_hosts_whatever_happens(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_feed, "MOST_IN_A_MESSAGE", most)
    chance = random.Random(seed)
    table = NodeTable()
    everything = {"depends": ["pod", "node", "usage", "pods", "metrics"], **EVERYTHING}
    made = make(table=table, guest=ListGuest(describe=everything))
    for number in range(150):
        nodes, kind = list(table), chance.random()
        if kind < 0.4 or not nodes:
            table.set_node(random_node(f"n{chance.randrange(9)}", chance).obj())
        elif kind < 0.5:
            table.remove_node(chance.choice(nodes).name)
        elif kind < 0.85:
            pod = make_pod(f"p{number}").req(cpu="5m", **{GPU: chance.randrange(3)})
            table.add_pod(chance.choice(nodes), info(pod.label(app="x") if chance.random() < 0.5 else pod))
        else:
            node = chance.choice(nodes)
            for resident in list(node.pods.values())[:1]:
                table.remove_pod(node, resident)
        if chance.random() < 0.4:
            score_all(made)
            assert made.guest.rows == [expected(table, row) for row in range(table.columns.rows)]
    assert sum(bool(message.get("full")) for message in made.guest.tables) == 1


def test_a_change_is_sent_once_and_for_its_row_alone() -> None:
    made = make(guest=ListGuest(describe={"depends": ["node", "usage"], "table": ["usage"], "labels": ["zone"]}))
    score_all(made)
    reported = made.guest.tables
    assert [message.get("full") for message in reported] == [True]
    score_all(made)
    assert len(reported) == 1
    made.table.add_pod(made.table.at(1), info(make_pod("p")))
    score_all(made)
    if COMPILED:  # the twin keeps no history
        assert unpack("i", reported[1]["at"]) == [1]
    assert ("labels" in reported[1], len(reported)) == (False, 2)
    made.table.set_node(make_node("c").label("zone", "z").obj())
    score_all(made)
    assert (unpack("i", reported[2]["at"]), reported[2]["labels"]["zone"]["v"]) == ([2], ["z"])


def test_a_guest_that_is_far_behind_is_sent_all_rows() -> None:
    made = make(guest=ListGuest(describe={"depends": ["usage"], "table": ["usage"]}))
    score_all(made)
    resident = info(make_pod("p"))
    for _ in range(200):
        made.table.add_pod(made.table.at(1), resident)
        made.table.remove_pod(made.table.at(1), resident)
    made.table.add_pod(made.table.at(1), resident)
    score_all(made)
    assert "at" not in made.guest.tables[-1]
    assert [row["pods_n"] for row in made.guest.rows] == [0, 1, 0]


def test_another_version_of_a_pod_on_a_node_is_told_if_it_looks_different() -> None:
    def version(value: str, phase: str) -> PodInfo:
        return info(make_pod("p").image(f"web:{value}").annotation("x.io/rank", value).phase(phase).node("b"))

    cache = Cache()
    for name in "ab":
        cache.set_node(make_node(name).obj())
    cache.set_pod(version("1", "Pending"))
    described = {"depends": ["pod", "pods"], "table": ["pods"], "pod": ["annotations", "containers"]}
    made = make(table=cache.table, guest=ListGuest(describe=described))
    score_all(made)
    cache.set_pod(version("1", "Running"))
    score_all(made)
    assert len(made.guest.tables) == 1
    cache.set_pod(version("2", "Running"))
    score_all(made)
    assert unpack("i", made.guest.tables[-1]["at"]) == [1]
    (pod,) = made.guest.rows[1]["pods"]
    assert (pod["annotations"], pod["containers"][0][1]) == ({"x.io/rank": "2"}, "web:2")


def test_many_pods_are_told_in_several_messages_none_of_which_takes_a_guest_long() -> None:
    table = NodeTable()
    for number in range(300):
        table.set_node(make_node(f"n{number}").obj())
        for at in range(20):
            table.add_pod(table.at(number), info(make_pod(f"p{number}-{at}").label(app="x")))
    described = {"depends": ["pod", "pods"], "table": ["pods"], "pod": ["labels"], "message_limit": 200_000}
    made = make(table=table, guest=ListGuest(describe=described))
    score_all(made)
    first, *others = made.guest.tables
    assert (first["full"], first["rows"], "pods" in first) == (True, 300, False)
    sizes = [sum(1 + len(pods) for pods in message["pods"]) for message in others]
    assert (sum(sizes), max(sizes) <= table_feed.MOST_IN_A_MESSAGE) == (300 * 21, True)
    assert [len(row["pods"]) for row in made.guest.rows] == [20] * 300


def test_values_that_nobody_uses_any_more_are_forgotten_in_time() -> None:
    column = IndexedColumn()
    for number in range(SPARE_VALUES + 2):
        assert not column.is_overgrown
        column.set(0, f"v{number}", f"v{number}")
    column.set(0, "w", "w")
    assert column.is_overgrown


def test_a_table_with_ever_new_labels_begins_again() -> None:
    made = make(depends=["node"], labels=["zone"])
    for number in range(SPARE_VALUES + 20):
        made.table.set_node(make_node("a").label("zone", f"z{number}").obj())
        if number % 16 == 0:
            score_all(made)
    score_all(made)
    made.table.set_node(make_node("a").label("zone", "last").obj())
    score_all(made)
    assert made.guest.rows[0]["labels/zone"] == "last"


def test_every_instance_has_a_table_of_its_own() -> None:
    guest = ListGuest(["permit"], {"depends": ["usage"], "table": ["usage"]})
    made = make(guest=guest)
    one, other = info(make_pod("one")), info(make_pod("other"))
    states = {pod.uid: CycleState() for pod in (one, other)}
    made.plugin.reserve(states[one.uid], one, "a")
    made.plugin.permit(states[one.uid], one, "a")
    first = made.guest
    made.table.add_pod(made.table.at(2), other)
    made.plugin.reserve(states[other.uid], other, "a")
    made.plugin.permit(states[other.uid], other, "a")
    assert [row["pods_n"] for row in first.rows] == [0, 0, 0]
    assert [row["pods_n"] for row in made.guest.rows] == [0, 0, 1]
    made.plugin.permit(states[one.uid], one, "a")
    assert [row["pods_n"] for row in first.rows] == [0, 0, 1]
