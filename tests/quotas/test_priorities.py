"""The priorities of counted pods, by namespace."""

from __future__ import annotations

from kscheduler.quotas.priorities import Priorities


def test_the_lowest_priority_of_a_namespace_follows_its_pods() -> None:
    priorities = Priorities()
    for priority, number in ((5, 1), (3, 2)):
        priorities.count("a", priority, number)
    priorities.count("b", -1, 1)
    assert (priorities.lowest("a"), priorities.lowest("b"), priorities.lowest("c")) == (3, -1, None)
    priorities.count("a", 3, -1)
    assert priorities.lowest("a") == 3
    priorities.count("a", 3, -1)
    assert priorities.lowest("a") == 5
    priorities.count("a", 5, -1)
    assert list(priorities.namespaces()) == ["b"]
