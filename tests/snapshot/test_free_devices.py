"""Columns of free devices: they follow what changes, and cost as much as changed."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.devices.matching import DeviceQuery
from kscheduler.snapshot.free_devices import ANY_NUMBER, MAX_QUERIES, NONE_CERTAIN, FreeCounts, FreeDevices
from kscheduler.testing import make_node
from tests.devices.building import FakeSelectors, counter_set, device, devices, in_zone, make_slice, toleration
from tests.framework.plugins.dynamicresources.bench import Bench, allocation, claim

ANY = DeviceQuery((), ())
MODEL = DeviceQuery(("model=A",), ())


class Columns(Bench):
    """Nodes with GPUs of model A, and the columns of them."""

    def __init__(self, *, nodes: int = 2, gpus: int = 2, **limits: int) -> None:
        super().__init__(nodes=nodes, gpus=0)
        self.selectors = FakeSelectors()
        for index in range(nodes):
            self.publish_models(f"n{index}", *("A" * gpus))
        self.free = FreeDevices(self.cache.table, self.devices, self.handle.release, self.selectors, **limits)

    def publish_models(self, node: str, *models: str) -> None:
        published = [device(f"g{index}", {"model": model}) for index, model in enumerate(models)]
        self.devices.set_slice(make_slice(node, published, node_name=node, pool=node))

    def counts(self, query: DeviceQuery = ANY) -> FreeCounts:
        (found,) = self.free.refresh([query])
        return found

    def certain(self, query: DeviceQuery = ANY) -> list[int]:
        found = self.counts(query)
        return [found.certain(row) for row in range(self.cache.table.columns.rows)]


def test_allocations_in_flight_and_written_are_followed() -> None:
    columns = Columns()
    assert columns.certain(MODEL) == [2, 2]
    taken = claim("c", allocation=allocation("n1/g0"))
    columns.devices.set_claim(claim("c"))
    columns.devices.begin_allocation("uid-c", taken)
    assert columns.certain(MODEL) == [2, 1]
    columns.add(taken)
    columns.devices.end_allocation("uid-c", for_all=True)
    assert columns.certain(MODEL) == [2, 1]
    columns.devices.remove_claim("default", "c")
    assert columns.certain(MODEL) == [2, 2]


def test_slices_and_nodes_are_followed() -> None:
    columns = Columns()
    assert columns.certain(MODEL) == [2, 2]
    columns.publish_models("n0", "A", "B", "A", "A")
    assert columns.certain(MODEL) == [3, 2]
    columns.devices.remove_slice("n1")
    assert columns.certain(MODEL) == [3, 0]
    columns.cache.remove_node("n0")
    assert columns.certain(MODEL) == [0, 0]
    columns.publish_models("n2", "A")
    columns.cache.set_node(make_node("n2").obj())  # it gets the row of n0
    columns.cache.set_node(make_node("n3").obj())
    assert columns.certain(MODEL) == [1, 0, 0]


def test_a_pool_of_all_nodes_counts_on_each_of_them() -> None:
    columns = Columns()
    columns.devices.set_slice(make_slice("net", devices("a", "b"), pool="net", all_nodes=True))
    assert columns.certain() == [4, 4]
    columns.add(claim("c", allocation=allocation("net/a")))
    assert columns.certain() == [3, 3]


def test_parts_of_a_pool_that_nodes_see_are_distinguished_by_their_devices() -> None:
    columns = Columns(gpus=0)
    for index in range(2):
        published = [device(f"d{index}")]
        columns.devices.set_slice(make_slice(f"part{index}", published, node_name=f"n{index}", pool="both", slices=2))
    assert columns.certain() == [1, 1]
    columns.add(claim("c", allocation=allocation("both/d1")))
    assert columns.certain() == [1, 0]


def test_devices_that_name_their_nodes_count_there_only() -> None:
    columns = Columns(gpus=0, nodes=3)
    published = [device(f"d{index}", {"model": "A"}, node_name=f"n{index % 2}") for index in range(3)]
    published.append(device("all", {"model": "A"}, all_nodes=True))
    columns.devices.set_slice(make_slice("rack", published, pool="rack", per_device_node_selection=True))
    assert columns.certain(MODEL) == [3, 2, 1]
    columns.add(claim("c", allocation=allocation("rack/d2")))
    assert columns.certain(MODEL) == [2, 2, 1]
    columns.add(claim("d", allocation=allocation("rack/all")))
    assert columns.certain(MODEL) == [1, 1, 0]


def test_the_labels_of_nodes_are_followed_where_devices_name_them() -> None:
    columns = Columns(gpus=0)
    published = [device("d", node_selector=in_zone("z8")), device("e", node_name="n1")]
    columns.devices.set_slice(make_slice("rack", published, pool="rack", per_device_node_selection=True))
    assert columns.certain() == [0, 1]
    columns.cache.set_node(make_node("n1").label(zone="z8").obj())
    assert columns.certain() == [0, 2]
    columns.cache.set_node(make_node("n1").label(zone="z9").obj())
    assert columns.certain() == [0, 1]


def test_bytes_of_numbers_are_kept_up_to_date() -> None:
    columns = Columns()
    counts = columns.counts(MODEL)
    assert [list(counts.too_few(number)) for number in (2, 3)] == [[0, 0], [1, 1]]
    columns.add(claim("c", allocation=allocation("n0/g0")))
    columns.cache.set_node(make_node("n2").obj())
    counts = columns.counts(MODEL)
    assert list(counts.too_few(2)) == list(counts.in_doubt(2)) == [1, 0, 1]


def test_devices_that_share_counters_are_in_doubt() -> None:
    columns = Columns(gpus=0)
    published = [device("plain"), device("part", consumes={"set": {"memory": "1"}})]
    fields: dict[str, Any] = {"node_name": "n0", "pool": "parts", "slices": 2}
    columns.devices.set_slice(make_slice("devices", published, **fields))
    columns.devices.set_slice(make_slice("sets", shared_counters=[counter_set("set", memory="4")], **fields))
    counts = columns.counts()
    assert (counts.certain(0), counts.most(0)) == (1, 2)
    assert counts.doubtful == {0}
    assert not counts.unknown


@pytest.mark.parametrize("twins", [False, True], ids=["a selector that fails", "an invalid pool"])
def test_where_the_search_has_to_be_asked_nothing_is_certain_and_any_number_possible(twins: bool) -> None:
    columns = Columns()
    published = devices("g0", "g0") if twins else devices("g0")
    columns.devices.set_slice(make_slice("n0", published, node_name="n0", pool="n0"))
    counts = columns.counts(MODEL)
    assert (counts.certain(0), counts.most(0)) == (NONE_CERTAIN, ANY_NUMBER)
    assert counts.unknown == counts.doubtful == {0}
    assert list(counts.too_few(1000)) == [0, 1]
    columns.publish_models("n0", "A")
    assert columns.certain(MODEL) == [1, 2]


def test_a_selector_is_asked_about_the_devices_that_changed_only() -> None:
    columns = Columns(nodes=50)
    columns.counts(MODEL)
    del columns.selectors.evaluated[:]
    columns.publish_models("n7", "A", "B")
    columns.add(claim("c", allocation=allocation("n8/g0")))
    columns.counts(MODEL)
    assert len(columns.selectors.evaluated) == 2


def test_selectors_are_asked_about_many_devices_in_portions() -> None:
    columns = Columns(nodes=6, gpus=1, max_evaluations=4, evaluations_per_node=0)
    assert columns.certain(MODEL).count(NONE_CERTAIN) == 2
    assert columns.certain(MODEL) == [1] * 6


def test_columns_of_few_queries_are_kept() -> None:
    columns = Columns()
    for number in range(3 * MAX_QUERIES):
        columns.counts(DeviceQuery((), (toleration(str(number)),)))
        columns.counts(MODEL)
    assert len(columns.free._queries) == MAX_QUERIES
    assert MODEL in columns.free._queries
    assert columns.certain(MODEL) == [2, 2]


def test_a_pool_that_is_published_again_and_again_leaves_nothing_behind() -> None:
    columns = Columns(nodes=3)
    for _ in range(50):
        columns.publish_models("n1", "A", "A")
        columns.counts(MODEL)
    assert len(columns.free._pools) == len(columns.free._by_id) == 3
    assert len(columns.counts(MODEL)._matching) <= 4


def test_a_slice_of_several_nodes_that_changes_leaves_the_outcomes_of_others() -> None:
    columns = Columns(nodes=4, gpus=0)
    racks = {f"rack{number}": (f"n{2 * number}", f"n{2 * number + 1}") for number in range(2)}

    def publish(rack: str) -> None:
        published = [device(name, node_name=name) for name in racks[rack]]
        columns.devices.set_slice(make_slice(rack, published, pool=rack, per_device_node_selection=True))

    for rack in racks:
        publish(rack)
    outcomes = columns.free.outcomes("key")
    assert outcomes is not None
    for row in range(4):
        outcomes.accept(row, 0)
    publish("rack1")
    assert columns.free.outcomes("key") is outcomes
    assert outcomes.unknown == {columns.cache.table.row_of(name) for name in racks["rack1"]}


def test_nodes_that_come_and_go_leave_little_behind() -> None:
    columns = Columns()
    for number in range(500):
        name = f"for-a-while-{number}"
        columns.cache.set_node(make_node(name).obj())
        assert columns.certain() == [2, 2, 0]
        columns.cache.remove_node(name)
    assert columns.devices.slices.known_nodes < 150


def test_a_reader_that_missed_too_many_changes_counts_everything_again() -> None:
    columns = Columns()
    columns.counts(MODEL)
    for _ in range(20_000):
        columns.devices.use_changes.add(("driver", "pool", "device"))
    columns.add(claim("c", allocation=allocation("n1/g0")))
    columns.devices.slices.node_changes.add_all()
    assert columns.certain(MODEL) == [2, 1]
