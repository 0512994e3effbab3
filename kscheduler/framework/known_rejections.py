"""Rejections that hold for all equal pods as long as nothing changes in the cluster.

Thousands of pods of a Deployment may fit nowhere. In an unchanged cluster the plugins answer the same for each of them,
so the search is made once for all pods that are equal in what plugins read. Each of them is rejected by itself all the
same, with its message, metrics, Event and condition. Any change of a node, of a pod on a node, of the nominated pods,
or of anything else that the plugins' answers depend on ends that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from kscheduler._fast import Histogram, NodeColumns
from kscheduler.framework.algorithm import Algorithm
from kscheduler.framework.class_compiler import Evaluations
from kscheduler.framework.compiled_classes import CompiledClasses
from kscheduler.framework.interface import FollowingPlugin, Handle, LimitingPlugin, RepeatingPlugin
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.observability.instruments import Counter
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

MOST = 4_096  # rejections that are known at a time


@dataclass(slots=True, eq=False)
class _Metrics:
    """What the search observes for each rejected pod of a profile, beside the evaluations of plugins."""

    algorithm: Algorithm
    points: tuple[Histogram, ...]  # of extension points
    batch_attempts: Counter
    node_hints: Histogram


@dataclass(slots=True, eq=False)
class _Known:
    rejection: Rejection
    repeats: tuple[Callable[[PodInfo], bool], ...]  # of the PostFilter plugins
    evaluations: Evaluations
    metrics: _Metrics


class KnownRejections:
    """The rejections that hold in the present state of the cluster, by all that decided them in a pod."""

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        classes: CompiledClasses,
        handle: Handle,
        observer: Measurements,
        stopwatch: Callable[[], float],
    ) -> None:
        self._profiles = profiles
        self._classes = classes
        self._columns: NodeColumns = handle.table.columns
        self._nominations = handle.nominations
        self._observer = observer
        self._stopwatch = stopwatch
        self.known: dict[Hashable, _Known] = {}  # by what decides about a pod; changed in this class only
        self._state = (-1, -1)  # of the cluster, in which they hold
        self._repeating = _find_repeating(profiles)
        self._metrics: dict[str, _Metrics] = {}  # by profile
        handle.nominations.watch(self._nominated)

    def _nominated(self, node_name: str) -> None:
        """Drop everything: other pods are nominated to the node, or no more, and pods yield to them."""
        self.known.clear()

    def forget(self) -> None:
        """Drop everything: one of the plugins was replaced."""
        self.known.clear()
        self._repeating = _find_repeating(self._profiles)

    def find(self, pod: PodInfo) -> Rejection | None:
        """Return what a search for the pod would find now, and report its metrics as that would; None if it is unknown.

        All of its effects have taken place then: the pod must be rejected.
        """
        if not self.known or pod.uid in self._nominations.by_pod or pod.pod.status.nominated_node_name:
            return None
        try:
            return self._find(pod)
        except MemoryError:
            raise
        except Exception:
            self._give_up()
            return None

    def keep(self, pod: PodInfo, rejection: Rejection) -> None:
        """Remember what a search that has just ended found, if it would find the same for equal pods."""
        framework = self._profiles.get(pod.pod.spec.scheduler_name)
        if framework is None or framework.profile not in self._repeating:
            return
        # Other pods, equal to a nominated one, would have to yield to it, and are not first tried on its node.
        if pod.uid in self._nominations.by_pod or pod.pod.status.nominated_node_name:
            return
        if not _is_of_nodes(rejection) or pod.pod.spec.resource_claims:
            return
        try:
            self._keep(framework, pod, rejection)
        except MemoryError:
            raise
        except Exception:
            self._give_up()

    def _give_up(self) -> None:
        """Know nothing from now on: a bug of ours must cost speed, but no decisions."""
        log.exception("known rejections failed; from now on a search is made for each pod that fits nowhere")
        self.known.clear()
        self._repeating = {}

    def _find(self, pod: PodInfo) -> Rejection | None:
        started = self._stopwatch()
        if self._is_outdated():
            return None
        if pod.signature is None:
            self._classes.sign(pod)
        known = self.known.get(_key(pod))
        if known is None:
            return None
        for repeats in known.repeats:
            if not repeats(pod):
                return None
        self._report(known, started)
        return known.rejection

    def _keep(self, framework: Framework, pod: PodInfo, rejection: Rejection) -> None:
        if self._reads_claims(pod, framework):
            return
        self._classes.refresh()
        found = self._classes.find(pod)
        if found is None or found.asks or self._classes.only_row >= 0:
            return
        repeats = []
        for plugin in self._repeating[framework.profile]:
            how = plugin.repetition(pod)
            if how is None:
                return
            repeats.append(how)
        if self._is_outdated() or len(self.known) >= MOST:
            self.known.clear()
        self.known[_key(pod)] = _Known(
            rejection, tuple(repeats), found.evaluations, self._metrics_of(framework, bool(repeats))
        )

    def _is_outdated(self) -> bool:
        """Return True, and drop everything, if something has changed."""
        self._classes.refresh()
        state = (self._classes.epoch, self._columns.generation)
        if state == self._state:
            return False
        self._state = state
        self.known.clear()
        return True

    def _reads_claims(self, pod: PodInfo, framework: Framework) -> bool:
        """Return True if claims decide about the pod, which signatures leave out."""
        plugin = framework.class_compiler.claiming
        return plugin is not None and bool(pod.resources.total.scalars) and plugin.concerns(pod)

    def _metrics_of(self, framework: Framework, has_post_filter: bool) -> _Metrics:
        """Return what pods of this profile observe: what a search does that comes behind a vain attempt of kernels."""
        profile = framework.profile
        known = self._metrics.get(profile)
        if known is None:
            observer = self._observer
            points = [("PreFilter", "Success"), ("Filter", "Success")]
            if has_post_filter:
                points.append(("PostFilter", "Unschedulable"))
            known = self._metrics[profile] = _Metrics(
                framework.algorithm,
                tuple(observer.points[point, status, profile] for point, status in points),
                observer.batch_attempts[profile, "no_hint"],
                observer.node_hints["no_hint", profile],
            )
        return known

    def _report(self, known: _Known, started: float) -> None:
        metrics, seconds = known.metrics, self._stopwatch() - started
        known.evaluations.count(1, 0)
        for point in metrics.points:
            point.observe(seconds)
        metrics.batch_attempts.value += 1
        metrics.node_hints.observe(seconds)
        self._observer.algorithm_durations.observe(seconds)
        metrics.algorithm.pass_over(1)


def _key(pod: PodInfo) -> Hashable:
    """Return what decides whether a pod is rejected and whom it may evict: equal pods are rejected equally."""
    return pod.signature, pod.priority, pod.pod.spec.preemption_policy


def _is_of_nodes(rejection: Rejection) -> bool:
    """Return True if each node rejected the pod, and nobody is to be evicted or awaited for it."""
    diagnosis = rejection.diagnosis
    return (
        rejection.status.is_rejected
        and not rejection.nomination
        and bool(diagnosis.reasons)
        and not diagnosis.pre_filter_message
        and not diagnosis.pending_plugins
    )


def _find_repeating(profiles: Mapping[str, Framework]) -> dict[str, list[RepeatingPlugin]]:
    """Return the profiles whose rejections may be known, with their PostFilter plugins.

    Rejections do not follow from nodes and pods alone where plugins limit what may be placed, follow something else, or
    hand pods over to other profiles.
    """
    found: dict[str, list[RepeatingPlugin]] = {}
    for name, framework in profiles.items():
        plugins = framework.class_compiler.plugins
        if plugins is None or framework.hands_over:
            continue
        if any(isinstance(plugin, (LimitingPlugin, FollowingPlugin)) for plugin in plugins):
            continue
        made = [framework.plugin(each) for each in framework.post_filters]
        repeating = [plugin for plugin in made if isinstance(plugin, RepeatingPlugin)]
        if len(repeating) == len(made):
            found[name] = repeating
    return found
