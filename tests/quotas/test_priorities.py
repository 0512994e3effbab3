"""The priorities of counted pods, by namespace."""

from __future__ import annotations

from kscheduler.quotas.priorities import Priorities


def test_the_lowest_priority_of_a_namespace_follows_its_pods() -> None:
    priorities = Priorities()
    for uid, priority in (("x", 5), ("y", 3), ("z", 3)):
        priorities.add("a", uid, priority)
    priorities.add("b", "other", -1)
    priorities.add("a", "x", 0)  # it is there already
    assert (priorities.lowest("a"), priorities.lowest("b"), priorities.lowest("c")) == (3, -1, None)
    priorities.drop("y")
    assert priorities.lowest("a") == 3
    priorities.drop("z")
    assert priorities.lowest("a") == 5
    for uid in ("x", "x", "unknown"):
        priorities.drop(uid)
    assert list(priorities.namespaces()) == ["b"]


def test_pods_that_are_added_together_count_once_each() -> None:
    priorities = Priorities()
    priorities.add("a", "x", 5)
    priorities.add_all("a", ["x", "y"], 3)
    priorities.add_all("b", ["z"], 1)
    priorities.drop("y")
    assert (priorities.lowest("a"), priorities.lowest("b")) == (5, 1)
