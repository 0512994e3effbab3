"""VolumeBinding: places a pod where its volumes are or can be, and chooses and binds volumes for its unbound claims.

The node must have access to bound volumes. Unbound claims of classes with WaitForFirstConsumer get an existing volume
that is accessible from the node, or one that can be provisioned for it; that choice is assumed at Reserve, and at
PreBind it is written and waited for. All other unbound claims keep the pod waiting. With the feature gate
StorageCapacityScoring it also scores: see `scoring`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kscheduler._fast import FEASIBLE, Verdicts, filter_node_classes
from kscheduler.errors import APIError, DecodeError, InternalError
from kscheduler.framework.claim_hints import BY_CLAIMS, after_claim
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.csi_migration import NotTranslatable
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.faults import CycleFault, running
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.plugins.volumebinding import hints
from kscheduler.framework.plugins.volumebinding.accessible_nodes import AccessibleNodesMemo
from kscheduler.framework.plugins.volumebinding.assumption import Assumption, assume
from kscheduler.framework.plugins.volumebinding.claims import find_claims, has_claims
from kscheduler.framework.plugins.volumebinding.obstacles import NODE_CONFLICT, status_of
from kscheduler.framework.plugins.volumebinding.provisioning import Offers
from kscheduler.framework.plugins.volumebinding.question import Question
from kscheduler.framework.plugins.volumebinding.volume_index import VolumeIndex
from kscheduler.framework.plugins.volumebinding.writing import NotBound, Progress, write
from kscheduler.framework.status import SKIP, Status, error_status
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.topology import NO_DOMAIN

NAME = "VolumeBinding"
DEFAULT_BIND_TIMEOUT_S = 600.0
WORTH_A_LOOK = 64  # node classes or nodes: fewer are asked in the time it takes to look for the nodes with a label
QUESTION = "VolumeBinding/question"
_ASSUMED = "VolumeBinding/assumed"


class VolumeBinding:
    """VolumeBinding. After its writes, it waits `bind_timeout_s` seconds for the volume controller and provisioners."""

    name = NAME
    signs_metadata = False
    concerned_by = ("uses_storage", "pod.spec.volumes")

    def __init__(self, handle: Handle, bind_timeout_s: float = DEFAULT_BIND_TIMEOUT_S) -> None:
        self._handle = handle
        self._volumes = handle.volumes
        self._bind_timeout_s = bind_timeout_s
        self._memo = AccessibleNodesMemo()
        self._volume_index = VolumeIndex(handle.volumes, self._memo)
        self._offers = Offers(handle.volumes)
        self._verdicts = handle.table.node_classes.verdict_memo()

    # --- filter ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        if not self.concerns(pod):
            return None, SKIP
        claims = find_claims(pod.pod, self._volumes)
        if isinstance(claims, Status):
            return None, claims
        try:
            question = Question(claims, self._volumes, self._memo, self._volume_index, self._offers)
        except DecodeError as error:
            return None, error_status(str(error), error)
        state.write(QUESTION, question)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        try:
            obstacles = state.read(QUESTION, Question).obstacles(node.labels, node.name)
        except NotTranslatable as error:
            return error_status(str(error), error)
        return status_of(obstacles) if obstacles else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        try:
            self._filter_table(state.read(QUESTION, Question), table, verdicts, code)
        except NotTranslatable as error:
            raise CycleFault(running("Filter", self, error_status(str(error), error))) from error

    def _filter_table(self, question: Question, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        # 1. Bound volumes that few nodes can access: reject all others, and judge those few.
        few = _accessible_rows(question, table)
        if few is not None:
            verdicts.keep_only(few, code, NODE_CONFLICT)
            _judge_one_by_one(question, table, verdicts, few, code)
            return
        # 2. Nodes with an answer of their own: where a volume is of one host, or is made already.
        hosts = question.single_nodes
        if hosts is None:
            _judge_one_by_one(question, table, verdicts, verdicts.feasible_rows(), code)
            return
        started = started_rows(question, table)
        single = {*rows_with(table, HOSTNAME, hosts), *started}
        in_doubt = {*rows_with(table, HOSTNAME, hosts.difference(question.sure_hosts)), *started}
        # 3. All others answer as their node class does.
        by_node_class = self._by_node_class(question, table)
        if single:
            _put_out_others(table, verdicts, by_node_class, single, code)
            _judge_one_by_one(question, table, verdicts, in_doubt, code)
        else:
            filter_node_classes(table.columns, verdicts, by_node_class, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return status_of(detail)

    def _by_node_class(self, question: Question, table: NodeTable) -> bytearray:
        """Return why nodes are rejected, by node class (nodes with equal labels and taints): id -> bit flags.

        0 if they are not rejected.
        """
        key = question.key
        if key is None:
            return bytearray(question.obstacles(node_class.labels, "") for node_class in table.node_classes.since(0))
        return self._verdicts.answers(key, lambda node_class: question.obstacles(node_class.labels, ""))

    # --- reserve ---

    def concerns(self, pod: PodInfo) -> bool:
        return pod.uses_storage and has_claims(pod.pod)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        question = state.get(QUESTION, Question)
        if question is None or not question.claims.delayed:
            return None
        node = self._handle.table.get(node_name)
        if node is None:
            return error_status(f'node "{node_name}" not found')
        try:
            plan = question.plan(node.labels, node_name)
            if plan.obstacles:
                return status_of(plan.obstacles)
            assumed = assume(self._volumes, plan.bindings, plan.provisions, node_name)
        except (InternalError, NotTranslatable) as error:
            return error_status(str(error))
        state.write(_ASSUMED, assumed)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        assumed = state.get(_ASSUMED, Assumption)
        if assumed is not None:
            assumed.take_back(self._volumes)

    # --- bind ---

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return SKIP if state.get(_ASSUMED, Assumption) is None else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        assumed = state.get(_ASSUMED, Assumption)
        if assumed is None:
            return None
        try:
            await write(self._handle, assumed)
        except APIError as error:
            # Not as the status's error: that is read as the answer to binding the pod.
            return error_status(error.explanation)
        try:
            await Progress(self._handle, self._memo, pod, node_name, assumed).finish(self._bind_timeout_s)
        except NotBound as error:
            return error_status(f"binding volumes: {error}")
        return None

    # --- the compiled lane: for pods without such volumes ---

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if has_claims(pod.pod) else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        comes = Action.ADD | Action.UPDATE
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, comes)
        driver = ClusterEvent(EventResource.CSI_DRIVER, Action.UPDATE)
        return (
            Registration(ClusterEvent(EventResource.STORAGE_CLASS, comes), hints.after_storage_class, ONE_GROUP),
            Registration(claim, after_claim, BY_CLAIMS),
            Registration(ClusterEvent(EventResource.PERSISTENT_VOLUME, comes)),
            Registration(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(EventResource.CSI_NODE, comes), hints.after_csi_node, ONE_GROUP),
            Registration(driver, hints.after_csi_driver, hints.BY_DRIVERS),
            Registration(ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, comes), hints.after_capacity, ONE_GROUP),
        )


# --- judging ----------------------------------------------------------------------------------------------------


def _judge_one_by_one(
    question: Question, table: NodeTable, verdicts: Verdicts, rows: Collection[int], code: int
) -> None:
    for row in rows:
        if verdicts.code(row) != FEASIBLE:
            continue
        node = table.at(row)
        obstacles = question.obstacles(node.labels, node.name)
        if obstacles:
            verdicts.reject(row, code, obstacles)


def _accessible_rows(question: Question, table: NodeTable) -> list[int] | None:
    """Return the only rows (nodes) that may fit, if they are few.

    None if it is cheaper to judge each node class, i.e. all nodes with equal labels and taints at once.
    """
    need = question.narrowest
    if need is None:
        return None
    label, values = need
    if label != HOSTNAME and len(table.node_classes) <= WORTH_A_LOOK:
        return None
    rows = rows_with(table, label, values)
    return rows if label == HOSTNAME or len(rows) <= WORTH_A_LOOK else None


def started_rows(question: Question, table: NodeTable) -> list[int]:
    return [row for name in question.started_nodes if (row := table.row_of(name)) is not None]


def rows_with(table: NodeTable, label: str, values: Collection[str]) -> list[int]:
    """Return the rows whose nodes have the label with one of these values, in ascending order."""
    if not values:
        return []
    column = table.topology.column(label)
    wanted = {column.id_of(value) for value in values} - {NO_DOMAIN}
    if not wanted:
        return []
    if len(wanted) == 1 and column.ids.count(domain := min(wanted)) == 1:  # a host, as a rule
        return [column.ids.index(domain)]
    return [row for row, domain in enumerate(column.ids) if domain in wanted]


def _put_out_others(
    table: NodeTable, verdicts: Verdicts, by_node_class: bytearray, single: Collection[int], code: int
) -> None:
    """Reject rows (nodes) by the result for their node class (equal labels and taints), except the rows in `single`."""
    if by_node_class.count(by_node_class[0]) == len(by_node_class):  # all node classes have one answer
        if by_node_class[0]:
            verdicts.keep_only(sorted(single), code, by_node_class[0])
        return
    for row in verdicts.feasible_rows():
        if row not in single and (obstacles := by_node_class[table.at(row).node_class.id]):
            verdicts.reject(row, code, obstacles)
