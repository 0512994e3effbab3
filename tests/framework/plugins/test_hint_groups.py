"""The groups and indexes of every plugin's hints wake whom the hints alone would wake."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kscheduler.config.load import parse_config
from kscheduler.framework.events import ClusterEvent, Registration
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import Pool
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.detours import read_pod
from tests.parity.generate_hints import HintCase, generate_hints
from tests.parity.hint_samples import read
from tests.parity.ours import BY_TABLE, World

Registered = Mapping[str, Sequence[ClusterEvent | Registration]]


@pytest.mark.parametrize("seed", range(6))
def test_pods_in_groups_wake_as_each_by_itself(seed: int) -> None:
    case = generate_hints(1_000 + seed)
    framework = framework_of(case)
    registered = framework.events_by_plugin()
    ungrouped = {
        plugin: [
            replace(registration, grouping=None) if isinstance(registration, Registration) else registration
            for registration in registrations
        ]
        for plugin, registrations in registered.items()
    }
    pods = [read_pod(pod) for pod in case.pending]
    for plugin in registered:
        fast, plain = filled(framework, registered, pods, plugin), filled(framework, ungrouped, pods, plugin)
        rng = random.Random(seed)
        for change in case.changes:
            if change.own is None:
                old, new, events = read(change)
                for event in events:
                    assert waking(fast, event, old, new) == waking(plain, event, old, new), (plugin, event, change)
            if rng.random() < 0.3:  # pods come and go between events
                for queue in (fast, plain):
                    fill(queue, pods, plugin)


def framework_of(case: HintCase) -> Framework:
    handle = World(case, BY_TABLE).handle
    profile = parse_config(json.dumps(case.config)).profiles[0]
    return Framework(
        profile.scheduler_name, build(profile, handle), handle, observer=Measurements(), stopwatch=lambda: 0.0
    )


def filled(framework: Framework, registered: Registered, pods: Sequence[PodInfo], plugin: str) -> SchedulingQueue:
    queue = SchedulingQueue(
        lambda queued: framework.sort_key(queued.pod_info.priority, queued.timestamp),
        lambda pod: None,
        registered={ANY_PROFILE: registered},
    )
    fill(queue, pods, plugin)
    return queue


def fill(queue: SchedulingQueue, pods: Sequence[PodInfo], plugin: str) -> None:
    """Let the plugin reject all pods that do not wait."""
    for pod in pods:
        queue.add(pod, 0.0)
    while (queued := queue.pop(0.0)) is not None:
        queue.add_unschedulable_if_not_present(queued, 0.0, {plugin})


def waking(queue: SchedulingQueue, event: ClusterEvent, old: object, new: object) -> set[str]:
    queue.move_all_to_active_or_backoff(event, old, new, 0.0)
    queue.flush(0.0)
    queue.check()
    return {queued.uid for queued in queue.pending_pods() if queued.pool is not Pool.UNSCHEDULABLE}
