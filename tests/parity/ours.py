"""What this program decides in a case, in the oracle's format.

The real cache and framework of each profile run, with the plugins that the registry builds. Score plugins are
wrapped, so that what they say is seen; the last rejection is seen by a PostFilter plugin put in their place.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.decode import convert_object
from kscheduler.api.objects import LabelSelector
from kscheduler.cache.cache import Cache
from kscheduler.config.load import parse_config
from kscheduler.config.releases import release_of
from kscheduler.config.types import Profile, SchedulerConfig
from kscheduler.errors import InternalError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import (
    Handle,
    NormalizeScore,
    Plugin,
    PostFilterResult,
    TableNormalizeScore,
    TableScorePlugin,
)
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision as Placed
from kscheduler.framework.status import STATUS_LABELS, Code
from kscheduler.framework.status import Status as OurStatus
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.case import Case, Object
from tests.parity.detours import fill, read_pod
from tests.parity.detours_devices import inform_about_devices, mislead_about_devices
from tests.parity.detours_volumes import inform, mislead
from tests.parity.oracle import Decision, PluginScores, Status
from tests.parity.ours_devices import NotedClaimWrites, Ticks, allocations_of

BY_TABLE = "table"
BY_NODE = "node"
FORMS = (BY_TABLE, BY_NODE)

# Their per-node score does not know which nodes are feasible, and says so; they are always asked by table.
SCORED_BY_TABLE = frozenset({"PodTopologySpread"})

Heard = dict[str, "HeardScores"]  # plugin -> its scores in this cycle


class HeardScores:
    """One plugin's scores of a cycle: node -> score, before and after normalisation."""

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.raw: dict[str, int] = {}
        self.normalized: dict[str, int] = {}


class World:
    """A cluster with the frameworks of all profiles; `form` says in which form plugins that have both are asked."""

    def __init__(self, case: Case, form: str) -> None:
        self.cache = Cache()
        config = read_config(json.dumps(case.config), case.release, case.more_gates)
        nominations = Nominations()
        for pod in case.cluster.get("nominated", ()):
            nominations.nominate(read_pod(pod, config.release), None)
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(0),
            nominations=nominations,
            devices=Devices(config.release),
            claims=NotedClaimWrites(),
            stopwatch=Ticks(),
            release=config.release,
        )
        self._profiles = {
            profile.scheduler_name: _Profile(profile, config.percentage_of_nodes_to_score, self.handle, form)
            for profile in config.profiles
        }
        fill_around(self.handle, case.cluster)
        detours = random.Random(case.seed)
        mislead(self.handle.volumes, case.cluster, detours)
        mislead_about_devices(self.handle.devices, case.cluster, config.release, detours)
        fill(self.cache, case, self.decide)
        inform(self.handle.volumes, case.cluster, detours)
        inform_about_devices(self.handle.devices, case.cluster, config.release, detours)
        for profile in self._profiles.values():
            profile.framework.algorithm._next_start_row = 0  # the detour has looked at nodes

    def decide(self, document: Object) -> Decision:
        pod = read_pod(document, self.handle.release)
        return self._profiles[pod.pod.spec.scheduler_name].decide(pod, self.cache.table)

    def queue_order(self, documents: Sequence[Object]) -> list[int]:
        """Positions of the pods as they leave the queue; each counts as queued when it was created."""
        framework = next(iter(self._profiles.values())).framework

        def key(position: int) -> tuple[float, ...]:
            pod = read_pod(documents[position])
            created = pod.pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z"
            return framework.sort_key(pod.priority, datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp())

        return sorted(range(len(documents)), key=key)

    def assume(self, document: Object, node_name: str) -> None:
        """Put the pod that was decided about last on the node, with the volumes it was found to get there."""
        pod = read_pod(document, self.handle.release)
        self.cache.assume(pod, node_name)
        self._profiles[pod.pod.spec.scheduler_name].reserve(pod, node_name)


def fill_around(handle: Handle, cluster: Mapping[str, Sequence[Object]]) -> None:
    """What is neither node nor pod nor volume."""
    for namespace in cluster.get("namespaces", ()):
        metadata = namespace["metadata"]
        handle.namespaces.set(metadata["name"], metadata.get("labels", {}))
    _fill_owners(handle, cluster)


def _fill_owners(handle: Handle, cluster: Mapping[str, Sequence[Object]]) -> None:
    owners: Any = getattr(handle, "owners", None)
    if owners is None:
        return
    for service in cluster.get("services", ()):
        metadata = service["metadata"]
        owners.set_service(metadata["namespace"], metadata["name"], service["spec"].get("selector"))
    for kind, list_name in (
        (("v1", "ReplicationController"), "replicationControllers"),
        (("apps/v1", "ReplicaSet"), "replicaSets"),
        (("apps/v1", "StatefulSet"), "statefulSets"),
    ):
        for controller in cluster.get(list_name, ()):
            metadata, selector = controller["metadata"], controller["spec"].get("selector")
            if list_name == "replicationControllers":
                selector = {"matchLabels": selector}
            owners.set_controller(
                kind, metadata["namespace"], metadata["name"], convert_object(selector, LabelSelector)
            )


@functools.lru_cache(maxsize=2)  # both forms have the same
def read_config(text: str, release: str, more_gates: tuple[str, ...] = ()) -> SchedulerConfig:
    return parse_config(text, release=release_of(release).with_gates(dict.fromkeys(more_gates, True)))


