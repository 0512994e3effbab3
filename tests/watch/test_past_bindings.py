"""Which bindings of a predecessor a replica writes Scheduled Events for."""

from __future__ import annotations

from msgspec import structs

from kscheduler.api.objects import Pod
from kscheduler.client.times import rfc3339
from kscheduler.testing import make_pod
from kscheduler.watch.past_bindings import MAX_PODS, WINDOW_S, PastBindings
from tests.support.clocks import ManualClock


def bound(name: str, *, created_s: float | None = None, static: bool = False) -> Pod:
    pod = make_pod(name).node("n1").obj()
    created = None if created_s is None else rfc3339(created_s)
    annotations = {"kubernetes.io/config.mirror": "hash"} if static else None
    meta = structs.replace(pod.metadata, uid=name, creation_timestamp=created, annotations=annotations)
    return structs.replace(pod, metadata=meta)


def taken(past: PastBindings) -> list[str]:
    return [uid for uid, _, _ in past.take(lambda pod, at: None)]


def test_bindings_that_a_standby_saw_within_the_window_are_kept() -> None:
    clock = ManualClock()
    past = PastBindings(clock)
    past.seen(bound("old"))
    clock.advance(WINDOW_S)
    past.seen(bound("new"))
    clock.advance(1.0)
    assert list(past.take(lambda pod, at: None)) == [("new", bound("new").key, clock.wall() - 1.0)]


def test_a_fresh_replica_takes_pods_that_were_created_within_the_window_and_no_static_ones() -> None:
    clock = ManualClock()
    past = PastBindings(clock)
    now = clock.wall()
    past.found(bound("young", created_s=now - WINDOW_S / 2))
    past.found(bound("old", created_s=now - 2 * WINDOW_S))
    past.found(bound("static", created_s=now, static=True))
    assert taken(past) == ["young"]


def test_deleted_pods_are_forgotten_and_nothing_is_kept_once_this_replica_schedules() -> None:
    past = PastBindings(ManualClock())
    past.seen(bound("a"))
    past.seen(bound("b"))
    past.forget("a")
    assert taken(past) == ["b"]
    past.seen(bound("c"))
    assert len(past._bound) == 0


def test_bindings_of_others_that_come_late_are_handed_on_for_as_long_as_the_window() -> None:
    clock = ManualClock()
    past = PastBindings(clock)
    late: list[tuple[str, float]] = []
    assert list(past.take(lambda pod, at: late.append((pod.metadata.uid, at)))) == []
    past.seen(bound("theirs"))
    past.seen(bound("ours"), assumed_on="n1")
    past.seen(bound("taken from us"), assumed_on="n2")
    past.found(bound("unseen", created_s=clock.wall()))
    now = clock.wall()
    assert late == [("theirs", now), ("taken from us", now), ("unseen", now)]
    clock.advance(WINDOW_S)
    past.seen(bound("too late"))
    assert not past.is_open
    assert len(late) == 3


def test_memory_is_bounded_and_the_newest_are_kept() -> None:
    past = PastBindings(ManualClock())
    pod = bound("p")
    for number in range(MAX_PODS + 10):
        past.seen(structs.replace(pod, metadata=structs.replace(pod.metadata, uid=str(number))))
    uids = taken(past)
    assert (len(uids), uids[0]) == (MAX_PODS, "10")


def test_it_can_be_switched_off() -> None:
    past = PastBindings(ManualClock(), enabled=False)
    past.seen(bound("a"))
    assert taken(past) == []
