"""An update in its place leaves the groups of waiting pods as a removal and an addition would."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.events import Grouping
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.waiting_groups import WaitingGroups
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod

COLOURS = ("red", "blue", "none", "broken")
PODS = [f"p{number}" for number in range(5)]


def key(pod: PodInfo) -> Hashable:
    colour = (pod.pod.metadata.labels or {})["colour"]
    if colour == "broken":
        raise RuntimeError("a fault of a plugin")
    return None if colour == "none" else colour


def options(key: Hashable) -> Sequence[Options]:
    return [[(key,)]]


def brought(old: object, new: object) -> Sequence[Hashable] | None:
    return None if new is None else [new]


GROUPINGS = (Grouping(key), Grouping(key, lambda: Narrowing(options, brought)))
VERSIONS = st.tuples(st.sampled_from(PODS), st.sampled_from(COLOURS), st.sampled_from([0, 7]))


def version(name: str, colour: str, priority: int) -> PodInfo:
    return PodInfo(make_pod(name).label(colour=colour).priority(priority).obj())


def order(groups: WaitingGroups) -> list[list[list[str]]]:
    """For all events and for those of one colour: the groups that are found, each with its pods in order."""
    return [[list(group.members) for group in groups.find(None, new)] for new in (None, *COLOURS)]


@given(st.sampled_from(GROUPINGS), st.lists(VERSIONS, max_size=20))
def test_an_update_in_place_is_a_removal_and_an_addition(
    grouping: Grouping, versions: list[tuple[str, str, int]]
) -> None:
    updated, added_again = WaitingGroups("Plugin", grouping), WaitingGroups("Plugin", grouping)
    waiting: dict[str, tuple[QueuedPodInfo, QueuedPodInfo]] = {}
    for name, colour, priority in versions:
        pod = version(name, colour, priority)
        if name not in waiting:
            waiting[name] = QueuedPodInfo(pod, 0.0), QueuedPodInfo(pod, 0.0)
            updated.add(waiting[name][0])
            added_again.add(waiting[name][1])
        else:
            first, second = waiting[name]
            first.pod_info = pod
            updated.update(first)
            added_again.remove(second)
            second.pod_info = pod
            added_again.add(second)
        updated.check()
        assert order(updated) == order(added_again)


def test_pods_above_a_priority_are_left_out_where_an_event_does_not_concern_them() -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[0])
    for name, priority in (("low", 1), ("middle", 5), ("high", 9)):
        groups.add(QueuedPodInfo(version(name, "red", priority), 0.0))
    found = [uid for group in groups.find(None, None, up_to_priority=5) for uid in group.members]
    assert found == ["uid-default-middle", "uid-default-low"]


class Keys(set[Hashable]):
    """An index that says nothing."""

    def find(self, old: object, new: object) -> Sequence[Hashable]:
        return list(self)


def test_an_index_has_the_key_of_a_group_as_long_as_one_of_its_pods_waits() -> None:
    keys = Keys()
    groups = WaitingGroups("Plugin", Grouping(key, lambda: keys))
    first, second, other = (
        QueuedPodInfo(version(name, colour, 0), 0.0) for name, colour in (("a", "red"), ("b", "red"), ("c", "blue"))
    )
    for each in (first, second, other):
        groups.add(each)
    groups.remove(first)
    assert keys == {"red", "blue"}
    groups.remove(second)
    assert keys == {"blue"}


def test_a_pod_that_is_in_no_group_may_be_discarded() -> None:
    groups, waiting = WaitingGroups("Plugin", GROUPINGS[0]), QueuedPodInfo(version("a", "red", 0), 0.0)
    groups.discard(waiting)
    groups.add(waiting)
    groups.discard(waiting)
    assert not groups.pods()
    groups.check()


def waits(groups: WaitingGroups, name: str, colour: str) -> QueuedPodInfo:
    waiting = QueuedPodInfo(version(name, colour, 0), 0.0)
    groups.add(waiting)
    return waiting


def test_pods_without_a_key_are_found_by_every_event_and_each_is_asked_about() -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[1])
    for name in ("a", "b"):
        waits(groups, name, "none")
    waits(groups, "c", "blue")
    assert [list(group.members) for group in groups.find(None, "red")] == [["uid-default-a"], ["uid-default-b"]]


def test_a_pod_that_has_gone_meanwhile_is_not_found() -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[0])
    waits(groups, "a", "none")
    second = waits(groups, "b", "none")
    found = groups.find(None, None)
    assert list(next(found).members) == ["uid-default-a"]
    groups.remove(second)
    assert list(found) == []


def test_another_pod_of_the_group_may_speak_for_it() -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[0])
    first, second = waits(groups, "a", "red"), waits(groups, "b", "red")
    (group,) = groups.find(None, None)
    assert group.apart_from(first.uid) is second
    assert group.apart_from(second.uid) is first
    groups.remove(second)
    assert group.apart_from(first.uid) is None


def test_groups_without_an_index_are_found_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[0])
    waits(groups, "a", "red")
    assert len(list(groups.find(None, "blue"))) == 1
    assert not caplog.records


class Refusing(Keys):
    """An index that fails when it is to learn a key, or to forget one."""

    def __init__(self, refuses: str) -> None:
        super().__init__()
        self._refuses = refuses

    def add(self, key: Hashable) -> None:
        if self._refuses == "add":
            raise RuntimeError("a fault of a plugin")
        super().add(key)

    def remove(self, key: Hashable) -> None:
        raise RuntimeError("a fault of a plugin")


@pytest.mark.parametrize("refuses", ["add", "remove"])
def test_an_index_that_has_missed_a_key_is_asked_no_more(refuses: str, caplog: pytest.LogCaptureFixture) -> None:
    groups = WaitingGroups("Plugin", Grouping(key, lambda: Refusing(refuses)))
    waits(groups, "a", "red")
    waits(groups, "b", "blue")
    groups.remove(waits(groups, "c", "none-such"))
    assert [list(group.members) for group in groups.find(None, None)] == [["uid-default-a"], ["uid-default-b"]]
    assert [record.message for record in caplog.records] == ["a hint index failed and is no longer used"]


def test_of_keys_that_cannot_be_computed_the_first_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    groups = WaitingGroups("Plugin", GROUPINGS[0])
    for name in ("a", "b"):
        waits(groups, name, "broken")
    assert [(record.plugin, record.pod) for record in caplog.records] == [("Plugin", "default/a")]  # type: ignore[attr-defined]
