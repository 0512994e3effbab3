"""The examples in C, compiled and run by the default engine: the host and the C library keep to the same ABI."""

from __future__ import annotations

import random
import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from kscheduler._fast import Scores, Verdicts
from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.testing import make_node, make_pod
from tests.support.skips import package
from tests.wasm.batch.c_guests import GPU, PLUGINS, load
from tests.wasm.batch.plugins import Made, filter_all, info, make_table, score_all

package("wasmtime")
package("ziglang")


def test_a_pod_prefers_nodes_with_its_number() -> None:
    made = load("nodenumber", make_table(make_node("n1"), make_node("n2"), make_node("n12")))
    for pod, config, expected in (
        ("p2", "", [0, 10, 10]),
        ("p1", "", [10, 0, 0]),
        ("p2", '{"reverse":true}', [10, 0, 0]),
    ):
        made = load("nodenumber", make_table(make_node("n1"), make_node("n2"), make_node("n12")), config)
        state = CycleState()
        assert made.plugin.pre_score(state, info(make_pod(pod))) is None
        assert score_all(made, state) == expected
    assert made.plugin.pre_score(CycleState(), info(make_pod("p"))) == SKIP


def test_a_node_takes_the_name_of_the_row_it_gets_and_one_that_changes_costs_no_memory() -> None:
    made = load("nodenumber", make_table(make_node("n1"), make_node("n2"), make_node("n" + 200 * "x" + "3")))
    state = CycleState()
    made.plugin.pre_score(state, info(make_pod("p2")))
    assert score_all(made, state) == [0, 10, 0]
    (instance,) = made.plugin.pool._idle
    before = instance.memory_bytes
    for number in range(1500):
        made.table.set_node(make_node("n" + 200 * "x" + "3").label("a", str(number)).obj())
        score_all(made, state)
    assert instance.memory_bytes == before
    made.table.remove_node("n1")
    made.table.set_node(make_node("n22").obj())
    assert score_all(made, state) == [10, 10, 0]


def test_a_configuration_that_is_not_understood_is_refused() -> None:
    with pytest.raises(PluginError, match=r"refuses its configuration: .*expected"):
        load("nodenumber", make_table(), "reverse")


def test_nodes_are_scored_by_a_label() -> None:
    nodes = [make_node("a").label("x.io/speed", "5"), make_node("b"), make_node("c").label("x.io/speed", "20")]
    made = load("label_score", make_table(*nodes, make_node("d").label("x.io/speed", "fast")), "x.io/speed")
    assert score_all(made) == [25, 0, 100, 0]
    made.table.set_node(make_node("b").label("x.io/speed", "10").obj())
    made.table.remove_node("a")
    assert score_all(made) == [0, 50, 100, 0]
    made.table.set_node(make_node("e").label("x.io/speed", "40").obj())
    assert score_all(made) == [100, 25, 50, 0]


def test_nodes_of_a_team_take_its_pods_only() -> None:
    nodes = [
        make_node("a").label("example.com/team", "red"),
        make_node("b").label("example.com/team", "blue"),
        make_node("c"),
    ]
    made = load("team_nodes", make_table(*nodes))
    red = info(make_pod("p").label("example.com/team", "red"))
    found = [made.plugin.filter(CycleState(), red, node) for node in made.table]
    assert found == [
        None,
        unresolvable("node(s) belonged to another team"),
        unresolvable("node(s) did not belong to the pod's team"),
    ]
    assert filter_all(made).feasible_rows() == [2]


def test_a_rack_takes_as_many_pods_as_it_has_licenses_and_nodes_with_the_image_come_first() -> None:
    nodes = [
        make_node("a1").label("example.com/rack", "a").image("model:1", 1 << 30),
        make_node("a2").label("example.com/rack", "a"),
        make_node("b1").label("example.com/rack", "b"),
        make_node("bare"),
    ]
    made = load("rack_licenses", make_table(*nodes), "2")
    pod = info(make_pod("p").image("model:1").label("example.com/license", "one"))
    users = [info(make_pod(name).label("example.com/license", "one")) for name in ("first", "second")]
    assert filter_all(made, pod=pod).feasible_rows() == [0, 1, 2]
    made.table.add_pod(made.table.at(0), users[0])
    made.table.add_pod(made.table.at(0), info(make_pod("other")))
    made.table.add_pod(made.table.at(1), users[1])
    assert filter_all(made, pod=pod).feasible_rows() == [2]
    assert made.plugin.filter(CycleState(), pod, made.table.at(1)) == unschedulable(
        "node(s) had no license left in their rack"
    )
    assert filter_all(made).feasible_rows() == [0, 1, 2, 3]
    made.table.remove_pod(made.table.at(0), users[0])
    assert filter_all(made, pod=pod).feasible_rows() == [0, 1, 2]
    made.table.remove_node("a2")
    made.table.add_pod(made.table.at(0), users[0])
    assert filter_all(made, pod=pod).feasible_rows() == [0, 2]
    assert list(scores_of(made, CycleState(), pod).values()) == [100, 0, 0]


