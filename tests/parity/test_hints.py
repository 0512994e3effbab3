"""Whom an event wakes: the real kube-scheduler's queue and ours, with the same pods rejected by the same plugin.

KSCHEDULER_PARITY_HINTS says how many cases are tried (some 5,000 answers each), KSCHEDULER_SEED from
which seed on. Ours may wake more pods where DIFFERENCES.md says so, and fewer in three cases it names: a node affinity
term that cannot be read, on which kube-scheduler's hint fails; a namespace selector, which its hints judge as if no
namespace had labels; and requests that wrap around when it compares their thousandths.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable

import pytest

from kscheduler.api.quantity import MAX_INT64
from kscheduler.api.resources import Resources, pod_resources
from kscheduler.framework.events import ClusterEvent, pod_events
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import Pool
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.case import Object
from tests.parity.detours import read_pod
from tests.parity.generate_dra_hints import generate_dra_hints
from tests.parity.generate_hints import Change, HintCase, generate_hints
from tests.parity.hint_samples import read
from tests.parity.oracle import Happened, Oracle
from tests.parity.ours import BY_TABLE, World, read_config
from tests.support.releases import cases_with
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_PARITY_HINTS", 40)
FIXED_SEEDS = range(10)
ENOUGH = 2_000  # answers of a run

# What DIFFERENCES.md says of each: we look at more of what may help.
WAKES_MORE = frozenset({"InterPodAffinity", "NodeAffinity", "NodeResourcesFit"})
# A driver that no longer tracks its capacity: kube-scheduler's hint looks at inline volumes, which have no claims.
WAKES_MORE_AFTER = frozenset({("VolumeBinding", "storage.k8s.io/CSIDriverUpdate")})
# Of a pod whose requests wrap around in kube-scheduler's comparison: a scale-down, or an update without a name.
NO_CERTAIN_EVENT = ("UpdatePodScaleDown", "PodUpdate")


def test_events_wake_the_same_pods_on_fixed_seeds(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("hints")])


@pytest.mark.search
def test_events_wake_the_same_pods_on_searched_seeds(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    answers = compare(oracle, release, seeds)
    assert answers["asked"] >= ENOUGH or len(seeds) < 10
    assert answers["woken"] > answers["asked"] // 100


def test_events_of_devices_wake_the_same_pods_on_fixed_seeds(oracle: Oracle, release: str) -> None:
    compare(oracle, release, [*cases_with(release, FIXED_SEEDS), *kept_seeds("dra hints")], generate_dra_hints)


@pytest.mark.search
def test_events_of_devices_wake_the_same_pods_on_searched_seeds(oracle: Oracle, release: str) -> None:
    seeds = cases_with(release, SEEDS)
    answers = compare(oracle, release, seeds, generate_dra_hints)
    assert answers["asked"] >= ENOUGH or len(seeds) < 10
    assert answers["woken"] > answers["asked"] // 100


def compare(
    oracle: Oracle,
    release: str,
    seeds: Iterable[int],
    generate: Callable[[int, str], HintCase] = generate_hints,
) -> Counter[str]:
    """Tells how many answers were compared, and how many pods woke."""
    counted: Counter[str] = Counter()
    for seed in seeds:
        case = generate(seed, release)
        ours = OurQueue(case)
        case.rejectors = ours.plugins
        theirs = oracle.ask(case).changes or []
        assert len(theirs) == len(case.changes)
        for change, expected in zip(case.changes, theirs, strict=True):
            found = ours.happen(change)
            if different := differences(case, change, expected, found):
                pytest.fail(f"seed {seed}:\n{different}\n{change}\n{case}", pytrace=False)
            for event in expected:
                counted["asked"] += len(case.rejectors) * (len(case.pending) if change.own is None else 1)
                counted["woken"] += sum(map(len, event.woken.values()))
    return counted


def differences(case: HintCase, change: Change, expected: list[Happened], found: list[Happened]) -> str:
    # A node that is uncordoned and loses a taint at once makes two events of one kind there, which are one here.
    expected = list({each.event: each for each in expected}.values())
    if _wraps_around(case, change):
        if change.own is not None:
            return ""  # its events are one answer
        expected = [each for each in expected if not each.event.endswith(NO_CERTAIN_EVENT)]
        found = [each for each in found if not each.event.endswith(NO_CERTAIN_EVENT)]
    if [each.event for each in expected] != [each.event for each in found]:
        return f"events: expected {[each.event for each in expected]}, got {[each.event for each in found]}"
    lines = []
    for theirs, ours in zip(expected, found, strict=True):
        for plugin in case.rejectors:
            wanted, woken = set(theirs.woken.get(plugin, ())), set(ours.woken.get(plugin, ()))
            if plugin == "NodeAffinity":
                wanted -= set(theirs.faults.get(plugin, ())) - woken
            elif plugin == "InterPodAffinity":
                wanted = {position for position in wanted if not _selects_namespaces(case.pending[position], change)}
            may_wake_more = plugin in WAKES_MORE or (plugin, theirs.event) in WAKES_MORE_AFTER
            if wanted - woken or (woken - wanted and not may_wake_more):
                pods = [case.pending[position] for position in sorted(wanted ^ woken)]
                lines.append(
                    f"{theirs.event}, {plugin}: expected {sorted(wanted)} to wake, got {sorted(woken)} "
                    f"(hints failed for {theirs.faults.get(plugin, [])}): {pods[0]}"
                )
    return "\n".join(lines[:3])


def _wraps_around(case: HintCase, change: Change) -> bool:
    """Whether a pod asks for more than 64 bits hold in thousandths: kube-scheduler may see a scale-down or not."""
    if change.kind != "Pod":
        return False
    old = change.old if change.own is None else case.pending[change.own]
    for each in (old, change.new):
        asked = pod_resources(read_pod(each).pod).total if each is not None else Resources()
        amounts = (asked.memory, asked.ephemeral_storage, *asked.scalars.values())
        if asked.cpu_milli >= MAX_INT64 or any(amount * 1000 > MAX_INT64 for amount in amounts):
            return True
    return False


def _selects_namespaces(waiting: Object, change: Change) -> bool:
    """Is there a namespace selector that matches namespaces for a label they lack?"""
    selectors = json.dumps([each["spec"].get("affinity") for each in (waiting, change.old, change.new) if each])
    return "namespaceSelector" in selectors and ("NotIn" in selectors or "DoesNotExist" in selectors)


class OurQueue:
    """This program's queue, with the plugins of the case's profile."""

    def __init__(self, case: HintCase) -> None:
        handle = World(case, BY_TABLE).handle
        self._release = handle.release
        profile = read_config(json.dumps(case.config), case.release).profiles[0]
        framework = Framework(
            profile.scheduler_name, build(profile, handle), handle, observer=Measurements(), stopwatch=lambda: 0.0
        )
        registered = framework.events_by_plugin()
        self.plugins = sorted(registered)
        self._pods = [read_pod(pod, handle.release) for pod in case.pending]
        self._queue = SchedulingQueue(
            lambda queued: framework.sort_key(queued.pod_info.priority, queued.timestamp),
            framework.run_pre_enqueue,
            registered={profile.scheduler_name: registered},
            release=handle.release,
        )

    def happen(self, change: Change) -> list[Happened]:
        if change.own is not None:
            assert change.new is not None
            return [self._update(change.own, read_pod(change.new, self._release))]
        old, new, events = read(change, self._release)
        return [
            Happened(event.label, {plugin: self._woken(plugin, event, old, new) for plugin in self.plugins})
            for event in events
        ]

    def _woken(self, plugin: str, event: ClusterEvent, old: object, new: object) -> list[int]:
        for pod in self._pods:
            self._reject(pod, plugin)
        self._queue.move_all_to_active_or_backoff(event, old, new, 0.0)
        return self._take_woken(self._pods)

    def _update(self, position: int, new: PodInfo) -> Happened:
        pod = self._pods[position]
        woken = {}
        for plugin in self.plugins:
            self._reject(pod, plugin)
            self._queue.update(pod.pod, new, 0.0)
            woken[plugin] = [position] if self._take_woken([new]) else []
        return Happened(" ".join(event.label for event in pod_events(pod.pod, new.pod, self._release)), woken)

    def _reject(self, pod: PodInfo, plugin: str) -> None:
        self._queue.add(pod, 0.0)
        queued = self._queue.get(pod.uid)
        if queued is not None and queued.pool is Pool.GATED:
            return  # its claims are not there
        queued = self._queue.pop(0.0)
        assert queued is not None
        assert queued.pod_info is pod
        self._queue.add_unschedulable_if_not_present(queued, 0.0, {plugin})

    def _take_woken(self, pods: Collection[PodInfo]) -> list[int]:
        self._queue.flush(0.0)  # also what was left undone
        self._queue.check()
        woken = []
        for position, pod in enumerate(pods):
            queued = self._queue.get(pod.uid)
            assert queued is not None
            if queued.pool not in (Pool.UNSCHEDULABLE, Pool.GATED):
                woken.append(position)
            self._queue.delete(pod.uid)
        return woken
