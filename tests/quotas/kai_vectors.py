"""The cases of KAI-Scheduler's own tests of its division, its order and its rules of reclaim, as data.

From pkg/scheduler/plugins/proportion: resource_division_test.go, queue_order_test.go and reclaimable_test.go (v0.17).
Amounts of GPUs are in devices, which may be shared.
"""

from __future__ import annotations

from typing import NamedTuple


class Asks(NamedTuple):
    """What one queue asks of a resource; None is unlimited."""

    deserved: float
    weight: float
    request: float
    limit: float | None = None
    priority: int = 0
    fair: float = 0  # before, where only the surplus is divided


class Division(NamedTuple):
    name: str
    total: float
    queues: list[Asks]
    left: float
    shares: list[float | None]  # None: not stated


_FEW = Asks(3, 0, 2)
_MORE = Asks(3, 1, 5, fair=3)
_PAIR = Asks(2, 2, 6)
_CPU = Asks(5000, 5000, 5000)

DIVISIONS = [
    Division("requested, nothing left", 2, [_FEW], 0, [2]),
    Division("requested, one left", 3, [_FEW], 1, [2]),
    Division("no more than allowed", 3, [_FEW._replace(limit=2)], 1, [2]),
    Division("deserved although there is less", 1, [_FEW], 0, [2]),
    Division("no more than deserved without weight", 7, [_FEW._replace(request=5)], 4, [3]),
    Division("a fraction that is deserved", 2, [_FEW._replace(deserved=1.5)], 0.5, [1.5]),
    Division("a fraction that is requested", 2, [_FEW._replace(request=1.5)], 0.5, [1.5]),
    Division("nothing deserved", 2, [_FEW._replace(deserved=0)], 2, [0]),
    Division("many", 15, [_PAIR, _PAIR], 3, [6, 6]),
    Division("exactly what is requested", 12, [_PAIR, _PAIR], 0, [6, 6]),
    Division("by weight", 8, [_PAIR._replace(weight=1), _PAIR._replace(weight=3)], 0, [3, 5]),
    Division("no more than the limit", 12, [_PAIR._replace(limit=5), _PAIR], 1, [5, 6]),
    Division("largest remainder", 11, [Asks(2, 1, 10), Asks(2, 4, 10)], 0, [3, 8]),
    Division("remainder to the oldest", 11, [_PAIR, _PAIR], 0, [6, 5]),
    Division("priority and deserved", 4, [_PAIR._replace(priority=1), _PAIR._replace(priority=2)], 0, [2, 2]),
    Division("priority and surplus", 6, [_PAIR._replace(priority=1), _PAIR._replace(priority=2)], 0, [2, 4]),
    Division("priority before weight", 6, [Asks(2, 100, 6, None, 1), Asks(2, 1, 6, None, 2)], 0, [2, 4]),
    Division(
        "remainder with priorities",
        5,
        [Asks(2, 2, 5, None, 2), Asks(2, 2, 5, None, 2), Asks(1, 2, 0, None, 1)],
        0,
        [3, 2, 0],
    ),
    Division("one, in thousandths", 3000, [Asks(3000, 3000, 2000)], 1000, [2000]),
    Division("one, oversubscribed", 1000, [Asks(3000, 3000, 2000)], 0, [2000]),
    Division("the second deserves nothing", 10000, [Asks(5000, 5000, 10000), Asks(0, 0, 5000)], 0, [10000, 0]),
    Division("three, oversubscribed", 10000, [_CPU, _CPU, _CPU], 0, [5000, 5000, 5000]),
    Division("three beyond deserved", 18000, [_CPU._replace(request=6000)] * 3, 0, [6000, 6000, 6000]),
    Division(
        "one wants more",
        10000,
        [_CPU._replace(request=7000), _CPU._replace(request=2000), _CPU._replace(request=2000)],
        0,
        [6000, 2000, 2000],
    ),
    Division(
        "one wants more than there is",
        10000,
        [_CPU._replace(request=7000), _CPU, _CPU._replace(request=2000)],
        0,
        [5000, 5000, 2000],
    ),
    Division(
        "one wants more, within its limit",
        10000,
        [_CPU._replace(request=7000, limit=7000), _CPU._replace(request=2000), _CPU._replace(request=2000)],
        0,
        [6000, 2000, 2000],
    ),
    Division("the second may only borrow", 10000, [_CPU, _CPU._replace(deserved=0), _CPU], 0, [5000, 0, 5000]),
    Division(
        "the second may only borrow and others want more",
        10000,
        [_CPU._replace(request=10000), _CPU._replace(deserved=0), _CPU._replace(request=10000)],
        0,
        [5000, None, 5000],
    ),
    Division("all of the cluster", 3000, [Asks(1000, 1, 5000)], 0, [3000]),
    Division("evenly", 10, [Asks(1, 1, 8)] * 2, 0, [5, 5]),
    Division("different weights", 1000, [Asks(250, 1, 5000), Asks(150, 2, 5000)], 0, [450, 550]),
    Division("different weights and a limit", 1000, [Asks(250, 1, 5000), Asks(150, 2, 5000, 400)], 0, [600, 400]),
    Division("three evenly", 9999, [Asks(1000, 1, 10000)] * 3, 0, [3333, 3333, 3333]),
    Division("three by weight", 9999, [Asks(0, weight, 10000) for weight in (6, 2, 1)], 0, [6666, 2222, 1111]),
    Division("fractions", 45, [Asks(12, 12, 32.55), Asks(7, 7, 9.5), Asks(2, 2, 1.65, 2)], 1.3, [32.55, 9.5, 1.65]),
    Division("the last one", 5, [Asks(2, 2, 3)] * 2, 0, [3, 2]),
]

