"""Which node a waiting pod is expected on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nominations import Nominations
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod


def pod(name: str, nominated: str = "", version: str = "1") -> PodInfo:
    return PodInfo(make_pod(name).uid(name).nominated_node(nominated).resource_version(version).obj())


def check(nominations: Nominations) -> None:
    """Assert that the indexes by pod and by node agree."""
    listed = {uid: name for name, pods in nominations._by_node.items() for uid in pods}
    assert listed == {uid: known.node_name for uid, known in nominations.by_pod.items()}
    assert all(nominations._by_node.values()), "a node without nominated pods is listed"


def names(nominations: Nominations, node: str) -> list[str]:
    return [each.uid for each in nominations.on(node)]


def test_pods_are_listed_by_node_longest_nominated_first() -> None:
    nominations = Nominations()
    assert not nominations
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1")):
        nominations.nominate(pod(name), node)
    assert (names(nominations, "n1"), names(nominations, "n2"), names(nominations, "n3")) == (["a", "c"], ["b"], [])
    assert (len(nominations), list(nominations.nodes()), nominations.node_of("c")) == (3, ["n1", "n2"], "n1")


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominations = Nominations()
    nominations.nominate(pod("a"), "n1")
    nominations.nominate(pod("a"), "n2")
    assert (names(nominations, "n1"), names(nominations, "n2"), list(nominations.nodes())) == ([], ["a"], ["n2"])
    nominations.remove("a")
    nominations.remove("a")
    assert (len(nominations), list(nominations.nodes()), nominations.node_of("a")) == (0, [], "")


def test_without_a_nomination_the_node_is_what_the_pods_status_says() -> None:
    nominations = Nominations()
    nominations.nominate(pod("a", "n1"), None)
    nominations.nominate(pod("b"), None)
    assert (names(nominations, "n1"), len(nominations)) == (["a"], 1)
    nominations.nominate(pod("a", "n1"), "")
    assert len(nominations) == 0


def test_a_nomination_that_is_yet_to_be_written_outlives_a_change_of_its_pod() -> None:
    nominations = Nominations()
    nominations.nominate(pod("a"), "n1")
    nominations.update(pod("a").pod, pod("a", version="2"))
    (known,) = nominations.on("n1")
    assert known.pod.metadata.resource_version == "2"


def test_a_nomination_that_is_written_moved_or_taken_back_is_as_the_status_says() -> None:
    nominations = Nominations()
    nominations.nominate(pod("a"), "n1")
    nominations.update(pod("a").pod, pod("a", "n2"))
    assert nominations.node_of("a") == "n2"
    nominations.update(pod("a", "n2").pod, pod("a", "n3"))
    assert nominations.node_of("a") == "n3"
    nominations.update(pod("a", "n3").pod, pod("a"))
    assert nominations.node_of("a") == ""


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["nominate", "update", "remove"]),
                          st.sampled_from(["", "n1", "n2"]), st.sampled_from([None, "", "n1", "n2"]))))  # fmt: skip
def test_both_ways_of_looking_agree_through_any_changes(steps: list[tuple[str, str, str, str | None]]) -> None:
    nominations = Nominations()
    expected: dict[str, str] = {}
    for name, act, status, node in steps:
        if act == "nominate":
            nominations.nominate(pod(name, status), node)
            expected[name] = status if node is None else node
        elif act == "update":
            nominations.update(pod(name, node or "").pod, pod(name, status))
            if status or node:
                expected[name] = status
        else:
            nominations.remove(name)
            expected.pop(name, None)
        check(nominations)
        found = {each: nominations.node_of(each) for each in "abc" if nominations.node_of(each)}
        assert found == {each: node for each, node in expected.items() if node}


def test_watchers_are_notified_of_every_node_whose_pods_change() -> None:
    nominations, reported = Nominations(), list[str]()
    nominations.watch(reported.append)
    pod = PodInfo(make_pod("a").uid("a").obj())
    nominations.nominate(pod, "n1")
    nominations.nominate(pod, "n2")
    nominations.nominate(pod, "")
    nominations.remove("a")
    assert reported == ["n1", "n1", "n2", "n2"]


def test_the_highest_priority_is_that_of_the_pods_that_are_nominated_now() -> None:
    def important(name: str, priority: int) -> PodInfo:
        return PodInfo(make_pod(name).uid(name).priority(priority).obj())

    nominations = Nominations()
    assert nominations.highest_priority is None
    for name, priority, highest in (("a", 5, 5), ("b", 9, 9), ("c", 7, 9)):
        nominations.nominate(important(name, priority), "n1")
        assert nominations.highest_priority == highest
    for name, left in (("b", 7), ("c", 5), ("a", None)):
        nominations.remove(name)
        assert nominations.highest_priority == left
