"""What is known of a pod, in each of the places where a pod can be; with a whole scheduler in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.scheduler import Options
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.explain.explained import explained
from tests.support.world import World, in_virtual_time

LEADS = Leadership("here_1", True, "here_1")
STANDS_BY = Leadership("here_1", False, "there_2")


def world(leadership: Leadership = LEADS, **options: Any) -> tuple[World, Explainer]:
    settings = {key: options.pop(key) for key in ("max_records", "max_bytes", "top_nodes") if key in options}
    made = World(options=Options(explain=DecisionLogOptions(**settings), first_on_tie=True), **options)
    explainer = made.scheduler.explainer(lambda: leadership)
    assert explainer is not None
    return made, explainer


def known(explainer: Explainer, name: str, **options: Any) -> dict[str, Any]:
    return explained(explainer, f"default/{name}", **options)


def bound(made: World, name: str) -> Callable[[], bool]:
    return lambda: bool(made.cluster.pods[f"default/{name}"].spec.node_name)


@in_virtual_time
async def test_a_bound_pod_is_explained_by_the_best_nodes_and_those_that_did_not_fit() -> None:
    made, explainer = world()
    async with made:
        made.add_node(make_node("small").capacity(cpu="1", memory="1Gi"))
        made.add_node(make_node("half").capacity(cpu="4", memory="4Gi"))
        made.add_node(make_node("large").capacity(cpu="8", memory="8Gi"))
        made.add_pod(make_pod("p").req(cpu="2", memory="1Gi"))
        await made.until(bound(made, "p"))
        found = known(explainer, "p", all_nodes=True)
    assert (found["state"], found["queue"]) == ("bound", None)
    assert found["summary"] == "is on large, chosen among 2 nodes that fit, of 3"
    [decision] = found["decisions"]
    assert (decision["outcome"], decision["node"], decision["attempt"]) == ("bound", "large", 1)
    assert (decision["nodes"], decision["evaluated"], decision["feasible"]) == (3, 3, 2)
    assert decision["finished"] >= decision["time"]
    [reason] = decision["reasons"]
    assert reason == {
        "plugin": "NodeResourcesFit",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["Insufficient cpu"],
        "nodes": 1,
        "examples": ["small"],
    }
    assert decision["verdicts"] == {"small": "NodeResourcesFit: Insufficient cpu", "half": "", "large": ""}
    best, second = decision["bestNodes"]
    assert (best["node"], second["node"]) == ("large", "half")
    for node in (best, second):
        assert node["score"] == sum(each["weighted"] for each in node["plugins"])
        assert all(each["weighted"] == each["weight"] * each["normalized"] for each in node["plugins"])
    fit = next(each for each in best["plugins"] if each["plugin"] == "NodeResourcesFit")
    assert fit["normalized"] == (75 + 87) // 2, (
        "least allocated: three quarters of cpu are left, seven eighths of memory"
    )


@in_virtual_time
async def test_a_pod_that_fits_nowhere_is_explained_by_the_reasons_and_what_would_wake_it() -> None:
    made, explainer = world()
    async with made:
        for index in range(3):
            made.add_node(make_node(f"n{index}").capacity(cpu="1", memory="1Gi"))
        made.add_node(make_node("tainted").capacity(cpu="9", memory="9Gi").taint("a", "b"))
        made.add_pod(make_pod("p").req(cpu="2"))
        await made.sleep(20.0)
        found = known(explainer, "p", all_nodes=True)
    assert found["state"] == "unschedulable"
    message = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    assert found["summary"].startswith(f"fits nowhere: {message}")
    decision = found["decisions"][0]
    assert decision["outcome"] == "rejected"
    assert decision["message"].startswith(message)
    assert [(each["plugin"], each["nodes"], each["examples"]) for each in decision["reasons"]] == [
        ("NodeResourcesFit", 3, ["n0", "n1", "n2"]),
        ("TaintToleration", 1, ["tainted"]),
    ]
    assert decision["plugins"] == ["NodeResourcesFit", "TaintToleration"]
    assert "preemption" in decision["postFilter"].lower()
    assert decision["bestNodes"] == []
    assert decision["verdicts"]["tainted"] == "TaintToleration: node(s) had untolerated taint(s)"
    queue = found["queue"]
    assert queue["pool"] == "unschedulable"
    assert queue["attempts"] == 1
    assert queue["rejectingPlugins"] == ["NodeResourcesFit", "TaintToleration"]
    assert queue["backoffUntil"] is None, "its second of backoff is long over"
    assert queue["triedAgainBy"] > queue["since"]
    [waker] = [each for each in queue["wokenBy"] if (each["plugin"], each["resource"]) == ("TaintToleration", "Node")]
    assert waker["actions"] == ["Add", "UpdateNodeTaint"]
    woken_by = {each["resource"] for each in queue["wokenBy"] if each["plugin"] == "NodeResourcesFit"}
    assert woken_by == {"Node", "Pod", "resource.k8s.io/DeviceClass"}


@pytest.mark.parametrize(
    ("release", "events"),
    [
        (RELEASE_1_36, {"Pod Delete", "Pod UpdatePodScaleDown", "Node UpdateNodeTaint"}),
        (RELEASE_1_37, {"AssignedPod Delete", "AssignedPod UpdatePodScaleDown", "TargetPod UpdatePodScaleDown"}),
    ],
)
def test_what_would_wake_a_pod_is_named_in_the_words_of_the_release(release: Release, events: set[str]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        made, explainer = world(config=default_config(release))
        async with made:
            made.add_node(make_node("n").capacity(cpu="1", memory="1Gi"))
            made.add_pod(make_pod("p").req(cpu="2"))
            await made.sleep(20.0)
            woken_by = known(explainer, "p")["queue"]["wokenBy"]
        found = {f"{each['resource']} {action}" for each in woken_by for action in each["actions"]}
        of_classes = {f"resource.k8s.io/DeviceClass {action}" for action in ("Add", "Update")}
        assert found == {"Node Add", "Node UpdateNodeAllocatable", *of_classes, *events}

    scenario()


@in_virtual_time
async def test_a_gated_pod_names_its_gate() -> None:
    made, explainer = world()
    async with made:
        made.add_node(make_node("n").capacity(cpu="1"))
        made.add_pod(make_pod("p").scheduling_gate("example.com/wait"))
        await made.sleep(1.0)
        found = known(explainer, "p")
    assert (found["state"], found["queue"]["gatedBy"]) == ("gated", "SchedulingGates")
    assert found["summary"] == "is held back by SchedulingGates, and not looked at until that changes"
    assert found["decisions"] == []


@in_virtual_time
async def test_unknown_foreign_and_deleted_pods_are_distinguished() -> None:
    made, explainer = world()
    async with made:
        made.add_node(make_node("n").capacity(cpu="1"))
        made.add_pod(make_pod("theirs").scheduler_name("somebody"))
        made.add_pod(make_pod("placed").node("n"))
        made.add_pod(make_pod("p"))
        await made.until(bound(made, "p"))
        foreign, placed = known(explainer, "theirs"), known(explainer, "placed")
        made.cluster.delete_pod("default/p")
        await made.sleep(1.0)
        gone = known(explainer, "p")
    assert explainer.explain("default/nobody") is None
    assert explainer.absence("default/nobody") == (
        "pod default/nobody is not known: no unfinished pod has this name, "
        "and nothing was decided about it since this replica started"
    )
    assert foreign["state"] == "foreign"
    assert foreign["summary"] == "is left to scheduler 'somebody'; this one places pods of default-scheduler"
    assert (placed["state"], placed["decisions"]) == ("bound", [])
    assert placed["summary"].startswith("is on n; there is no decision of this replica on record: another replica")
    assert gone["state"] == "gone"
    assert gone["summary"] == "is finished or deleted; was bound to n"
    assert gone["decisions"][0]["node"] == "n"


@in_virtual_time
async def test_a_decision_that_was_forgotten_is_reported_as_forgotten() -> None:
    made, explainer = world(max_records=1)
    async with made:
        made.add_node(make_node("n").capacity(cpu="4", pods=10))
        for name in ("first", "second"):
            made.add_pod(make_pod(name))
            await made.until(bound(made, name))
        first, second = known(explainer, "first"), known(explainer, "second")
    assert first["decisions"] == []
    assert "it was forgotten for newer ones" in first["summary"]
    assert first["record"]["evicted"] == 1
    assert second["decisions"][0]["node"] == "n"
    assert "only the last 1 decision is kept" in explainer.absence("default/nobody")


@in_virtual_time
async def test_a_standby_says_so_and_names_the_leader() -> None:
    made, explainer = world(STANDS_BY)
    async with made:
        made.add_node(make_node("n").capacity(cpu="4"))
        made.add_pod(make_pod("placed").node("n"))
        made.add_pod(make_pod("waiting").req(cpu=8))
        await made.sleep(1.0)
        placed, waiting = known(explainer, "placed"), known(explainer, "waiting")
    assert (waiting["state"], waiting["queue"]) == ("pending", None), "its own queue says nothing of the pod"
    assert waiting["condition"]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    first, second, third, *_ = explanation_text(waiting, "kube-system").splitlines()
    assert first.startswith("Pod default/waiting ")
    assert second == (
        "Asked of here_1, which stands by and decides nothing: there leads (there_2). To ask that one: "
        "kubectl -n kube-system port-forward pod/there 10259"
    )
    assert third.startswith("Its condition PodScheduled is False since ")
    assert ": Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. " in third
    assert placed["replica"]["leads"] is False
    assert placed["replica"]["leader"] == "there_2"
    assert placed["summary"].endswith("This replica stands by; there_2 leads")
    assert explainer.absence("default/nobody").endswith("This replica stands by; there_2 leads")


class Reluctant:
    """Rejects every pod after a node was chosen, until configured otherwise."""

    name = "Reluctant"

    def __init__(self) -> None:
        self.allows = False

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if self.allows else unschedulable("not today")

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


@in_virtual_time
async def test_a_pod_sent_back_after_its_decision_is_explained_by_the_node_and_the_plugin() -> None:
    plugin = Reluctant()
    made, explainer = world(plugins={"reserve": [plugin]})
    async with made:
        made.add_node(make_node("n").capacity(cpu="4"))
        made.add_pod(make_pod("p"))
        await made.sleep(0.5)
        found = known(explainer, "p")
        plugin.allows = True
        made.add_node(make_node("m").capacity(cpu="4"))
        await made.until(bound(made, "p"))
        after = known(explainer, "p")
    assert found["summary"] == "was to go to n, and was sent back: not today"
    assert found["decisions"][0]["plugins"] == ["Reluctant"]
    assert found["queue"]["wokenBy"] == [
        {"plugin": "Reluctant", "resource": "*", "actions": ["All"], "narrowed": False}
    ]
    assert found["queue"]["backoffSeconds"] > 0
    outcomes = [decision["outcome"] for decision in after["decisions"]]
    assert outcomes[0] == "bound"
    assert set(outcomes[1:]) == {"rejected"}


class Patient:
    """A Permit plugin that waits, once, for a word that nobody gives here."""

    name = "Patient"

    def __init__(self) -> None:
        self._has_waited = False

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        if self._has_waited:
            return None, 0.0
        self._has_waited = True
        return Status(Code.WAIT), 10.0


@in_virtual_time
async def test_a_pod_that_waits_for_a_permit_is_explained_by_the_plugin() -> None:
    made, explainer = world(plugins={"permit": [Patient()]})
    async with made:
        made.add_node(make_node("n").capacity(cpu="4"))
        made.add_pod(make_pod("p"))
        await made.sleep(1.0)
        found = known(explainer, "p")
        await made.until(bound(made, "p"), within_s=600.0)
        after = known(explainer, "p")
    assert (found["state"], found["waitsForPermitOf"]) == ("binding", ["Patient"])
    assert found["summary"] == "is being bound to n, chosen among 1 node that fits, of 1"
    assert after["waitsForPermitOf"] == []
    latest, first = after["decisions"]
    assert latest["outcome"] == "bound"
    assert first["message"].startswith("rejected due to timeout after waiting 10s at plugin Patient")


class Moody:
    """A Score plugin of a user's, asked node by node, that fails when it is asked again."""

    name = "Moody"

    def __init__(self) -> None:
        self.calls = 0

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        self.calls += 1
        if self.calls > 2:
            raise RuntimeError("asked twice")
        return {"a": 10, "b": 90}[node.name], None