def test_a_permit_goes_by_the_namespace_and_records_an_event_on_the_pod() -> None:
    made = load("namespace_permit", make_table(), "one,two")
    assert made.plugin.permit(CycleState(), info(make_pod("p", "two")), "a") == (None, 0.0)
    status, _ = made.plugin.permit(CycleState(), info(make_pod("p", "on")), "a")
    assert status == Status(Code.UNSCHEDULABLE, ("the pod's namespace may not use this cluster",))
    assert made.events == [("on/p", "Warning", "NotPermitted", "the pod's namespace may not use this cluster")]


def test_the_guests_table_follows_pods_and_nodes() -> None:
    chance = random.Random(7)
    table = NodeTable()
    made = load("gpu_packing", table)
    pod = info(make_pod("p").req(**{GPU: 2}))
    for number in range(400):
        change(table, chance, number)
        if chance.random() < 0.5:
            state = CycleState()
            assert scores_of(made, state, pod) == expected(table, 2)
    assert made.plugin.pool.instances == 1


def change(table: NodeTable, chance: random.Random, number: int) -> None:
    nodes = list(table)
    kind = chance.random()
    if kind < 0.15 or not nodes:
        table.set_node(make_node(f"n{number}").allocatable(**{GPU: chance.randrange(9)}).obj())
    elif kind < 0.2:
        table.remove_node(chance.choice(nodes).name)
    elif kind < 0.3:
        table.set_node(make_node(chance.choice(nodes).name).allocatable(**{GPU: chance.randrange(9)}).obj())
    elif kind < 0.8:
        table.add_pod(chance.choice(nodes), info(make_pod(f"p{number}").req(**{GPU: chance.randrange(4)})))
    else:
        node = chance.choice(nodes)
        for resident in list(node.pods.values())[:2]:
            table.remove_pod(node, resident)


def scores_of(made: Made, state: CycleState, pod: Any) -> dict[str, int]:
    verdicts, scores = Verdicts(), Scores()
    verdicts.reset(made.table.columns)
    scores.reset(made.table.columns)
    made.plugin.score_table(state, pod, made.table, verdicts, scores)
    return {node.name: scores.raw(node.row) for node in made.table}


def expected(table: NodeTable, wanted: int) -> dict[str, int]:
    column = table.resources.find(GPU)
    found = {}
    for node in table:
        has = 0 if column is None else table.columns.allocatable(node.row, column)
        full = wanted + (0 if column is None else node.requested_of(column))
        found[node.name] = 0 if has <= 0 else 100 if full >= has else full * 100 // has
    return found


VECTORS = SimpleNamespace(**runpy.run_path(str(PLUGINS / "abi" / "make_vectors.py")))


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.VECTORS.items() if vector[1] == "host to guest"])
def test_the_library_reads_every_message_of_the_page(name: str) -> None:
    made = load("gpu_packing", make_table())
    instance = made.module.instantiate(made.plugin._version.options.functions)
    instance.start()
    function, _, _, _ = VECTORS.VECTORS[name]
    message = bytes.fromhex(VECTORS.vector(name)["hex"])
    address = instance.call("ks_alloc", len(message))
    instance.write(address, message)
    instance.call("ks_configure", 0, 0)
    instance.call("ks_describe")
    before = (3,) if function == "ks_call" else ()
    answer = instance.call(function, *before, address, len(message))
    assert answer == 0 or function == "ks_call"
    instance.close()


@pytest.mark.parametrize("seed", range(3))
def test_the_library_survives_messages_that_are_none(seed: int) -> None:
    chance = random.Random(seed)
    made = load("team_nodes", make_table())
    packed = [bytes.fromhex(VECTORS.vector(name)["hex"]) for name in VECTORS.VECTORS]
    instance = made.module.instantiate(made.plugin._version.options.functions)
    instance.start()
    instance.call("ks_describe")
    for _ in range(300):
        message = bytearray(chance.choice(packed))
        for _ in range(chance.randrange(4)):
            message[chance.randrange(len(message))] = chance.randrange(256)
        del message[chance.randrange(len(message) + 1) :]
        if b"rows" in message:  # the number of rows is what memory is taken by
            continue
        address = instance.call("ks_alloc", len(message) or 1)
        instance.write(address, bytes(message))
        instance.call("ks_table", address, len(message))
        instance.call("ks_call", 3, address, len(message))
    assert not instance.is_broken
    instance.close()