SURPLUS = [
    Division("requested, nothing left", 2, [_MORE], 0, [5]),
    Division("requested, one left", 3, [_MORE], 1, [5]),
    Division("no more than allowed", 2, [_MORE._replace(limit=4)], 1, [4]),
    Division("nothing without weight", 2, [_MORE._replace(weight=0)], 2, [3]),
    Division("a fraction that is requested", 2, [_MORE._replace(request=4.5)], 0.5, [4.5]),
    Division("a fraction that is left", 0.5, [_MORE], 0, [3.5]),
    Division("nothing deserved", 6, [_MORE._replace(deserved=0, fair=0)], 1, [5]),
    Division("nothing there", 0, [_MORE], 0, [3]),
    Division("much, and no weight", 10, [_MORE._replace(weight=0)], 10, [3]),
    Division("nobody with weight wants more", 10, [_MORE._replace(weight=0), _MORE._replace(request=3)], 10, [3, 3]),
    Division(
        "no remainder to a lower priority",
        3,
        [Asks(1, 1, 5, None, 2, 1), Asks(1, 1, 5, None, 2, 1), Asks(1, 1, 5, None, 1, 1)],
        0,
        [3, 2, 1],
    ),
]


class Turn(NamedTuple):
    """Two queues, each with priority, deserved, fair share, allocated GPUs, and the GPUs of its next job."""

    name: str
    left: tuple[int, float, float, float, float]
    right: tuple[int, float, float, float, float]
    first: str


TURNS = [
    Turn("fair share", (0, 2, 99, 20, 0), (0, 2, 2, 0, 0), "right"),
    Turn("deserved before priority", (1, 2, 99, 20, 0), (0, 2, 2, 0, 0), "right"),
    Turn("priority where both have enough", (1, 2, 99, 20, 0), (0, 2, 2, 3, 0), "left"),
    Turn("priority between deserved and fair share", (1, 2, 99, 20, 0), (0, 2, 80, 3, 0), "left"),
    Turn("the smaller job", (0, 50, 50, 40, 1), (0, 50, 50, 40, 2), "left"),
    Turn("the larger job", (0, 50, 50, 40, 3.2), (0, 50, 50, 40, 0.8), "right"),
]