class _Profile:
    def __init__(self, profile: Profile, percentage: int, handle: Handle, form: str) -> None:
        if profile.percentage_of_nodes_to_score is not None:
            percentage = profile.percentage_of_nodes_to_score
        self._is_sampled = percentage != 100
        self._heard: Heard = {}
        self._witness = _Witness()
        self._state = CycleState()  # of the last decision
        points = build(profile, handle)
        of_devices = (plugin for plugin, _ in points.get("preFilter", ()) if isinstance(plugin, DynamicResources))
        self._devices = next(of_devices, None)
        points["score"] = [(_listen(p, weight, form, self._heard), weight) for p, weight in points.get("score", ())]
        points["postFilter"] = [(self._witness, 1)]
        if form == BY_NODE:
            points["filter"] = [(_FilterByNode(p), weight) for p, weight in points.get("filter", ())]
        self.framework = Framework(
            profile.scheduler_name,
            points,
            handle,
            observer=Measurements(),
            stopwatch=lambda: 0.0,
            percentage_of_nodes_to_score=percentage,
            first_on_tie=True,
        )

    def decide(self, pod: PodInfo, table: NodeTable) -> Decision:
        self._heard.clear()
        self._witness.statuses = {}
        found = Decision()
        if (gate := self.framework.run_pre_enqueue(pod)) is not None:
            found.pre_enqueue = _reported(gate)
        state = self._state = CycleState()
        outcome = self.framework.schedule_pod(state, pod)
        if isinstance(outcome, Placed):
            found.host, found.evaluated = outcome.node_name, outcome.evaluated
            algorithm = self.framework.algorithm
            found.found = [table.at(row).name for row in algorithm._verdicts.feasible_rows()]
            if self._is_sampled or pod.pod.status.nominated_node_name:  # what is not looked at has no status
                statuses: Mapping[str, OurStatus] = {}
            else:
                statuses = algorithm._node_statuses(state, pod)
        else:
            found.failure = outcome.message
            found.is_fit_error = outcome.status.code is not Code.ERROR
            found.rejected_by = sorted(outcome.diagnosis.unschedulable_plugins)
            found.pending_on = sorted(outcome.diagnosis.pending_plugins)
            statuses = self._witness.statuses
            if outcome.diagnosis.pre_filter_message:
                found.pre_filter = _reported(next(iter(statuses.values())))
                return found
            if not found.is_fit_error:
                return found
        found.statuses = {name: _reported(status) for name, status in statuses.items()}
        found.feasible = [node.name for node in table if node.name not in statuses]
        found.scored = found.found if len(found.found) > 1 else []
        self._tell_scores(found)
        if self._devices is not None and not pod.pod.status.nominated_node_name:
            found.allocations = allocations_of(self._devices, state, pod, found.found)
        return found

    def reserve(self, pod: PodInfo, node_name: str) -> None:
        """Reserve in the last decision's cycle. Raises InternalError, since kube-scheduler's Reserve was content."""
        status = self.framework.run_reserve(self._state, pod, node_name)
        if status is not None:
            raise InternalError(f"Reserve of pod {pod.key} on {node_name}: {status.plugin}: {status.message}")

    def _tell_scores(self, found: Decision) -> None:
        for name, heard in self._heard.items():
            found.scores[name] = PluginScores(
                heard.weight,
                [heard.raw[node] for node in found.scored],
                [heard.normalized[node] for node in found.scored],
            )


def _reported(status: OurStatus) -> Status:
    return Status(STATUS_LABELS[status.code], status.plugin, list(status.reasons))


class _Witness:
    """Sees why no node fits."""

    name = "Witness"

    def __init__(self) -> None:
        self.statuses: Mapping[str, OurStatus] = {}

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, OurStatus]
    ) -> tuple[PostFilterResult | None, OurStatus | None]:
        self.statuses = dict(statuses)
        return None, OurStatus(Code.UNSCHEDULABLE)


class _FilterByNode:
    """A plugin without its table form."""

    def __init__(self, plugin: Any) -> None:
        self.name = plugin.name
        self.filter = plugin.filter


def _listen(plugin: Plugin, weight: int, form: str, heard: Heard) -> Plugin:
    """The plugin in one form, with all its scores overheard."""
    if (form == BY_TABLE or plugin.name in SCORED_BY_TABLE) and isinstance(plugin, TableScorePlugin):
        if isinstance(plugin, TableNormalizeScore):
            return _NormalizedTable(plugin, weight, heard)
        return _ScoredTable(plugin, weight, heard)
    if isinstance(plugin, NormalizeScore):
        return _NormalizedNodes(plugin, weight, heard)
    return _ScoredNodes(plugin, weight, heard)


class _ScoredNodes:
    def __init__(self, plugin: Any, weight: int, heard: Heard) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._weight = weight
        self._all = heard

    @property
    def _heard(self) -> HeardScores:
        return self._all.setdefault(self.name, HeardScores(self._weight))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, OurStatus | None]:
        value, status = self._plugin.score(state, pod, node)
        self._heard.raw[node.name] = self._heard.normalized[node.name] = value
        return value, status


class _NormalizedNodes(_ScoredNodes):
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> OurStatus | None:
        status: OurStatus | None = self._plugin.normalize_score(state, pod, scores)
        self._heard.normalized = dict(scores)
        return status


class _ScoredTable(_ScoredNodes):
    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        self._plugin.score_table(state, pod, table, verdicts, scores)
        self._heard.raw = self._heard.normalized = _read(table, verdicts, scores)


class _NormalizedTable(_ScoredTable):
    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        self._plugin.normalize_table(state, pod, table, verdicts, scores)
        self._heard.normalized = _read(table, verdicts, scores)


def _read(table: NodeTable, verdicts: Verdicts, scores: Scores) -> dict[str, int]:
    return {table.at(row).name: scores.raw(row) for row in verdicts.feasible_rows()}
