from __future__ import annotations

from collections import Counter

import pytest

from kscheduler.cache.cache import Cache
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.priorities import Priorities
from kscheduler.testing import make_node, make_pod


def pod(name: str, priority: int) -> PodInfo:
    return PodInfo(make_pod(name).priority(priority).node("n1").obj())


def lowest(cache: Cache) -> int | None:
    """A call, so that type checkers do not remember the last answer."""
    return cache.table.priorities.lowest


def test_the_lowest_priority_is_known_as_pods_come_and_go() -> None:
    priorities = Priorities()
    pods = [pod("a", 5), pod("b", -3), pod("c", -3)]
    seen = []
    for each in pods:
        priorities.add(each)
        seen.append(priorities.lowest)
    priorities.check(Counter({5: 1, -3: 2}))
    for each in reversed(pods):
        priorities.remove(each)
        seen.append(priorities.lowest)
    assert seen == [5, -3, -3, -3, 5, None]


def test_a_difference_is_found() -> None:
    priorities = Priorities()
    priorities.add(pod("a", 5))
    with pytest.raises(AssertionError, match="priorities counted"):
        priorities.check(Counter({4: 1}))


def test_the_table_counts_the_pods_on_its_nodes() -> None:
    cache = Cache()
    assert lowest(cache) is None
    cache.set_pod(pod("early", 1))  # its node is not known yet
    assert lowest(cache) is None
    cache.set_node(make_node("n1").capacity(cpu="1").obj())
    cache.set_pod(pod("other", 7))
    assert lowest(cache) == 1
    cache.remove_pod("uid-default-early")
    assert lowest(cache) == 7
    cache.check()
    cache.remove_node("n1")
    assert lowest(cache) is None
    cache.check()