# name -> parent, deserved, fair share, allocated GPUs, not preemptible ones
Tree = dict[str, tuple[str, float, float, float, float]]


class Taking(NamedTuple):
    """A job of a queue that would take victims, given by queue, each by its GPUs."""

    name: str
    tree: Tree
    queue: str
    request: float
    victims: dict[str, list[float]]
    is_allowed: bool
    is_preemptible: bool = True


def _one(
    p1: tuple[float, float, float] = (3, 3, 2),
    p2: tuple[float, float, float] = (2, 2, 3),
    top: tuple[float, float, float] = (5, 5, 5),
    fixed: float = 0,
) -> Tree:
    """Two queues below one, of whose GPUs so many are not preemptible."""
    return {"default": ("", *top, fixed), "p1": ("default", *p1, 0), "p2": ("default", *p2, 0)}


def _two(p1: tuple[float, float, float], p2: tuple[float, float, float]) -> Tree:
    """Two queues, each below one of its own with the same amounts."""
    return {"d1": ("", *p1, 0), "d2": ("", *p2, 0), "p1": ("d1", *p1, 0), "p2": ("d2", *p2, 0)}


_BRANCH: Tree = {
    "top": ("", 2, 2, 2, 0),
    "mid1": ("top", 1, 1, 0.5, 0),
    "mid2": ("top", 1, 1, 1.5, 0),
    "left-leaf1": ("mid1", 1, 1, 0, 0),
    "left-leaf2": ("mid1", 0, 0, 0.5, 0),
    "right-leaf": ("mid2", 1, 1, 1.5, 0),
}
_ONE_OF_P2 = {"p2": [1.0]}

TAKINGS = [
    Taking("below fair share from above", _one(), "p1", 1, _ONE_OF_P2, True),
    Taking("the other is at its fair share", _one(p2=(2, 2, 2), top=(5, 5, 4)), "p1", 1, _ONE_OF_P2, False),
    Taking("both are below", _one(p2=(2, 2, 1), top=(5, 5, 3)), "p1", 1, _ONE_OF_P2, False),
    Taking("within deserved from above deserved", _one(p2=(2, 3, 3)), "p1", 1, _ONE_OF_P2, True),
    Taking("at fair share, below it above", _one(p1=(3, 3, 3), top=(7, 10, 6)), "p1", 1, _ONE_OF_P2, False),
    Taking("at fair share, above it above", _one(p1=(3, 3, 3), top=(5, 5, 6)), "p1", 1, _ONE_OF_P2, False),
    Taking("not preemptible, others above deserved are", _one(p1=(2, 3, 2)), "p1", 1, _ONE_OF_P2, True, False),
    Taking(
        "not preemptible, the parent has others", _one(p1=(2, 3, 2), top=(3, 5, 5)), "p1", 1, _ONE_OF_P2, True, False
    ),
    Taking(
        "not preemptible, the parent has enough of these",
        _one(p1=(2, 3, 2), top=(3, 5, 5), fixed=3),
        "p1",
        1,
        _ONE_OF_P2,
        False,
        False,
    ),
    Taking("the parent is above its fair share", _one(p1=(2, 3, 2), top=(1, 1, 3)), "p1", 1, _ONE_OF_P2, True),
    Taking("of another department", _two((3, 3, 2), (2, 2, 3)), "p1", 1, _ONE_OF_P2, True),
    Taking("of a department at its fair share", _two((3, 3, 2), (2, 2, 2)), "p1", 1, _ONE_OF_P2, False),
    Taking("of a department between deserved and fair share", _two((3, 3, 1), (2, 4, 3)), "p1", 1, _ONE_OF_P2, True),
    Taking(
        "three levels",
        {
            f"{side}-{level}": (parent and f"{side}-{parent}", 1, 1, used, 0)
            for side, used in (("left", 0), ("right", 2))
            for level, parent in (("top", ""), ("mid", "top"), ("leaf", "mid"))
        },
        "left-leaf",
        1,
        {"right-leaf": [2]},
        True,
    ),
    Taking(
        "the uppermost would be above",
        {
            "left-top": ("", 1, 1, 1, 0),
            "left-other": ("left-top", 0, 0, 1, 0),
            "left-mid": ("left-top", 1, 1, 0, 0),
            "left-leaf": ("left-mid", 1, 1, 0, 0),
            "right-top": ("", 1, 1, 2, 0),
            "right-mid": ("right-top", 1, 1, 2, 0),
            "right-leaf": ("right-mid", 1, 1, 2, 0),
        },
        "left-leaf",
        1,
        {"right-leaf": [2]},
        False,
    ),
    Taking("the middle would be above", _BRANCH, "left-leaf1", 1, {"right-leaf": [1.5]}, False),
    Taking("and also of a sibling", _BRANCH, "left-leaf1", 1, {"right-leaf": [1.5], "left-leaf2": [0.5]}, True),
    Taking(
        "above fair share, but less than the other",
        {
            "d1": ("", 4, 4, 4, 0),
            "p1": ("d1", 3, 1, 0, 0),
            "other": ("d1", 1, 3, 4, 0),
            "d2": ("", 3, 3, 7, 0),
            "p2": ("d2", 3, 3, 7, 0),
        },
        "p1",
        1,
        {"p2": [1]},
        True,
    ),
]


