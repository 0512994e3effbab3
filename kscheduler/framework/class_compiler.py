"""Asks one profile's plugins how they filter and score pods, for the compiled lane, in which kernels decide pods.

The answers are collected in a draft, i.e. a pod class under construction.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.interface import ClaimingPlugin, CompilingPlugin, Plugin
from kscheduler.framework.search_plugins import SearchPlugins
from kscheduler.framework.signatures import split
from kscheduler.observability.instruments import Counter
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluations:
    """The counters of plugin evaluations (a metric) that are incremented for each pod that kernels decide.

    They are those that calling the plugins one by one would increment, for pods of one class (equal to all plugins).
    """

    profile: str
    always: tuple[Counter, ...]
    if_scored: tuple[Counter, ...]  # for pods with more than one feasible node

    def count(self, pods: int, scored: int) -> None:
        for counter in self.always:
            counter.value += pods  # without a call
        if scored:
            for counter in self.if_scored:
                counter.value += scored


class ClassCompiler:
    """Asks a profile's plugins how they decide about a pod, and collects their answers in a draft of its pod class.

    A pod class has the pods that all plugins decide equally. `plugins` is None if one of the profile's plugins cannot
    state for kernels how it decides: then the general lane decides all of its pods, plugin by plugin.
    """

    def __init__(
        self,
        profile: str,
        table: NodeTable,
        observer: Measurements,
        plugins: SearchPlugins,
    ) -> None:
        self._profile = profile
        self._table = table
        points = plugins.by_point
        self._at = {point: [plugin.name for plugin in there] for point, there in points.items()}
        self._counters = plugins.evaluations(observer, profile)
        self._weights = {plugin.name: weight for plugin, weight in plugins.scores}
        distinct = {plugin.name: plugin for there in points.values() for plugin in there}
        takes_part = all(_takes_part(plugin, self._at) for plugin in distinct.values())
        self.plugins = [cast(CompilingPlugin, plugin) for plugin in distinct.values()] if takes_part else None
        # The plugin that decides about pods with claims by their claims, if there is one.
        self.claiming = next((each for each in points["Filter"] if isinstance(each, ClaimingPlugin)), None)
        self._by_spec, self._others = split(self.plugins or ())
        self._evaluations: dict[tuple[str, ...], Evaluations] = {}  # plugins with work at Filter and Score -> counters

    def compile_spec(self, pod: PodInfo) -> tuple[ClassDraft, bool]:
        """Begin a draft, i.e. a pod class under construction: ask the plugins that read only the pod's spec.

        Returns the draft, and False if one of these plugins cannot state for kernels how it decides.
        """
        draft = ClassDraft(self._table.columns, len(self._table.node_classes))
        return draft, self.plugins is not None and self._ask(self._by_spec, draft, pod)

    def compile_rest(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Ask the plugins that read more than the pod's spec, for the same draft.

        Returns False if one cannot answer.
        """
        return self._ask(self._others, draft, pod)

    def compile_claims(self, draft: ClassDraft, key: Hashable) -> None:
        """Have the plugin for claims state for the same draft how it decides; `key` is what it has returned."""
        plugin = self.claiming
        if plugin is not None:
            draft.begin(plugin.name, filters=plugin.name in self._at["Filter"], weight=self._weights.get(plugin.name))
            plugin.compile_claims(draft, key)
            draft.ends_run = True

    def _ask(self, plugins: Sequence[CompilingPlugin], draft: ClassDraft, pod: PodInfo) -> bool:
        for plugin in plugins:
            draft.begin(plugin.name, filters=plugin.name in self._at["Filter"], weight=self._weights.get(plugin.name))
            try:
                if not plugin.compile_class(draft, pod):
                    return False
            except Exception as error:
                draft.has_failed = True
                log.error(
                    "plugin could not compile a class of pods",
                    extra={"pod": pod.key, "plugin": plugin.name, "err": repr(error)},
                )
                return False
        return True

    def evaluations(self, draft: ClassDraft) -> Evaluations:
        """Return the counters of plugin evaluations (a metric) that each pod of this draft's class increments.

        A plugin with nothing to do for these pods is skipped, and increments none.
        """
        key = (*draft.filtering, "/", *draft.scoring)
        found = self._evaluations.get(key)
        if found is None:
            found = self._evaluations[key] = self._evaluations_of(draft)
        return found

    def _evaluations_of(self, draft: ClassDraft) -> Evaluations:
        at, filtering, scoring = self._at, draft.filtering, draft.scoring
        always = [(n, "PreFilter") for n in at["PreFilter"] if n in filtering or n not in at["Filter"]]
        always += [(n, "Filter") for n in at["Filter"] if n in filtering or n not in at["PreFilter"]]
        if_scored = [(n, "PreScore") for n in at["PreScore"] if n in scoring or n not in at["Score"]]
        if_scored += [(n, "Score") for n in at["Score"] if n in scoring or n not in at["PreScore"]]
        counters = self._counters
        return Evaluations(
            self._profile, tuple(counters[key] for key in always), tuple(counters[key] for key in if_scored)
        )


def _takes_part(plugin: Plugin, at: dict[str, list[str]]) -> bool:
    """Return True if kernels can decide in place of this plugin.

    It must be a CompilingPlugin. Of PreFilter and Filter, the profile must enable it at both or neither, if it has both
    methods; and so for PreScore and Score.
    """
    if not isinstance(plugin, CompilingPlugin):
        return False
    for first, second, methods in (
        ("PreFilter", "Filter", ("pre_filter", "filter")),
        ("PreScore", "Score", ("pre_score", "score")),
    ):
        if all(hasattr(plugin, method) for method in methods) and (plugin.name in at[first]) != (
            plugin.name in at[second]
        ):
            return False
    return True
