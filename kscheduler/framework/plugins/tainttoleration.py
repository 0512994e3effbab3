"""TaintToleration: NoSchedule and NoExecute taints keep pods off; PreferNoSchedule taints are avoided.

Score: the number of PreferNoSchedule taints a pod does not tolerate, normalised so that none is 100.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Scores, Verdicts, filter_profiles, normalize, score_profiles
from kscheduler.api.objects import Toleration
from kscheduler.api.tolerations import count_intolerable_prefer_no_schedule, find_untolerated
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.interface import Handle
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.profiles import NodeProfile

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"  # 1.36 no longer names the taint
KEEP_OFF = ("NoSchedule", "NoExecute")


class TaintToleration:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._verdicts = handle.table.profiles.verdict_memo()
        self._counts = handle.table.profiles.value_memo()

    # --- filter ---

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable(REASON) if _is_kept_off(node.profile, _tolerations(pod)) else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        tolerations = _tolerations(pod)
        by_profile = self._verdicts.answers(tolerations, lambda profile: int(_is_kept_off(profile, tolerations)))
        filter_profiles(table.columns, verdicts, by_profile, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    # --- score ---

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return count_intolerable_prefer_no_schedule(node.profile.taints, _tolerations(pod)), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        default_normalize(scores, reverse=True)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        tolerations = _tolerations(pod)
        by_profile = self._counts.answers(
            tolerations, lambda profile: count_intolerable_prefer_no_schedule(profile.taints, tolerations)
        )
        score_profiles(table.columns, verdicts, scores, by_profile)

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, True)

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (
            ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
            ClusterEvent(EventResource.POD, Action.UPDATE_POD_TOLERATION),
        )


def _tolerations(pod: PodInfo) -> tuple[Toleration, ...]:
    return tuple(pod.pod.spec.tolerations or ())


def _is_kept_off(profile: NodeProfile, tolerations: tuple[Toleration, ...]) -> bool:
    return find_untolerated(profile.taints, tolerations, KEEP_OFF) is not None