class Asking(NamedTuple):
    """Cpu in thousandths, memory and GPUs: what a job requests, and of its queue deserved, fair and used amounts."""

    name: str
    request: tuple[float, float, float]
    deserved: tuple[float, float, float]
    fair: tuple[float, float, float]
    used: tuple[float, float, float]  # preemptible or not; of the latter `fixed`
    fixed: tuple[float, float, float]
    is_preemptible: bool
    is_allowed: bool


_NONE = (0.0, 0.0, 0.0)
_HUGE = (1, 1000, 1000)
_JOB = (1000, 1000, 1)

ASKINGS = [
    Asking("nothing used", _JOB, _NONE, (2000, 2000, 2), _NONE, _NONE, True, True),
    Asking("below fair share", _JOB, _NONE, (3000, 3000, 3), (1000, 1000, 1), _NONE, True, True),
    Asking("some at fair share", (500, 1000, 0), _NONE, (2000, 2000, 2), (1000, 1000, 1), _NONE, True, True),
    Asking("exactly at fair share", _JOB, _NONE, (2000, 2000, 2), (1000, 1000, 1), _NONE, True, True),
    Asking("partly above", _HUGE, _NONE, (1500, 3000, 1), (1000, 1000, 1), _NONE, True, False),
    Asking("above", _HUGE, _NONE, (1500, 1500, 1), (1000, 1000, 1), _NONE, True, False),
    Asking("above without the job", _HUGE, _NONE, (3000, 3000, 0), (2000, 1000, 1), _NONE, True, False),
    Asking("below deserved", _JOB, (2000, 2000, 2), (2000, 2000, 2), _NONE, _NONE, False, True),
    Asking("exactly deserved", _JOB, (1000, 1000, 1), (2000, 2000, 2), _NONE, _NONE, False, True),
    Asking("fractions", (1, 1, 0.2), (2, 2, 0.3), (2, 2, 0.3), (1, 1, 0.1), (1, 1, 0.1), False, True),
    Asking("partly above deserved", _HUGE, (1000, 500, 0), (2000, 2000, 2), _NONE, _NONE, False, False),
    Asking("some used", _JOB, (3000, 3000, 3), (3000, 3000, 3), (1000, 1000, 1), (1000, 1000, 1), False, True),
    Asking("nothing deserved", _HUGE, _NONE, (3000, 3000, 3), (1000, 1000, 1), _NONE, False, False),
    Asking("one above", _HUGE, (1500, 3000, 0), (3000, 3000, 3), (1000, 1000, 1), (1000, 1000, 1), False, False),
    Asking("all above", _HUGE, (1500, 1500, 1), (3000, 3000, 3), (1000, 1000, 1), (1000, 1000, 1), False, False),
]
