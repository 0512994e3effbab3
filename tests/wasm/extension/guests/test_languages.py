"""Guests in Go and in C, in a profile, by either engine: whole cycles with the plugin as the framework has it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.testing.plugin_harness import PluginHarness
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod
from kscheduler.wasm.extension.plugin import plugin_class
from tests.wasm.conformance.conftest import made_engine
from tests.wasm.extension.guests.build import build_c, build_go
from tests.wasm.extension.kit import Guest, Room, info

pytestmark = pytest.mark.slow

_NODES = [make_node(name).capacity().label(disk=disk) for name, disk in (("n1", "ssd"), ("n2", "hdd"), ("n3", "ssd"))]


@pytest.fixture(scope="module")
def go_guest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build_go(tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def c_guest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build_c(tmp_path_factory.mktemp("c"))


@pytest.fixture(params=["wasmtime", "wasmer"])
def engine(request: pytest.FixtureRequest) -> str:
    made_engine(request.param)
    return str(request.param)


def harness(data: bytes, nodes: list[NodeBuilder], **arguments: Any) -> PluginHarness:
    return PluginHarness(plugin_class(Guest(data, **arguments)), nodes=nodes)


# --- Go ---


def test_a_guest_in_go_reads_pods_and_nodes(go_guest: bytes, engine: str) -> None:
    asked = harness(go_guest, _NODES, engine=engine)
    assert asked.filter(make_pod("p").label(disk="ssd")) == {
        "n1": None,
        "n2": unschedulable('pod wants disk ssd, node has "hdd"'),
        "n3": None,
    }
    assert asked.filter(make_pod("p")) == dict.fromkeys(("n1", "n2", "n3"))


@pytest.mark.parametrize(("pod", "node"), [("web-1", "n1"), ("web-3", "n3")])
def test_a_guest_in_go_decides_where_pods_go(
    go_guest: bytes, engine: str, pod: str, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    found = harness(go_guest, _NODES, engine=engine).schedule(make_pod(pod).label(disk="ssd"))
    assert isinstance(found, Decision)
    assert (found.node_name, found.feasible) == (node, 2)
    assert f'preferred {node} of ["n1","n3"]' in caplog.messages


def test_where_a_guest_in_go_rejects_all_nodes_the_message_says_why(go_guest: bytes, engine: str) -> None:
    found = harness(go_guest, _NODES, engine=engine).schedule(make_pod("p").label(disk="nvme"))
    assert isinstance(found, Rejection)
    assert 'pod wants disk nvme, node has "hdd"' in found.message


def test_many_pods_one_after_the_other(go_guest: bytes, engine: str) -> None:
    asked = harness(go_guest, _NODES, engine=engine)
    for number in range(300):
        found = asked.schedule(make_pod(f"web-{1 + number % 3}"))
        assert isinstance(found, Decision)
        assert found.node_name == f"n{1 + number % 3}"


@pytest.mark.parametrize(("fault", "noted"), [("trap", "nil pointer dereference"), ("loop", "ran longer than 200 ms")])
def test_a_guest_in_go_that_fails_costs_one_pod_its_attempt(
    go_guest: bytes, engine: str, fault: str, noted: str
) -> None:
    asked = harness(go_guest, _NODES, engine=engine)
    for _ in range(2):
        failed = asked.schedule(make_pod("web-1").label(fault=fault))
        assert isinstance(failed, Rejection)
        assert failed.status.code is Code.ERROR
        assert noted in failed.message
        assert isinstance(asked.schedule(make_pod("web-1")), Decision)


def test_a_guest_in_go_prints_while_it_starts(go_guest: bytes, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Room(go_guest, _NODES, engine=engine, args=["guest", "x"], guestConfig="setting").filter()
    assert "guest started with [guest x] setting" in _printed(caplog.records)


def _printed(records: list[logging.LogRecord]) -> str:
    return "".join(str(vars(record).get("output", "")) for record in records)


# --- C ---

_NUMBERED: Mapping[str, int] = {"n1": 1, "n2": 2, "n3": 3}


def test_a_guest_in_c_scores_nodes(c_guest: bytes, engine: str) -> None:
    assert harness(c_guest, _NODES, engine=engine).score(make_pod("p")) == _NUMBERED


def test_a_guest_in_c_keeps_something_of_the_attempt_until_its_permit(c_guest: bytes, engine: str) -> None:
    room = Room(c_guest, _NODES, engine=engine, guestConfig="1500")
    plugin = room.plugin
    attempts = [(CycleState(), info(_pod(name))) for name in ("a", "b")]
    for state, pod in attempts:
        plugin.pre_filter(state, pod)
        for name, score in _NUMBERED.items():
            assert plugin.score(state, pod, room.node(name)) == (score, None)
    for state, pod in attempts:
        assert plugin.permit(state, pod, "n1") == (Status(Code.WAIT), 1.5)


def test_a_guest_in_c_says_what_is_wrong(c_guest: bytes, engine: str) -> None:
    room = Room(c_guest, [make_node("last")], engine=engine)
    status = room.plugin.score(CycleState(), info(), room.node("last"))[1]
    assert status == Status(Code.ERROR, ("no digit",))


def _pod(name: str) -> PodBuilder:
    return make_pod(name)
