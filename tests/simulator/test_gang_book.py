"""How the gangs of a simulation went: when they began to run, and what they held until then."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL, CoschedulingPodGroup, CoschedulingPodGroupSpec
from kscheduler.simulator.gang_book import MAX_DRAWN, GangBook, GangRuns
from kscheduler.simulator.report import Report
from kscheduler.simulator.report_text import to_text
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_pod
from tests.simulator.first_fit import make_node
from tests.simulator.reports import report_of

GPUS = 4  # of the cluster of `played`


def group(name: str, minimum: int) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(ObjectMeta(name=name, namespace="default"), CoschedulingPodGroupSpec(minimum))


def member(gang: str, number: int) -> Pod:
    return make_pod(f"{gang}-{number}").uid(f"{gang}-{number}").label(POD_GROUP_LABEL, gang).req(cpu="1").obj()


def played(*arrivals: Arrival, minimum: int = 3) -> Report:
    """A run of two gangs under a scheduler that knows nothing of gangs, with room for four pods."""
    groups = [group("a", minimum), group("b", minimum)]
    return report_of(Scenario([make_node("n0", cpu=str(GPUS))], list(arrivals), pod_groups=[*groups]))


def gangs_of(report: Report) -> GangRuns:
    assert report.gangs is not None
    return report.gangs


def test_gangs_that_hold_nodes_for_a_part_of_their_pods_hold_them_for_ever() -> None:
    report = played(*(Arrival(float(n), member(gang, n), runs_s=10.0) for n in range(3) for gang in "ab"))
    gangs = gangs_of(report)
    assert (gangs.total, gangs.ran, gangs.holding, gangs.waiting) == (2, 0, 2, 0)
    assert [(run.gang, run.placed, run.pods, run.state) for run in gangs.gangs] == [
        ("default/a", 2, 3, "holding"),
        ("default/b", 2, 3, "holding"),
    ]
    assert report.pods.unplaced == 2
    assert "2 hold nodes for fewer pods than they need: default/a 2 of 3, default/b 2 of 3" in to_text(report)


def test_pods_run_from_the_moment_their_gang_has_its_minimum() -> None:
    report = played(*(Arrival(30.0 * n, member("a", n), runs_s=10.0) for n in range(3)))
    [run] = gangs_of(report).gangs
    assert run.state == "ran"
    assert run.ran_s is not None
    assert 60.0 <= run.ran_s < 61.0
    assert 89.0 < run.idle_pod_s < 91.0  # 60 s of the first pod and 30 s of the second
    assert report.pods.finished == 3
    assert 70.0 <= run.time_s[-1] < 71.0
    assert run.on_nodes == [1, 2, 3, 0]
    assert "1 of 1 gang ran, 1 min after their first pod on average" in to_text(report)


def test_a_pod_above_the_minimum_runs_from_its_own_binding() -> None:
    report = played(*(Arrival(5.0 * n, member("a", n), runs_s=20.0) for n in range(4)))
    [run] = gangs_of(report).gangs
    assert (run.minimum, run.pods, run.placed) == (3, 4, 0)
    assert run.on_nodes == [1, 2, 3, 4, 1, 0]
    assert 30.0 <= run.time_s[4] < 31.0
    assert 35.0 <= run.time_s[5] < 36.0


def test_a_pod_that_leaves_is_no_longer_held() -> None:
    book = GangBook([group("a", 2)])
    first, second = member("a", 0), member("a", 1)
    for pod in (first, second):
        book.arrived(pod, 0.0)
    assert book.got_node(first, 60.0, 1.0) == ()
    book.left(first, 11.0)
    assert book.got_node(second, 60.0, 20.0) == ()
    runs = book.close(0.0, 25.0)
    assert runs is not None
    [run] = runs.gangs
    assert (run.state, run.idle_pod_s) == ("holding", 15.0)
    assert (run.time_s, run.on_nodes) == ([1.0, 11.0, 20.0], [1, 0, 1])


def test_pods_of_no_gang_and_of_groups_without_a_minimum_run_at_once() -> None:
    book = GangBook([group("a", 0)])
    for pod in (member("a", 0), member("unknown", 0), make_pod("plain").obj()):
        book.arrived(pod, 0.0)
        assert book.got_node(pod, 60.0, 1.0) == ((pod, 60.0),)
    assert book.close(0.0, 1.0) is None


def test_gangs_that_lack_pods_are_distinguished_and_only_the_first_are_drawn() -> None:
    book = GangBook([group(f"g{number}", 2) for number in range(MAX_DRAWN + 1)])
    for number in range(MAX_DRAWN + 1):
        pod = member(f"g{number}", 0)
        book.arrived(pod, 0.0)
        if number:
            book.got_node(pod, None, 1.0)
    runs = book.close(0.0, 2.0)
    assert runs is not None
    assert (runs.incomplete, runs.holding) == (1, MAX_DRAWN)
    assert [bool(run.time_s) for run in runs.gangs] == [False, *[True] * (MAX_DRAWN - 1), False]


def test_runs_without_gangs_have_no_figures_of_them() -> None:
    assert report_of(Scenario([make_node("n0")], [Arrival(0.0, make_pod("a").obj())])).gangs is None
