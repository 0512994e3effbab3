"""The judge finds each violation in histories made up for it, and none in those without."""

from __future__ import annotations

from typing import Any

import pytest

from tests.campaign import judge
from tests.campaign.history import Change
from tests.campaign.judge import BindRequest

Object = dict[str, Any]


def node(name: str = "a", cpu: str = "2", **spec: object) -> Object:
    return {
        "metadata": {"name": name, "uid": f"node-{name}"},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, on: str = "", cpu: str = "1", uid: str = "", port: int = 0, **status: object) -> Object:
    container: Object = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"hostPort": port}]
    spec: Object = {"containers": [container], "schedulerName": "default-scheduler"}
    if on:
        spec["nodeName"] = on
    return {"metadata": {"name": name, "namespace": "n", "uid": uid or name}, "spec": spec, "status": status}


def history(*states: tuple[float, str, Object | None], start: int = 1) -> list[Change]:
    """Changes at times, of keys such as `pod n/a`."""
    return [
        Change(revision, at_s, key.partition(" ")[0], key.partition(" ")[2], state)
        for revision, (at_s, key, state) in enumerate(states, start)
    ]


def request(at_s: float, uid: str, on: str, status: int = 201, user: str = "one") -> BindRequest:
    return BindRequest(at_s, at_s + 0.01, user, f"n/{uid}", uid, on, status)


def kinds(violations: list[judge.Violation]) -> list[str]:
    return [violation.kind for violation in violations]


NODE = (0.0, "node a", node())


def test_a_pod_that_moves_is_bound_twice() -> None:
    moved = history((1, "pod n/p", pod("p", "a")), (2, "pod n/p", pod("p", "b")))
    assert kinds(judge.bound_twice(moved)) == ["bound twice"]


def test_a_pod_created_again_may_have_another_node() -> None:
    remade = history((1, "pod n/p", pod("p", "a")), (2, "pod n/p", None), (3, "pod n/p", pod("p", "b", uid="new")))
    assert judge.bound_twice(remade) == []


@pytest.mark.parametrize("user", ["one", "two"])
def test_a_request_for_a_second_node_is_found_whichever_user_sends_it(user: str) -> None:
    requests = [request(1, "p", "a"), request(2, "p", "b", 409, user)]
    assert kinds(judge.second_nodes(requests, {}, {})) == ["second node"]


def test_repeating_a_binding_or_asking_after_a_refusal_is_no_second_node() -> None:
    assert judge.second_nodes([request(1, "p", "a"), request(2, "p", "a", 409)], {}, {}) == []
    assert judge.second_nodes([request(1, "p", "a", 500), request(2, "p", "b")], {}, {}) == []


def test_a_leader_that_was_just_woken_is_forgiven() -> None:
    requests = [request(1, "p", "a"), request(20, "p", "b", 409, "two")]
    assert judge.second_nodes(requests, {"two": [19.5]}, {}) == []
    assert kinds(judge.second_nodes(requests, {"two": [10.0]}, {})) == ["second node"]


def test_a_request_for_a_pod_that_is_gone_is_forgiven() -> None:
    deleted = history((1, "pod n/p", pod("p", "a")), (3, "pod n/p", None), (5, "pod n/p", pod("p", uid="new")))
    assert judge.gone(deleted) == {"p": 3}
    requests = [request(1, "p", "a"), request(4, "p", "b", 404)]
    assert judge.second_nodes(requests, {}, judge.gone(deleted)) == []
    assert kinds(judge.second_nodes(requests, {}, {"p": 4.5})) == ["second node"]


def test_a_node_that_is_overcommitted_for_one_revision_is_found() -> None:
    full = [NODE, *((float(i), f"pod n/{i}", pod(str(i), "a")) for i in range(1, 4)), (4.0, "pod n/3", None)]
    found = judge.overcommitted(history(*full), {"1": "one", "2": "one", "3": "two"})
    assert kinds(found) == ["overcommitted"]
    assert found[0].text == "two put n/3 onto a: cpu: 3 of 2"


def test_too_many_pods_and_a_host_port_taken_twice_are_found() -> None:
    ports = history(NODE, *((1, f"pod n/{i}", pod(str(i), "a", port=80)) for i in range(2)))
    assert "host port 80 is taken 2 times" in judge.overcommitted(ports, {"0": "one", "1": "one"})[0].text
    many = history(NODE, *((1, f"pod n/{i}", pod(str(i), "a", cpu="0")) for i in range(11)))
    assert kinds(judge.overcommitted(many, {str(i): "one" for i in range(11)})) == ["overcommitted"]


