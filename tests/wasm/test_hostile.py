"""Malicious guests in a scheduler: it goes on, pods of other profiles are decided, and nothing is accessed that was not
granted."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Node
from kscheduler.client.kinds import PODS
from kscheduler.errors import ConfigError
from kscheduler.framework.interface import NoPermitWaits
from kscheduler.scheduler import Options
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing.wrappers import make_node, make_pod
from kscheduler.wasm.arguments import FAIL, FAILURE_POLICIES, IGNORE
from kscheduler.wasm.batch.host_functions import host_functions as batch_functions
from kscheduler.wasm.batch.points import POINTS
from kscheduler.wasm.engine import FuncType, GuestFault, HostFunction, Instance, Limits, Wasi
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.extension.encoding.objects import ObjectEncoder
from kscheduler.wasm.extension.host.call import Call
from kscheduler.wasm.extension.host.functions import host_functions as extension_functions
from kscheduler.wasm.extension.host.klog import Klog
from kscheduler.wasm.extension.host.scheduler import SchedulerFunctions
from kscheduler.wasm.extension.host.world import World
from kscheduler.wasm.extension.surroundings import Surroundings
from kscheduler.wasm.guest_log import GuestLog, LogRules
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.wasm.wasi import functions as wasi_functions
from tests.support.clocks import ManualClock
from tests.support.memory import resident_bytes
from tests.support.seeds import sampled
from tests.wasm.batch.plugins import make_table
from tests.wasm.extension.kit import module, pair
from tests.wasm.hostile_guests import (
    BAD_ANSWERS,
    HARM,
    HOSTILE,
    LOOP,
    MULTI_POINT,
    PEACEFUL,
    Document,
    batch_guest,
    both,
    config_with,
    extension_guest,
    packed,
    scores,
    wasmtime,
)

NODES = 3
# --- guests ---------------------------------------------------------------------------------------------------------

# --- the scene ------------------------------------------------------------------------------------------------------


# The first that binds is the last that is asked.
BIND_FIRST: Document = {
    "multiPoint": {"disabled": [{"name": "DefaultBinder"}]},
    "bind": {"enabled": [{"name": "Guest"}, {"name": "DefaultBinder"}]},
    "filter": {"enabled": [{"name": "Guest"}]},
}
PREEMPT_LAST: Document = {
    "multiPoint": {"enabled": [{"name": "Guest"}], "disabled": [{"name": "DefaultPreemption"}]},
    "postFilter": {"enabled": [{"name": "DefaultPreemption"}]},
}


def simulate(
    guest: bytes,
    folder: Path,
    *,
    pods: int = 6,
    max_time_s: float = 60.0,
    nodes: Sequence[Node] | None = None,
    arrivals: Sequence[Arrival] | None = None,
    plugins: Document = MULTI_POINT,
    **arguments: object,
) -> Outcome:
    guests = GuestPlugins(reloads=False)
    config = config_with(guest, folder, guests, plugins, **arguments)
    roomy = [make_node(f"n{number}").capacity(cpu="64", memory="64Gi", pods=110).obj() for number in range(NODES)]
    some = [
        Arrival(0.2 * number, make_pod(f"p{number}").req(cpu="1").scheduler_name((HOSTILE, PEACEFUL)[number % 2]).obj())
        for number in range(pods)
    ]
    names = frozenset((HOSTILE, PEACEFUL))
    run = RunSettings(scheduler_names=names, max_time_s=max_time_s)
    scenario = Scenario(list(nodes or roomy), list(arrivals or some))
    return simulate_scenario(scenario, real_scheduler(config, Options(guests=guests)), run)


def unbound(outcome: Outcome) -> dict[str, int]:
    """Profile -> its pods that have no node."""
    found = {HOSTILE: 0, PEACEFUL: 0}
    for pod in outcome.cluster.store(PODS).sorted_objects():
        found[pod.spec.scheduler_name] += not pod.spec.node_name
    return found


def check(guest: bytes, folder: Path, policy: str, plugins: Document = MULTI_POINT) -> Outcome:
    """The guest fails at each call: its pods wait, or do without it; all others are bound."""
    outcome = simulate(guest, folder, failurePolicy=policy, max_time_s=8.0, plugins=plugins)
    assert outcome.violations == []
    assert unbound(outcome) == {HOSTILE: 3 if policy == FAIL else 0, PEACEFUL: 0}
    return outcome


# --- harm in a cycle ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("export", ["ks_call", "ks_table", "ks_alloc"])
@pytest.mark.parametrize("harm", HARM)
def test_a_batch_guest_that_does_harm_in_a_cycle(harm: str, export: str, policy: str, tmp_path: Path) -> None:
    outcome = check(batch_guest(points=("filter", "score"), before={export: HARM[harm]}), tmp_path, policy)
    assert outcome.events["PluginQuarantined"] >= 1


@pytest.mark.parametrize("export", ["kscheduler_abi_v1", "ks_configure", "ks_describe"])
@pytest.mark.parametrize("harm", HARM)
def test_a_batch_guest_that_does_harm_as_it_starts_is_refused(harm: str, export: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Guest|wasm"):
        simulate(batch_guest(before={export: HARM[harm]}), tmp_path)


@pytest.mark.parametrize("harm", HARM)
def test_room_for_the_configuration_is_asked_for_as_carefully(harm: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ks_alloc"):
        simulate(batch_guest(before={"ks_alloc": HARM[harm]}), tmp_path, guestConfig="some")


_BEGINNINGS = {
    "_initialize": f'(func (export "_initialize") {LOOP})',
    "_start": f'(func (export "_start") {LOOP})',
    "start section": f"(func $begin {LOOP}) (start $begin)",
}


@pytest.mark.parametrize("beginning", _BEGINNINGS)
def test_a_guest_that_never_comes_to_its_beginning_is_refused(beginning: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{beginning}: ran longer than 1000 ms"):
        simulate(batch_guest(more=_BEGINNINGS[beginning]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("point", POINTS)
def test_a_batch_guest_that_does_harm_at_any_point(point: str, policy: str, tmp_path: Path) -> None:
    """And at no other: the first parameter of `ks_call` says which it is."""
    points = _WITH.get(point, (point,))
    at_point = f"(if (i32.eq (local.get 0) (i32.const {int(POINTS[point])})) (then {LOOP}))"
    normalize, empty = ("guest", scores(0, 0, 0)) if point == "normalizeScore" else ("none", packed())
    guest = batch_guest(empty, points=points, before={"ks_call": at_point}, normalize=normalize)
    if point in _UNANSWERED:
        assert unbound(simulate(guest, tmp_path, failurePolicy=policy)) == {HOSTILE: 0, PEACEFUL: 0}
    else:
        check(guest, tmp_path, policy)


# Point -> the points of a guest that comes to it.
_WITH = {
    "preFilter": ("preFilter", "filter"),
    "preScore": ("preScore", "score"),
    "normalizeScore": ("score", "normalizeScore"),
    "unreserve": ("reserve", "unreserve"),
    "postBind": ("reserve", "postBind"),
}
_UNANSWERED = ("unreserve", "postBind")

# Its exports that a pod meets on its way to a node, each alone beside a Filter.
_EXTENSION = ("prefilter", "filter", "prescore", "score", "normalizescore", "reserve", "permit", "prebind")


@pytest.mark.slow
@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("export", _EXTENSION)
@pytest.mark.parametrize("harm", ["loops", "traps", "bombs"])
def test_an_extension_guest_that_does_harm_in_a_cycle(harm: str, export: str, policy: str, tmp_path: Path) -> None:
    also = ("score",) if export in ("prescore", "normalizescore") else ()
    check(extension_guest(HARM[harm], export, *also), tmp_path, policy)


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("harm", HARM)
def test_an_extension_guest_that_does_harm_instead_of_binding(harm: str, policy: str, tmp_path: Path) -> None:
    check(extension_guest(HARM[harm], "bind"), tmp_path, policy, plugins=BIND_FIRST)


@pytest.mark.parametrize("harm", HARM)
def test_an_extension_guest_that_does_harm_when_asked_for_events_is_refused(harm: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="enqueue"):
        simulate(extension_guest(HARM[harm], "enqueue"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("export", ["postfilter", "addpod", "removepod"])
def test_harm_while_room_is_made_for_a_pod(export: str, policy: str, tmp_path: Path) -> None:
    """A pod that fits nowhere: the guest is asked for help, and what if others were gone. The scheduler goes on."""
    guest = extension_guest(LOOP, export, "prefilter")
    nodes = [make_node(f"n{number}").capacity(cpu="2", memory="64Gi", pods=110).obj() for number in range(NODES)]
    low = [make_pod(f"low{number}").req(cpu="2").priority(1).obj() for number in range(NODES)]
    high = make_pod("high").req(cpu="2").priority(100).scheduler_name(HOSTILE).obj()
    later = make_pod("later").req(cpu="0").obj()
    arrivals = [Arrival(0.0, pod) for pod in low] + [Arrival(2.0, high), Arrival(4.0, later)]
    outcome = simulate(
        guest, tmp_path, failurePolicy=policy, max_time_s=60.0, nodes=nodes, arrivals=arrivals, plugins=PREEMPT_LAST
    )
    assert outcome.violations == []
    bound = {pod.metadata.name: bool(pod.spec.node_name) for pod in outcome.cluster.pods.values()}
    assert bound["later"]
    assert bound["high"] == (policy == IGNORE)  # a victim has gone for it
    assert sum(name.startswith("low") for name in bound) == (NODES - 1 if policy == IGNORE else NODES)


@pytest.mark.parametrize("export", ["unreserve", "postbind"])
def test_harm_in_an_export_without_an_answer_stops_no_pod(export: str, tmp_path: Path) -> None:
    outcome = simulate(extension_guest(LOOP, export, "reserve"), tmp_path)
    assert unbound(outcome) == {HOSTILE: 0, PEACEFUL: 0}


# --- answers that break the contract ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_an_answer_that_breaks_the_contract_is_a_fault(what: str, policy: str, tmp_path: Path) -> None:
    check(batch_guest(BAD_ANSWERS[what]), tmp_path, policy)


@pytest.mark.parametrize(
    "returns",
    [both(0xFFFF_FFF0, 64), both(0, 0xFFFF_FFFF), both(4 << 16, 1), both((4 << 16) - 1, 2), -1, both(0, 4 << 16)],
)
def test_an_answer_outside_its_memory_or_beyond_its_limit_is_a_fault(returns: int, tmp_path: Path) -> None:
    check(batch_guest(returns=returns), tmp_path, FAIL)


_NUMBERS = {  # scores by name as JSON
    "not a number": '{"n0":NaN}',
    "infinity": '{"n0":1e999}',
    "a fraction": '{"n0":0.5}',
    "a great number": '{"n0":99999999999999999999}',
    "the lowest number": '{"n0":-9223372036854775808}',
    "above the highest score": '{"n0":101}',
    "a node that is none": '{"ghost":1}',
    "half a message": '{"n0":',
}


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
@pytest.mark.parametrize("what", _NUMBERS)
def test_normalized_scores_that_are_none_are_a_fault(what: str, policy: str, tmp_path: Path) -> None:
    recorded = _NUMBERS[what]
    give = f"(call $normalized (i32.const 16) (i32.const {len(recorded)})) (i32.const 0)"
    guest = module("normalized", text=recorded, score="(i64.const 0)", normalizescore=give)
    outcome = simulate(guest, tmp_path, failurePolicy=policy, max_time_s=8.0)
    assert outcome.violations == []
    # A score above the highest is an answer by the contract, and the framework's to refuse, whatever the policy.
    is_fault = policy == FAIL or what == "above the highest score"
    assert unbound(outcome) == {HOSTILE: 3 if is_fault else 0, PEACEFUL: 0}


@pytest.mark.parametrize("score", [101, -1, (1 << 31) - 1, -(1 << 31)])
def test_a_score_that_is_none_costs_the_pod_its_attempt(score: int, tmp_path: Path) -> None:
    outcome = simulate(module(score=f"(i64.const {pair(score, 0)})"), tmp_path, max_time_s=8.0)
    assert outcome.violations == []
    assert unbound(outcome) == {HOSTILE: 3, PEACEFUL: 0}


@pytest.mark.parametrize("code", [77, -1, (1 << 31) - 1])
def test_a_status_code_that_nobody_knows_costs_the_pod_its_attempt(code: int, tmp_path: Path) -> None:
    check(module(filter=f"(i32.const {code})"), tmp_path, FAIL)


@pytest.mark.parametrize("room", [-1, 0xFFFF_FFF0 - (1 << 32), (4 << 16) - 1])
def test_room_for_messages_outside_its_memory_is_a_fault(room: int, tmp_path: Path) -> None:
    check(batch_guest(before={"ks_alloc": f"(return (i32.const {room}))"}), tmp_path, FAIL)


@pytest.mark.parametrize("policy", FAILURE_POLICIES)
def test_a_pure_guest_with_bad_answers_does_not_get_into_the_compiled_lane(policy: str, tmp_path: Path) -> None:
    check(batch_guest(scores(0, 101, 0), depends="pod"), tmp_path, policy)


# --- quarantine -------------------------------------------------------------------------------------------------------


def _until(seconds: int, harm: str) -> str:
    """Harm until the clock of the simulation, which begins at a fixed time, has come so far."""
    return f"(if (i64.lt_s (call $now) (i64.const {int((START + seconds) * 1e9)})) (then {harm}))"


START = 1_700_000_000  # of the clock of a simulation


@pytest.mark.parametrize("harm", ["loops", "traps"])
def test_a_guest_is_called_again_when_it_behaves(harm: str, tmp_path: Path) -> None:
    guest = batch_guest(scores(1, 2, 3), before={"ks_call": _until(12, HARM[harm])})
    outcome = simulate(guest, tmp_path, pods=8, max_time_s=120.0)
    assert outcome.violations == []
    assert unbound(outcome) == {HOSTILE: 0, PEACEFUL: 0}
    reported = {(event.reason, event.regarding.kind, event.regarding.name) for event in outcome.cluster.events}
    assert ("PluginQuarantined", "KubeSchedulerConfiguration", "guest") in reported
    assert ("PluginAdmitted", "KubeSchedulerConfiguration", "guest") in reported


# --- corrupt modules --------------------------------------------------------------------------------------------------

SOUND = {"batch": batch_guest(scores(1, 2, 3)), "extension": extension_guest("", "filter", "score")}


@pytest.mark.parametrize("interface", SOUND)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corrupt_module_is_refused_or_harmless(interface: str, data: st.DataObject, tmp_path: Path) -> None:
    module = bytearray(SOUND[interface])
    for place in data.draw(st.lists(st.integers(0, len(module) - 1), max_size=3), label="places"):
        module[place] = data.draw(st.integers(0, 255), label="byte")
    cut = data.draw(st.integers(0, len(module)), label="length")
    kept = bytes(module[:cut] if data.draw(st.booleans(), label="is cut") else module)
    try:
        outcome = simulate(kept, tmp_path, pods=2, max_time_s=2.0)
    except ConfigError:
        return
    assert outcome.violations == []
    assert unbound(outcome)[PEACEFUL] == 0


# --- host functions, asked for anything -------------------------------------------------------------------------------


def caller_of(functions: list[HostFunction]) -> bytes:
    """A guest that hands its own arguments on: export `f0` calls the first function, and so on."""
    kinds = {"i": "i32", "I": "i64"}
    lines = ["(module"]
    for index, each in enumerate(functions):
        signature = _signature(each.type, kinds)
        lines.append(f'(import "{each.module}" "{each.name}" (func $h{index} {signature}))')
    lines.append('(memory (export "memory") 1 2) (data (i32.const 100) "\\7b\\22\\00\\ff") ')
    for index, each in enumerate(functions):
        given_on = " ".join(f"(local.get {number})" for number in range(len(each.params)))
        lines.append(f'(func (export "f{index}") {_signature(each.type, kinds)} (call $h{index} {given_on}))')
    return bytes(wasmtime.wat2wasm("\n".join([*lines, ")"])))


def _signature(kind: FuncType, names: dict[str, str]) -> str:
    params = " ".join(names[letter] for letter in kind.params)
    return (f"(param {params})" if params else "") + (f"(result {names[kind.results]})" if kind.results else "")


def extension_host() -> list[HostFunction]:
    world = World(make_table(), ObjectEncoder())
    scheduler = SchedulerFunctions("Guest", "config", world, NoPermitWaits(), Surroundings())
    return list(extension_functions(scheduler, Klog("Guest", 0, GuestLog("Guest", ManualClock().now, LogRules()))))


FUNCTIONS: dict[str, Callable[[], list[HostFunction]]] = {
    "batch": lambda: list(batch_functions(lambda: 7)),
    "extension": extension_host,
    "wasi": lambda: wasi_functions(Wasi(args=("guest",))),
}
EDGES = (0, 1, 4, 100, 255, 65_535, 65_536, 65_537, 131_072, (1 << 31) - 1, -(1 << 31), -1, -8, -65_536)
numbers = st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 300))


class Asked:
    """Host functions of one interface, called by a guest that is instantiated again after each fault."""

    def __init__(self, interface: str) -> None:
        self.functions = FUNCTIONS[interface]()
        self._module = engine_named("wasmtime").compile(caller_of(self.functions))
        self._instance: Instance | None = None
        self.faults = 0

    def ask(self, index: int, *arguments: int) -> None:
        """Either an answer or a GuestFault, and the host is as it was."""
        if self._instance is None or self._instance.is_broken:
            self._instance = self._module.instantiate(self.functions, Limits(deadline_s=5.0))
        self._instance.data = Call(make_pod("p").obj(), "a", filtered=["a", "b"], scores={"a": 1})
        try:
            self._instance.call(f"f{index}", *arguments)
        except GuestFault as raised:
            fault = raised
            self._instance.close()
        else:
            return
        self.faults += 1
        is_abort = fault.message.startswith(f"f{index}: abort: ")  # the guest asked for its end
        assert is_abort or fault.kind.value in ("memory", "bad_answer", "exit"), fault
        assert "\n" not in fault.message


@pytest.fixture(scope="module", params=FUNCTIONS)
def asked(request: pytest.FixtureRequest) -> Asked:
    interface: str = request.param
    return Asked(interface)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_host_functions_take_any_address_and_length(asked: Asked, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(asked.functions) - 1))
    function = asked.functions[index]
    asked.ask(index, *(data.draw(numbers, label=f"{function.name} {place}") for place in range(len(function.params))))


def test_every_host_function_is_asked_for_every_edge(asked: Asked) -> None:
    """Both of each pair of an address and a length, at all edges."""
    for index, function in enumerate(asked.functions):
        count = len(function.params)
        for first in EDGES:
            for second in EDGES:
                asked.ask(index, *(second if place % 2 else first for place in range(count)))
    assert asked.faults > 20


# --- nothing but what is granted --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        ("wasi_snapshot_preview1", "path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)"),
        ("wasi_snapshot_preview1", "sock_accept", "(param i32 i32 i32) (result i32)"),
        ("wasi_snapshot_preview1", "sock_recv", "(param i32 i32 i32 i32 i32 i32) (result i32)"),
    ],
)
def test_files_and_sockets_answer_no(module: str, name: str, kind: str, tmp_path: Path) -> None:
    """A guest that opens /etc/passwd under every descriptor gets no file."""
    letters = kind.partition(")")[0].removeprefix("(param").split()
    given_on = " ".join(f"({letter}.const {3 if place == 0 else 64})" for place, letter in enumerate(letters))
    body = f"""
      (import "{module}" "{name}" (func $f {kind}))
      (memory (export "memory") 1) (data (i32.const 64) "/etc/passwd")
      (func (export "filter") (result i32) (if (i32.eqz (call $f {given_on})) (then unreachable)) (i32.const 0))"""
    made = bytes(wasmtime.wat2wasm(f"(module {body})"))
    assert unbound(simulate(made, tmp_path)) == {HOSTILE: 0, PEACEFUL: 0}  # access was refused, so it did not trap


def test_a_guest_sees_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "token")
    guest = """(module
      (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "filter") (result i32)
        (if (call $sizes (i32.const 8) (i32.const 12)) (then (return (i32.const 0))))
        (if (i32.or (i32.load (i32.const 8)) (i32.load (i32.const 12))) (then unreachable))
        (i32.const 0)))"""
    assert unbound(simulate(bytes(wasmtime.wat2wasm(guest)), tmp_path)) == {HOSTILE: 0, PEACEFUL: 0}


# --- a great many -----------------------------------------------------------------------------------------------------

CALLS = sampled(100_000)
MOST_BYTES = 60  # a call


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize("interface", FUNCTIONS)
def test_memory_stays_bounded_over_a_great_many_bad_calls(interface: str) -> None:
    chance, guest = random.Random(5), Asked(interface)

    def ask(times: int) -> None:
        for _ in range(times):
            index = chance.randrange(len(guest.functions))
            count = len(guest.functions[index].params)
            guest.ask(index, *(chance.choice(EDGES) for _ in range(count)))
        gc.collect()

    ask(CALLS // 10)
    before = resident_bytes()
    ask(CALLS - CALLS // 10)
    assert guest.faults > CALLS // 20
    assert resident_bytes() - before < MOST_BYTES * CALLS
