"""Questions that name tokens are asked about the pods and terms that an index finds, and about no others."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.labels import Token
from kscheduler.cache.cache import Cache
from kscheduler.snapshot.pod_counters import RowCounter
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.pod_labels import LabelClass, TermHolders, pod_tokens
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.checks import check_cache


def cluster() -> Cache:
    cache = Cache()
    cache.set_node(make_node("n").obj())
    return cache


def place(cache: Cache, *pods: PodBuilder) -> None:
    for pod in pods:
        cache.set_pod(PodInfo(pod.node("n").obj()))


def count(cache: Cache, narrowings: Sequence[Sequence[Token]]) -> tuple[RowCounter, list[str]]:
    """A counter of all pods found, and the label `app` of those asked about."""
    asked: list[str] = []

    def weigh(pods: LabelClass) -> int:
        asked.append(pods.labels.get("app", "none"))
        return 1

    return cache.table.counters.by_labels.counter(("test", str(narrowings)), weigh, lambda: narrowings), asked


def test_the_shortest_list_of_tokens_is_looked_through() -> None:
    cache = cluster()
    place(cache, *(make_pod(f"p{i}").label(app=f"a{i}", env="prod") for i in range(10)))
    counter, asked = count(cache, [[("env", "prod")], [("app", "a3"), ("app", "a5")]])
    assert sorted(asked) == ["a3", "a5"]
    assert counter.total == 2


def test_later_pods_are_found_once_they_are_there_and_gone_ones_are_not() -> None:
    cache = cluster()
    narrowings = [[("env", "prod"), ("", "shop")]]
    place(cache, make_pod("p1", "shop").label(app="a", env="prod"), make_pod("p2").label(app="b"))
    counter, asked = count(cache, narrowings)
    assert (counter.total, asked) == (1, ["a"])
    place(cache, make_pod("p3").label(app="c", env="prod"), make_pod("p4", "shop").label(app="d"))
    cache.remove_pod("uid-default-p3")
    counter, asked = count(cache, narrowings)
    assert (counter.total, asked) == (2, ["d"])
    check_cache(cache)


def test_a_list_without_tokens_finds_nothing_and_no_list_finds_everything() -> None:
    cache = cluster()
    place(cache, make_pod("p1"), make_pod("p2").label(app="b"))
    assert count(cache, [[], [("app", "b")]])[1] == []
    assert sorted(count(cache, [])[1]) == ["b", "none"]


def test_terms_are_found_by_the_labels_they_want_or_else_anywhere() -> None:
    cache = cluster()
    for i in range(10):
        place(cache, make_pod(f"p{i}").pod_anti_affinity("zone", {"env": "prod", "app": f"a{i}"}))
    place(cache, make_pod("all").pod_anti_affinity("zone", {}, namespace_selector={"team": "x"}))
    asked: list[TermHolders] = []

    def weigh(holders: TermHolders) -> int:
        asked.append(holders)
        return 1

    labels = {"app": "a3", "env": "prod"}
    counter = cache.table.counters.by_terms.counter("test", weigh, lambda: [pod_tokens("default", labels)])
    # The term of a3, the first one, which no label distinguished from later ones yet, and the one of every pod.
    assert counter.total == len(asked) <= 3
    check_cache(cache)
