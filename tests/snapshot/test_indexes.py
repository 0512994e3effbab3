"""Ports, images and resource columns: the smaller indexes of the table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import NodeColumns
from kscheduler.api.objects import ContainerImage
from kscheduler.api.resources import Resources
from kscheduler.snapshot import resource_columns
from kscheduler.snapshot.host_ports import HostPortIndex, clashes
from kscheduler.snapshot.images import ImageIndex
from kscheduler.snapshot.pod_info import EVERY_ADDRESS, HostPort
from kscheduler.snapshot.resource_columns import MAX_REQUEST, ResourceColumns


def port(number: int, ip: str = EVERY_ADDRESS, protocol: str = "TCP") -> HostPort:
    return HostPort(protocol, number, ip)


# --- ports --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "wanted", "clash"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), True),
        (port(80, "10.0.0.1"), port(80), True),
        (port(80), port(80, "10.0.0.1"), True),
    ],
)
def test_a_port_is_taken_on_the_same_address_or_on_every_address(
    taken: HostPort, wanted: HostPort, clash: bool
) -> None:
    index = HostPortIndex()
    index.add(3, [taken])
    assert index.conflicting_rows([wanted]) == ([3] if clash else [])
    assert clashes(taken, wanted) == clashes(wanted, taken) == clash


def test_a_port_held_twice_is_taken_until_both_are_gone() -> None:
    index = HostPortIndex()
    index.add(1, [port(80)])
    index.add(1, [port(80)])
    index.remove(1, [port(80)])
    assert index.conflicting_rows([port(80)]) == [1]
    index.remove(1, [port(80)])
    assert index.conflicting_rows([port(80)]) == []


def test_clashes_are_counted_by_row() -> None:
    index = HostPortIndex()
    index.add(1, [port(80, "10.0.0.1"), port(80, "10.0.0.2")])
    index.add(2, [port(80, "10.0.0.1"), port(443)])
    index.add(3, [port(81)])
    assert index.conflicts([port(80, "10.0.0.1")]) == {1: 1, 2: 1}
    assert index.conflicts([port(80), port(443, "10.0.0.9")]) == {1: 2, 2: 2}
    index.remove(2, [port(80, "10.0.0.1"), port(443)])
    assert index.conflicts([port(80)]) == {1: 2}


holdings = st.tuples(
    st.integers(0, 3), st.builds(port, st.integers(80, 82), st.sampled_from([EVERY_ADDRESS, "10.0.0.1", "10.0.0.2"]))
)


@given(st.lists(holdings, max_size=20), st.data())
def test_rows_in_conflict_are_those_of_the_ports_that_are_held(
    held: list[tuple[int, HostPort]], data: st.DataObject
) -> None:
    index = HostPortIndex()
    for row, taken in held:
        index.add(row, [taken])
    gone = data.draw(st.integers(0, len(held)))
    for row, taken in held[:gone]:
        index.remove(row, [taken])
    wanted = port(80, "10.0.0.1")
    expected = {row for row, taken in held[gone:] if taken.port == 80 and taken.ip in (EVERY_ADDRESS, "10.0.0.1")}
    assert index.conflicting_rows([wanted]) == sorted(expected)


# --- images -------------------------------------------------------------------------------------------------------


def test_an_image_is_found_by_each_of_its_names_on_every_node_that_has_it() -> None:
    index = ImageIndex()
    image = ContainerImage(["app:1", "registry/app@sha256:abc"], 100)
    index.add_node(5, [image])
    index.add_node(2, [image])
    for name in ("app:1", "registry/app@sha256:abc"):
        found = index.get(name)
        assert found is not None
        assert list(found.rows()) == [2, 5]
        assert (len(found), 5 in found, 3 in found) == (2, True, False)


def test_the_size_is_what_the_first_node_reported_while_any_node_has_it() -> None:
    index = ImageIndex()
    index.add_node(1, [ContainerImage(["app:1"], 100)])
    index.add_node(2, [ContainerImage(["app:1"], 200)])
    index.remove_node(1, [ContainerImage(["app:1"], 100)])
    found = index.get("app:1")
    assert found is not None
    assert (found.size_bytes, list(found.rows())) == (100, [2])
    index.remove_node(2, [ContainerImage(["app:1"], 200)])
    assert index.get("app:1") is None


def test_an_image_says_when_it_has_moved() -> None:
    index = ImageIndex()
    images = [ContainerImage(names=["app:1"], size_bytes=7)]
    index.add_node(1, images)
    state, generation = index.get("app:1"), index.generation
    assert state is not None
    version = state.version
    index.add_node(2, images)
    assert state.version > version
    assert index.generation > generation
    version, generation = state.version, index.generation
    index.remove_node(1, images)
    assert state.version > version
    assert index.generation > generation


def test_an_image_without_names_or_unknown_is_ignored() -> None:
    index = ImageIndex()
    index.add_node(1, [ContainerImage(None, 100)])
    index.remove_node(1, [ContainerImage(["never seen"], 100)])


# --- resource columns ---------------------------------------------------------------------------------------------


def test_native_resources_come_first_and_others_as_they_are_met() -> None:
    columns = ResourceColumns(NodeColumns(4))
    assert [columns.column(name) for name in ("cpu", "memory", "ephemeral-storage")] == [0, 1, 2]
    assert columns.find("example.com/gpu") is None
    assert (
        columns.column("example.com/gpu") == columns.column("example.com/gpu") == columns.find("example.com/gpu") == 3
    )
    assert columns.names[3] == "example.com/gpu"


def test_equal_requests_are_one_object_and_zero_amounts_are_left_out() -> None:
    columns = ResourceColumns(NodeColumns(4))
    one = columns.compile(Resources(100, 0, 0, {"example.com/gpu": 1}), 100, 5)
    two = columns.compile(Resources(100, 0, 0, {"example.com/gpu": 1}), 100, 5)
    assert one is two
    assert list(one.entries) == [(0, 100), (3, 1)]
    assert (one.non_zero_cpu, one.non_zero_memory) == (100, 5)
    assert columns.compile(Resources(100, 0, 0), 100, 6) is not one


def test_amounts_beyond_any_machine_are_capped() -> None:
    columns = ResourceColumns(NodeColumns(4))
    request = columns.compile(Resources(1 << 62, 1 << 62, 0), 1 << 62, 1 << 62)
    assert list(request.entries) == [(0, MAX_REQUEST), (1, MAX_REQUEST)]
    assert request.non_zero_cpu == MAX_REQUEST


def test_a_hostile_stream_of_shapes_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_columns, "MAX_COMPILED", 10)
    columns = ResourceColumns(NodeColumns(4))
    for amount in range(1, 100):
        columns.compile(Resources(amount), amount, 0)
    assert len(columns._compiled) <= 10
