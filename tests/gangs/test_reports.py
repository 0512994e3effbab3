"""Each change of how a gang stands is one Event; what is known of gangs that are gone is dropped."""

from __future__ import annotations

from typing import Any, cast

from kscheduler.api.pod_groups import COSCHEDULING_GROUP
from kscheduler.client.protocol import Regarding
from kscheduler.client.recorder import EventRecorder
from kscheduler.client.write_permission import WritePermission
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reports import KEPT, GangReports
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.observability.measurements import Measurements
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.support.clocks import ManualClock


class Events:
    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, regarding: Regarding, **fields: Any) -> None:
        assert (regarding.kind, regarding.api_version) == ("PodGroup", "scheduling.x-k8s.io/v1alpha1")
        self.recorded.append((fields["type"], fields["reason"], fields["note"]))


def made(registry: Registry, events: Events) -> GangReports:
    return GangReports(
        registry,
        cast(EventRecorder, events),
        None,
        Measurements(),
        WritePermission(),
        ManualClock(),
        {COSCHEDULING_GROUP: "scheduling.x-k8s.io/v1alpha1"},
    )


def test_an_attempt_that_ends_as_the_one_before_is_no_event() -> None:
    registry, events = Registry(DOORS, WHOLE), Events()
    reports = made(registry, events)
    registry.set_gang(gang("train", 1))
    registry.set_member(pod("a", "train").pod, Stage.QUEUED)
    for text in ("no room", "no room", "no CPU"):
        reports.tried(key_of("train"), Outcome.REJECTED, text, 0.001)
    registry.move("uid-default-a", Stage.ASSUMED)
    reports.tried(key_of("train"), Outcome.PLACED, "", 0.001)
    assert events.recorded == [
        ("Warning", "Unschedulable", "no room"),
        ("Warning", "Unschedulable", "no CPU"),
        ("Normal", "Scheduled", "1 pod of gang default/train has a node, of at least 1"),
    ]


def test_gangs_are_counted_by_state() -> None:
    registry = Registry(DOORS, WHOLE)
    reports = made(registry, Events())
    for name, stages in {
        "incomplete": (Stage.QUEUED,),
        "waiting": (Stage.QUEUED, Stage.QUEUED),
        "placed": (Stage.BOUND, Stage.ASSUMED),
        "broken": (Stage.BOUND, Stage.QUEUED),
    }.items():
        registry.set_gang(gang(name, 2))
        for number, stage in enumerate(stages):
            registry.set_member(pod(f"{name}-{number}", name).pod, stage)
    assert reports.states() == {"incomplete": 1, "waiting": 1, "placed": 1, "broken": 1}


def test_attempts_of_gangs_that_are_gone_are_not_kept_for_ever() -> None:
    registry = Registry(DOORS, WHOLE)
    reports = made(registry, Events())
    for number in range(3 * KEPT):
        registry.set_gang(gang(f"g{number}", 1))
        reports.tried(key_of(f"g{number}"), Outcome.REJECTED, "no room", 0.001)
        registry.remove_gang(key_of(f"g{number}"))
    assert len(reports.latest) <= KEPT + 2


def test_the_latest_attempt_is_known_until_the_gang_is_gone() -> None:
    registry = Registry(DOORS, WHOLE)
    reports = made(registry, Events())
    key = key_of("train")
    reports.forget(key)
    registry.set_gang(gang("train", 1))
    reports.tried(key, Outcome.REJECTED, "no room", 0.001)
    reports.forget(key)
    assert reports.latest[key].text == "no room", "its gang is tracked"
    registry.remove_gang(key)
    reports.forget(key)
    assert reports.latest == {}