def test_finished_pods_take_nothing() -> None:
    states = [NODE, (1.0, "pod n/1", pod("1", "a", cpu="2")), (2.0, "pod n/1", pod("1", "a", cpu="2", phase="Failed"))]
    assert judge.overcommitted(history(*states, (3.0, "pod n/2", pod("2", "a"))), {"1": "one", "2": "one"}) == []


@pytest.mark.parametrize(("at_s", "expected"), [(2.0, []), (100.0, ["overcommitted"])])
def test_a_node_that_shrank_counts_only_when_it_must_be_known(at_s: float, expected: list[str]) -> None:
    states = history(NODE, (1.0, "node a", node(cpu="1")), (at_s, "pod n/1", pod("1", "a", cpu="2")))
    assert kinds(judge.overcommitted(states, {"1": "one"})) == expected


@pytest.mark.parametrize(("at_s", "expected"), [(2.0, []), (100.0, ["overcommitted"])])
def test_what_others_bound_counts_only_when_it_must_be_known(at_s: float, expected: list[str]) -> None:
    states = history(NODE, (1.0, "pod n/0", pod("0", "a", cpu="2")), (at_s, "pod n/1", pod("1", "a")))
    assert kinds(judge.overcommitted(states, {"1": "one"})) == expected


def test_a_pod_that_fits_is_forgotten_and_one_that_does_not_needs_its_condition() -> None:
    assert kinds(judge.forgotten(history(NODE, (1, "pod n/p", pod("p"))))) == ["forgotten"]
    assert kinds(judge.forgotten(history(NODE, (1, "pod n/p", pod("p", cpu="9"))))) == ["no condition"]
    refused = pod("p", cpu="9", conditions=[{"type": "PodScheduled", "status": "False"}])
    assert judge.forgotten(history(NODE, (1, "pod n/p", refused))) == []
    assert judge.forgotten(history(NODE, (1, "pod n/p", pod("p", "a")))) == []


@pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}])
def test_a_closed_node_fits_nobody(spec: Object) -> None:
    closed = history((0, "node a", node(**spec)), (1, "pod n/p", pod("p")))
    assert kinds(judge.forgotten(closed)) == ["no condition"]


def test_a_pause_lasts_from_when_a_pod_fits_to_its_binding() -> None:
    states = history(NODE, (10, "pod n/p", pod("p")), (15, "pod n/p", pod("p", "a")))
    found = judge.pauses(states, [request(15, "p", "a")], [], limit_s=3)
    assert [(pause.began_unix_s, pause.seconds, pause.is_too_long) for pause in found] == [(10, 5, True)]


def test_time_in_which_nobody_could_bind_is_no_pause_and_what_follows_is_named() -> None:
    states = history(NODE, (10, "pod n/p", pod("p")), (20, "pod n/p", pod("p", "a")))
    blocked = [(11.0, 18.0, "kill", 6.0)]
    found = judge.pauses(states, [request(20, "p", "a")], blocked, limit_s=1.5)
    assert [(pause.seconds, pause.after, pause.is_too_long) for pause in found] == [(2, "kill", False), (1, "", False)]


def test_a_takeover_that_goes_on_behind_a_shorter_fault_keeps_its_time() -> None:
    states = history(NODE, (10, "pod n/p", pod("p")), (20, "pod n/p", pod("p", "a")))
    blocked = [(8.0, 8.0, "end of a process", 9.0), (11.0, 12.0, "outage", 3.0)]
    found = judge.pauses(states, [], blocked, limit_s=3)
    assert [(pause.seconds, pause.after, pause.limit_s) for pause in found] == [(8, "outage", 5), (1, "", 7)]


def test_pods_that_fit_nowhere_make_no_pause() -> None:
    states = history(NODE, (10, "pod n/p", pod("p", cpu="9")), (99, "node b", node("b")))
    assert judge.pauses(states, [], [], limit_s=3) == []


def test_bindings_are_read_from_the_audit_log() -> None:
    event = {
        "stage": "ResponseComplete",
        "requestReceivedTimestamp": "1970-01-01T00:00:01.500000Z",
        "stageTimestamp": "1970-01-01T00:00:02.000000Z",
        "user": {"username": "system:serviceaccount:kube-system:one"},
        "objectRef": {"subresource": "binding", "namespace": "n", "name": "p"},
        "requestObject": {"metadata": {"uid": "u"}, "target": {"name": "a"}},
        "responseStatus": {"code": 201},
    }
    assert judge.bind_requests([event, {}]) == [BindRequest(1.5, 2.0, "one", "n/p", "u", "a", 201)]
