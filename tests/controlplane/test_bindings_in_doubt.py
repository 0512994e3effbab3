"""Bindings whose answers are lost, wrong or never come, between a scheduler and a real apiserver.

The judge is the apiserver itself: where its pods are, and what its audit log was asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import ApiserverOptions, Binaries, ControlPlane
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.load import create, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.verify import verify
from kscheduler.testing.controlplane.workload import pod
from kscheduler.testing.controlplane.workspace import Workspace
from tests.campaign import judge
from tests.support.faultproxy import Answer, Exchange, FaultProxy, Hang, Reset

pytestmark = pytest.mark.slow

ACCOUNT = "through-the-proxy"
PAGE = b"<html>The balancer has nothing to say.</html>"
WRONG_ANSWERS = [
    *(Answer(status=status) for status in (400, 401, 403, 410, 429, 500, 503)),
    Answer(status=200, content=PAGE),
    Answer(status=404, content=PAGE),
]
WRONG_IDS = ["400", "401", "403", "410", "429", "500", "503", "page-200", "page-404"]
NODES = 4  # with room for four pods each
DOUBTFUL = 8
LATER = 12  # of which as many fit as the doubtful ones leave room for
FITTING = 16
WRONG_EACH = 3  # wrong answers for each doubtful pod
PODS = 155


@pytest.fixture(scope="module")
def audited(binaries: Binaries) -> Iterator[ControlPlane]:
    with ControlPlane(ApiserverOptions(audit=True), binaries) as control_plane:
        control_plane.service_account_token("kube-system", ACCOUNT)
        binding: dict[str, Any] = {
            "metadata": {"name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        }
        control_plane.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield control_plane


@pytest.fixture
def place(audited: ControlPlane) -> Iterator[Workspace]:
    own = Workspace(audited)
    try:
        yield own
    finally:
        own.clean()


@pytest.fixture
def proxy(audited: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(audited.url, audited.authority, backends=3) as started:
        yield started


def start(
    program: type[KScheduler] | type[KubeScheduler], place: Workspace, proxy: FaultProxy, directory: Path
) -> KScheduler | KubeScheduler:
    """A scheduler that is connected to the apiserver through the proxy only."""
    token = place.control_plane.service_account_token("kube-system", ACCOUNT)
    return program(place.control_plane, kubeconfig=proxy.kubeconfig(directory / "proxy.kubeconfig", token))


def bound(place: Workspace, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in place.bindings())


def binding_requests(proxy: FaultProxy) -> list[Exchange]:
    return [exchange for exchange in list(proxy.journal) if exchange.resource == "pods/binding"]


def check_bound_once(place: Workspace) -> None:
    """No second node was asked for once the apiserver had bound a pod, and none was bound twice."""
    requests = judge.bind_requests(place.control_plane.apiserver.audit_events())
    nodes: defaultdict[str, list[str]] = defaultdict(list)  # pod -> the nodes of which its bindings asked
    successes: defaultdict[str, int] = defaultdict(int)
    for request in requests:
        if request.pod.startswith(f"{place.namespace}/"):
            nodes[request.pod].append(request.node)
            successes[request.pod] += request.status < 300
    bindings = {f"{place.namespace}/{name}": node for name, node in place.bindings().items()}
    assert {name: set(asked) for name, asked in nodes.items()} == {name: {node} for name, node in bindings.items()}
    assert dict(successes) == dict.fromkeys(bindings, 1)


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=WRONG_IDS)
def test_a_binding_in_doubt_outlasts_wrong_answers_and_keeps_its_room(
    place: Workspace, proxy: FaultProxy, tmp_path: Path, wrong: Answer
) -> None:
    place.create_nodes(NODES)
    start(KScheduler, place, proxy, tmp_path)
    # 1. The bindings arrive, and their answers are lost. What is asked afterwards about these pods is answered wrongly.
    posts = Answer(
        verb="create", resource="pods/binding", name="in-doubt-*", begin=1, status=wrong.status, content=wrong.content
    )
    gets = Answer(verb="get", resource="pods", name="in-doubt-*", status=wrong.status, content=wrong.content)
    proxy.add(Reset(verb="create", resource="pods/binding", name="in-doubt-*", arrived=True, end=1))
    wrongs = [proxy.add(posts), proxy.add(gets)]
    for index in range(DOUBTFUL):
        place.create_pod(f"in-doubt-{index}", requests={"cpu": "1"})
    # 2. The others may have the room that is left, and no more.
    for index in range(LATER):
        place.create_pod(f"later-{index}", requests={"cpu": "1"})
    eventually(lambda: len(place.bindings()) >= FITTING, "all room is taken", state=place.bindings)

    def asked_least() -> int:
        answered = [one.name for one in list(proxy.journal) if "Answer" in one.faults]
        return min(answered.count(f"in-doubt-{index}") for index in range(DOUBTFUL))

    eventually(lambda: asked_least() >= WRONG_EACH, "wrong answers for each", state=asked_least)
    # 3. The apiserver answers again.
    for fault in wrongs:
        fault.remove()
    # A pod that comes now and is bound shows that nothing is stuck; each Scheduled Event comes once a binding is known.
    place.create_pod("last", requests={"cpu": "0"})
    eventually(lambda: bound(place, "last"), "the last pod is bound")
    eventually(lambda: not verify(place.api, place.namespace).wrong_events, "a Scheduled Event for each bound pod")
    assert not verify(place.api, place.namespace).overcommitted
    assert len(place.bindings()) == FITTING + 1
    assert bound(place, "in-doubt-") == DOUBTFUL
    check_bound_once(place)


def seconds_for_the_others(
    program: type[KScheduler] | type[KubeScheduler],
    place: Workspace,
    proxy: FaultProxy,
    directory: Path,
    hung: int,
    *,
    arrived: bool,
) -> float:
    """From the first binding request to the last answer for the pods whose bindings do not hang; the hung ones still
    hang then, and afterwards all is bound.
    """
    place.create_nodes(NODES)
    small = {"cpu": "10m"}
    first = pods(hung, place.namespace, templates=[pod("hung-{index}", requests=small)])
    create(place.control_plane.credentials, first)
    others = pods(PODS - hung, place.namespace, templates=[pod("other-{index}", requests=small)])
    create(place.control_plane.credentials, others)
    # Every try for these hangs, as if each connection led to the same bad apiserver.
    fault = proxy.add(Hang(verb="create", resource="pods/binding", name="hung-*", arrived=arrived))
    scheduler = start(program, place, proxy, directory)

    def answered() -> int:
        return len({one.name for one in binding_requests(proxy) if one.answered == 201})

    eventually(lambda: answered() == PODS - hung, "the others are bound", state=answered)
    requests = binding_requests(proxy)
    last_unix_s = max(one.at_unix_s + (one.seconds or 0.0) for one in requests if one.answered == 201)
    # A scheduler may have left some of the hung ones for the end; those that it asked for have no answer.
    hanging = {one.name for one in requests if one.name.startswith("hung-")}
    assert all(one.answered is None for one in requests if one.name in hanging)
    assert bound(place, "other-") == PODS - hung
    if program is KScheduler:
        assert len(hanging) == hung
        fault.remove()
        eventually(lambda: len(place.bindings()) == PODS, "all are bound", state=lambda: len(place.bindings()))
        eventually(lambda: not verify(place.api, place.namespace).problems, "a Scheduled Event for each")
        check_bound_once(place)
    else:
        scheduler.process.kill()
    return last_unix_s - min(one.at_unix_s for one in requests)


@pytest.mark.parametrize("arrived", [False, True], ids=["not-carried-out", "carried-out"])
@pytest.mark.parametrize("hung", [15, 50])
def test_bindings_that_hang_for_ever_do_not_stop_the_others(
    place: Workspace,
    proxy: FaultProxy,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    hung: int,
    arrived: bool,
) -> None:
    seconds = seconds_for_the_others(KScheduler, place, proxy, tmp_path, hung, arrived=arrived)
    record_property("seconds", seconds)
    print(f"{hung} hung bindings of {PODS}: the others were bound within {seconds:.2f} s")


@pytest.mark.parametrize("hung", [15, 50])
def test_how_long_kube_scheduler_takes_for_the_others_is_measured(
    place: Workspace, proxy: FaultProxy, tmp_path: Path, record_property: Callable[[str, object], None], hung: int
) -> None:
    seconds = seconds_for_the_others(KubeScheduler, place, proxy, tmp_path, hung, arrived=False)
    record_property("seconds", seconds)
    print(f"kube-scheduler, {hung} hung bindings of {PODS}: the others were bound within {seconds:.2f} s")


def test_one_apiserver_of_three_that_hangs_stops_no_pod(place: Workspace, proxy: FaultProxy, tmp_path: Path) -> None:
    place.create_nodes(NODES)
    start(KScheduler, place, proxy, tmp_path)
    with proxy.add(Hang(backend=1)) as fault:
        template = pod(requests={"cpu": "10m"})
        create(place.control_plane.credentials, pods(PODS, place.namespace, templates=[template]))
        eventually(lambda: len(place.bindings()) == PODS, "all are bound", state=lambda: len(place.bindings()))
        assert fault.hits
    eventually(lambda: not verify(place.api, place.namespace).problems, "a Scheduled Event for each")
    check_bound_once(place)