@in_virtual_time
async def test_a_plugin_that_cannot_be_asked_again_costs_the_details_and_nothing_else() -> None:
    made, explainer = world(plugins={"score": [Moody()]})
    async with made:
        for name in ("a", "b"):
            made.add_node(make_node(name).capacity(cpu="4"))
        made.add_pod(make_pod("p"))
        await made.until(bound(made, "p"))
        found = known(explainer, "p")
    [decision] = found["decisions"]
    assert (decision["node"], decision["detailed"], decision["bestNodes"]) == ("b", False, [])


class Even:
    """As above, without moods."""

    name = "Even"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return {"a": 1, "b": 3}[node.name], None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        for name in scores:
            scores[name] *= 10
        return None


@in_virtual_time
async def test_scores_of_a_plugin_that_is_asked_node_by_node_are_shown_raw_and_normalised() -> None:
    made, explainer = world(plugins={"score": [Even()]})
    async with made:
        for name in ("a", "b"):
            made.add_node(make_node(name).capacity(cpu="4"))
        made.add_pod(make_pod("p"))
        await made.until(bound(made, "p"))
        found = known(explainer, "p")
    [decision] = found["decisions"]
    scores = {
        node["node"]: next(each for each in node["plugins"] if each["plugin"] == "Even")
        for node in decision["bestNodes"]
    }
    assert (scores["a"]["raw"], scores["a"]["normalized"]) == (1, 10)
    assert (scores["b"]["raw"], scores["b"]["normalized"]) == (3, 30)


@in_virtual_time
async def test_without_a_record_of_decisions_there_is_nobody_to_ask() -> None:
    made = World()
    assert made.scheduler.explainer(lambda: LEADS) is None
    off = World(options=Options(explain=DecisionLogOptions(max_records=0)))
    assert off.scheduler.explainer(lambda: LEADS) is None
