"""A report lists the claims of pods with their devices, and says what the claims of waiting pods lack."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kscheduler.api.devices import DeviceObject
from kscheduler.config.load import default_config
from kscheduler.scheduler import Options
from kscheduler.simulator import pod_claims
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.report import build_report, to_json
from kscheduler.simulator.run import RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_pod
from tests.devices.building import DRIVER, devices, make_class, make_slice, request
from tests.simulator.first_fit import make_node
from tests.support.devices import GPU, TEMPLATE, backing, gpu_pod, named_claim, template


def report_of(*arrivals: Arrival, classes: tuple[Any, ...] = (make_class(),), nodes: int = 2) -> dict[str, Any]:
    """Return the report, as JSON, of a run on nodes with one GPU each."""
    made = [make_node(f"n{at}", cpu="4") for at in range(nodes)]
    slices = [make_slice(f"n{at}", devices("g0"), node_name=f"n{at}", pool=f"n{at}") for at in range(nodes)]
    items: list[DeviceObject] = [*classes, *slices, template(TEMPLATE, request()), named_claim("shared")]
    scenario = Scenario(made, list(arrivals), devices=items)
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    assert not outcome.violations
    report: dict[str, Any] = msgspec.json.decode(to_json(build_report(scenario, outcome, {})))
    return report


def claims_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["pod"]: each["claims"] for each in report["claims"]["pods"]}


def arriving(at_s: float, name: str, *claims: str, **fields: Any) -> Arrival:
    return Arrival(at_s, gpu_pod(name, *claims).obj(), **fields)


def test_a_pod_has_its_claims_with_their_devices_even_after_it_has_left() -> None:
    report = report_of(arriving(0.0, "short", runs_s=50.0), arriving(1.0, "long", "shared"))
    found = claims_of(report)
    nodes = dict(zip(report["placements"]["pods"], report["placements"]["node"], strict=True))
    for name, entry, key in (("short", f"from-{TEMPLATE}", "default/short-"), ("long", "shared", "default/shared")):
        node = report["placements"]["nodes"][nodes[f"default/{name}"]]
        [claim] = found[f"default/{name}"]["claims"]
        assert claim["name"] == entry
        assert claim["claim"].startswith(key)
        assert claim["state"] == "allocated"
        [device] = claim["devices"]
        assert (device["driver"], device["pool"], device["device"]) == (DRIVER, node, "g0")
    assert [each["pod"] for each in report["claims"]["pods"]] == ["default/long", "default/short"]
    assert report["claims"]["left_out"] == 0


def test_the_report_of_a_waiting_pod_names_the_claim_that_fails_and_where() -> None:
    report = report_of(arriving(0.0, "a"), arriving(0.0, "b"), arriving(1.0, "waits"))
    found = claims_of(report)["default/waits"]
    [claim] = found["claims"]
    assert (claim["state"], claim["devices"]) == ("not allocated", [])
    assert (found["nodes"], found["satisfied"]) == (2, 0)
    [finding] = found["findings"]
    assert finding["claim"] == claim["claim"]
    assert (finding["reason"], finding["nodes"], finding["examples"]) == ("in use", 2, ["n0", "n1"])


def test_a_claim_that_does_not_exist_is_what_the_pod_waits_for() -> None:
    report = report_of(arriving(0.0, "p", "missing"))
    found = claims_of(report)["default/p"]
    assert [(each["claim"], each["state"]) for each in found["claims"]] == [("default/missing", "not found")]
    message = 'could not find ResourceClaim "default/missing"'
    assert found["waitsFor"] == message
    assert [(each["reason"], each["message"]) for each in report["unplaced"]] == [("WaitsForClaim", message)]
    assert report["ending"] == "no pod that is left can be placed"


def test_the_claim_for_extended_resources_is_listed() -> None:
    pods = [Arrival(float(at), make_pod(f"p{at}").req(**{GPU: "1"}).obj(), runs_s=50.0) for at in range(2)]
    found = claims_of(report_of(*pods, classes=(backing("gpu", GPU),)))
    for each in found.values():
        [claim] = each["claims"]
        assert (claim["name"], claim["state"], len(claim["devices"])) == ("extended resources", "allocated", 1)
    assert len(found) == 2


def test_a_run_without_claims_has_none_in_its_report() -> None:
    scenario = Scenario([make_node("n0", cpu="4")], [Arrival(0.0, make_pod("p").req(cpu="1").obj())])
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), Options()), RunSettings())
    assert outcome.claims is None


def test_the_claims_of_few_pods_are_listed_and_of_fewer_tried_on_some_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_claims, "MAX_PODS", 4)
    monkeypatch.setattr(pod_claims, "MAX_EXPLAINED", 1)
    monkeypatch.setattr(pod_claims, "MAX_NODES", 2)
    first = [arriving(0.0, f"p{at}") for at in range(3)]
    report = report_of(
        *first, arriving(1.0, "ended", runs_s=1.0), *(arriving(5.0, f"w{at}") for at in range(2)), nodes=4
    )
    found = claims_of(report)
    assert len(found) == 4
    assert report["claims"]["left_out"] == 2
    tried = [each["nodes"] for each in found.values() if each["nodes"]]
    assert tried == [2]


def test_equal_runs_have_equal_claims_in_their_reports() -> None:
    arrivals = [arriving(float(at), f"p{at}", runs_s=30.0) for at in range(6)]
    assert report_of(*arrivals)["claims"] == report_of(*arrivals)["claims"]
