"""MetricPolicy: filters and scores nodes by live metrics, according to the policy that applies to a pod.

A cycle never waits for a metric: either values are there, or a rule's fallback decides (see `rules`). What happens to
pods:

- *Waiting.* While no node has a value of a metric, a pod under a rule on it with the fallback Requeue is rejected at
  PreFilter. Rejected pods are tried again when metrics, policies or nodes change. If the policy has a decision
  deadline, a pod is also tried again when it has waited that long since its first rejection; from then on the fallbacks
  Requeue and Exclude act as Neutral for it. If another replica rejected it first, its PodScheduled condition has that
  time.
- *Relaxation.* When no node is feasible, and rules of the policy rejected some, the plugin looks for the first
  relaxation step that would admit one of those. If the pod has waited long enough for that step since its first
  rejection, the step is taken (and those before it), an Event reports it, and the pod is tried again at once; otherwise
  it is tried again when it has waited long enough. In both cases no pod is preempted for it meanwhile. If no step would
  help, preemption goes on.
- *Plan B.* While a metric of the policy has failed too often in a row, pods are decided as if there were no policy
  (Drop), or by the plugins of another profile (Profile): the pod keeps its scheduler name, and its binding and Events
  are written under it.

A pod that names a policy that does not exist waits until it does. A rejection by this plugin cannot be resolved by
preemption: evicting pods would not change what was measured.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler._fast import Scores, Verdicts
from kscheduler.config.metric_policy import PolicySpec
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.interface import Handle, PostFilterResult, PreFilterResult
from kscheduler.framework.node_values import NodeValue
from kscheduler.framework.plugins.metricpolicy.pod_waits import OF_VALUES, PodWaits
from kscheduler.framework.plugins.metricpolicy.rule_set import RuleSet
from kscheduler.framework.plugins.metricpolicy.rule_sets import RuleSets
from kscheduler.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from kscheduler.framework.telemetry import POLICY_KEY, TAS_KEY, PolicyRef
from kscheduler.framework.verdict_statuses import VerdictStatuses
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "MetricPolicy"
_CYCLE = "MetricPolicy/cycle"

# Reasons of Events.
RELAXED = "MetricPolicyRelaxed"
OVERDUE = "MetricPolicyDeadline"


@dataclass(frozen=True, slots=True)
class _Cycle:
    """The policy that applies to a pod in its scheduling cycle, with the compiled rules."""

    policy: PolicyRef
    spec: PolicySpec
    rules: RuleSet
    waits: bool  # PreFilter rejected the pod, since it has to wait for values


class MetricPolicy:
    name = NAME
    comes_before_preemption = True  # at PostFilter, whatever order the profile states

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._telemetry = handle.telemetry
        self._retry = handle.retry
        self._sets = RuleSets(handle.table, handle.telemetry)
        self._waits = PodWaits()

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        self.follow()
        # 1. Which policy, and is it in force?
        try:
            found = self._telemetry.policy_of(pod)
        except LookupError as error:
            return None, unresolvable(_text(error))
        if found is None or found[1].is_in_plan_b(self._telemetry.failures):
            return None, SKIP
        policy, spec = found
        # 2. How far has the pod come in it?
        step, is_overdue = self._progress(pod, policy, spec)
        rules = self._sets.find(policy, spec, step, is_overdue=is_overdue)
        state.write(_CYCLE, _Cycle(policy, spec, rules, bool(rules.awaits)))
        # 3. May it be decided now?
        if rules.awaits:
            self._let_wait(pod, policy, spec)
            self._telemetry.count("requeue", policy)
            return None, unresolvable(f"no node had a {OF_VALUES}{rules.awaits}")
        return None, None if rules.rules.filters else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        rules = state.read(_CYCLE, _Cycle).rules
        mark = rules.mark_of(node)
        return rules.status(mark - 1) if mark else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        state.read(_CYCLE, _Cycle).rules.kernel.filter(verdicts, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return state.read(_CYCLE, _Cycle).rules.status(detail)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands | None:
        return None if state.read(_CYCLE, _Cycle).rules.rules.filters_by_load else NODE_ALONE

    # --- when nothing fits ---

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Return SUCCESS without a nomination if waiting may help the pod, so that preemption does not run for it."""
        cycle = state.get(_CYCLE, _Cycle)
        if cycle is None:
            return None, unschedulable()
        if cycle.waits:
            return None, Status(Code.SUCCESS)
        rows = self._rows_of_ours(statuses) if _may_change(cycle.spec) else []
        self._sign_again(pod)
        if not rows:
            return None, unschedulable()
        may_help = self._relax(pod, cycle, rows)
        may_help = self._await_deadline(pod, cycle, rows) or may_help
        return None, Status(Code.SUCCESS) if may_help else unschedulable()

    def _rows_of_ours(self, statuses: Mapping[str, Status]) -> list[int]:
        """Return the rows of the nodes that this plugin rejected."""
        if isinstance(statuses, VerdictStatuses):  # a look at every node takes as long as all the rest
            nodes = statuses.nodes_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            return [node.row for node in nodes if statuses[node.name].plugin == NAME]
        rows = (self._table.row_of(name) for name, status in statuses.items() if status.plugin == NAME)
        return [row for row in rows if row is not None]

    def _relax(self, pod: PodInfo, cycle: _Cycle, rows: Sequence[int]) -> bool:
        """Take the next relaxation step that would admit one of the rows (nodes), or have the pod wait until it is due.

        Returns False if no step would.
        """
        wait, now = self._waits.begin(pod.uid, cycle.policy, self._telemetry.now()), self._telemetry.now()
        for step in range(wait.step + 1, len(cycle.spec.relaxation) + 1):
            if not self._would_help(cycle, rows, step, is_overdue=wait.is_overdue):
                continue
            due = wait.since + cycle.spec.relaxation[step - 1].after.seconds
            if now < due:
                self._retry(pod, due - now)
                return True
            wait.step = step
            self._telemetry.count(f"relaxed:{step}", cycle.policy)
            self._telemetry.record_event(pod, RELAXED, f"Metric policy {cycle.policy}: relaxation step {step} is taken")
            self._retry(pod, 0.0)
            return True
        return False

    def _await_deadline(self, pod: PodInfo, cycle: _Cycle, rows: Sequence[int]) -> bool:
        """Return True if the pod would fit on one of the rows once its decision deadline is over, and wait for that."""
        wait = self._waits.begin(pod.uid, cycle.policy, self._telemetry.now())
        if wait.is_overdue or not cycle.spec.decision_deadline.seconds:
            return False
        if not self._would_help(cycle, rows, wait.step, is_overdue=True):
            return False
        self._let_wait(pod, cycle.policy, cycle.spec)
        return True

    def _would_help(self, cycle: _Cycle, rows: Sequence[int], step: int, *, is_overdue: bool) -> bool:
        kernel = self._sets.find(cycle.policy, cycle.spec, step, is_overdue=is_overdue).kernel
        return any(kernel.mark(row) == 0 for row in rows)

    def _let_wait(self, pod: PodInfo, policy: PolicyRef, spec: PolicySpec) -> None:
        """Record the rejection, and have the pod tried again at its decision deadline, if the policy has one."""
        now = self._telemetry.now()
        wait = self._waits.begin(pod.uid, policy, now)
        deadline_s = spec.decision_deadline.seconds
        self._sign_again(pod)
        if deadline_s and not wait.is_overdue:
            self._retry(pod, max(wait.since + deadline_s - now, 0.0))

    def _progress(self, pod: PodInfo, policy: PolicyRef, spec: PolicySpec) -> tuple[int, bool]:
        """Return how many relaxation steps the pod has taken, and whether its decision deadline is over."""
        wait = self._waits.recall(pod, policy, self._telemetry)
        if wait is None:
            return 0, False
        deadline_s = spec.decision_deadline.seconds
        if deadline_s and not wait.is_overdue and self._telemetry.now() >= wait.since + deadline_s:
            wait.is_overdue = True
            self._sign_again(pod)
            self._telemetry.count("deadline", policy)
            note = f"Metric policy {policy}: waited for metrics for {spec.decision_deadline}, goes without now"
            self._telemetry.record_event(pod, OVERDUE, note)
        return min(wait.step, len(spec.relaxation)), wait.is_overdue

    def _sign_again(self, pod: PodInfo) -> None:
        """Drop the pod's signature: from now on it may be decided differently from pods with equal specs."""
        pod.signature = None

    def _is_apart(self, pod: PodInfo) -> bool:
        """Return True if the pod is decided differently from pods with equal specs: relaxed, or past its deadline."""
        if self._waits.is_apart(pod.uid):
            return True
        if pod.uid not in self._waits and not pod.pod.status.conditions:  # it was never rejected
            return False
        found = self._policy_in_force(pod)
        if found is None or not found[1].decision_deadline.seconds:
            return False
        wait = self._waits.recall(pod, found[0], self._telemetry)
        return wait is not None and self._telemetry.now() >= wait.since + found[1].decision_deadline.seconds

    def _policy_in_force(self, pod: PodInfo) -> tuple[PolicyRef, PolicySpec] | None:
        """Return the pod's policy; None if it names none, or one that does not exist."""
        try:
            return self._telemetry.policy_of(pod)
        except LookupError:
            return None

    # --- plan B ---

    def hand_over(self, pod: PodInfo) -> str:
        found = self._policy_in_force(pod)
        plan = None if found is None else found[1].plan_b
        if found is None or plan is None or plan.action != "Profile":
            return ""
        return plan.profile if found[1].is_in_plan_b(self._telemetry.failures) else ""

    # --- score ---

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        cycle = state.get(_CYCLE, _Cycle)
        return SKIP if cycle is None or not cycle.rules.rules.goals else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return state.read(_CYCLE, _Cycle).rules.points_of(node), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        state.read(_CYCLE, _Cycle).rules.kernel.score(verdicts, scores)

    # --- for people ---

    def values_of(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[NodeValue]:
        cycle = state.get(_CYCLE, _Cycle)
        return [] if cycle is None else cycle.rules.values_of(node, self._telemetry.sample_of)

    # --- the compiled lane ---

    def follow(self) -> int:
        return self._sets.follow()

    def look_beyond(self, pod: PodInfo) -> bytes:
        """Return what else the pod's signature depends on: annotations, and the pod's progress in its policy."""
        if self._is_apart(pod):
            return pod.uid.encode()
        annotations = pod.pod.metadata.annotations
        return (annotations.get(POLICY_KEY) or "").encode() if annotations else b""

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """Return the properties that determine the pod's policy; None once the pod has made progress in it."""
        if self._is_apart(pod):
            return None
        meta = pod.pod.metadata
        labels, annotations = meta.labels or {}, meta.annotations or {}
        return meta.namespace, labels.get(POLICY_KEY), annotations.get(POLICY_KEY), labels.get(TAS_KEY)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.METRICS)
        try:
            found = self._telemetry.policy_of(pod)
        except LookupError:
            return False
        if found is None:
            return True
        policy, spec = found
        if spec.is_in_plan_b(self._telemetry.failures):
            return spec.plan_b is None or spec.plan_b.action != "Profile"
        rules = self._sets.known(policy, spec)
        if rules is None or rules.awaits:
            return False
        draft.follow_rules(rules.kernel, filters=rules.rules.filters, scores=bool(rules.rules.goals))
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (
            ClusterEvent("metrics", Action.UPDATE),
            ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
            ClusterEvent(EventResource.POD, Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN),
        )


def _may_change(policy: PolicySpec) -> bool:
    """Return True if the policy may judge a waiting pod differently later, even on equal values."""
    return bool(policy.relaxation) or policy.decision_deadline.seconds > 0


def _text(error: LookupError) -> str:
    return str(error.args[0]) if error.args else str(error)
