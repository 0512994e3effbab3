"""The oracle of decisions about pods, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.parity.case import Case
from tests.parity.oracle_process import OracleProcess


class Status(msgspec.Struct, rename="camel", omit_defaults=True):
    code: str = "Success"
    plugin: str = ""
    reasons: list[str] | None = None

    def key(self) -> tuple[str, tuple[str, ...]]:
        """What has to agree; the order of reasons may vary from run to run."""
        return self.code, tuple(sorted(self.reasons or ()))


class PluginScores(msgspec.Struct, rename="camel"):
    """One plugin's scores, by node."""

    weight: int
    raw: list[int]
    normalized: list[int]


class Allocated(msgspec.Struct, rename="camel"):
    """What DynamicResources would allocate to a pod on a node, as JSON."""

    results: list[dict[str, Any]] | None = None  # an allocation for each claim without one
    requests: list[dict[str, Any]] = []  # of the claim for extended resources
    mappings: list[dict[str, Any]] = []  # which containers use which of these


class Decision(msgspec.Struct, rename="camel", kw_only=True):
    """What was decided about a pod, and why; `raw` and the like run parallel to `scored`."""

    pre_enqueue: Status | None = None
    pre_filter: Status | None = None
    filter_skipped: list[str] = []  # plugins whose PreFilter left them out
    statuses: dict[str, Status] = {}  # node -> why not; nodes that fit are absent
    feasible: list[str] = []  # of all nodes
    scored: list[str] = []  # of the feasible nodes those in the sample, if more than one
    scores: dict[str, PluginScores] = {}  # plugin -> scores; empty if no nodes are scored
    totals: list[int] | None = None
    allocations: dict[str, Allocated] = {}  # node -> what the pod's claims would get; where that is anything
    host: str = ""
    evaluated: int = 0  # nodes looked at, if there is a host
    found: list[str] = []  # nodes found to fit, in the order they were found in
    failure: str = ""
    is_fit_error: bool = False
    rejected_by: list[str] | None = None
    pending_on: list[str] | None = None
    search_fault: str = ""


class WeighedPlugin(msgspec.Struct):
    name: str
    weight: int


class Happened(msgspec.Struct, rename="camel"):
    """An event that a change led to, and whom it woke."""

    event: str
    woken: dict[str, list[int]]  # plugin -> positions of the pending pods that woke, had it rejected them
    faults: dict[str, list[int]] = {}  # plugin -> positions of the pending pods for which its hint failed


class Tried(msgspec.Struct, rename="camel"):
    """A dry run of preemption on one node."""

    node: str
    rejector: str = ""  # the plugin that had turned it down
    victims: list[str] = []  # uids, the most important first
    violations: int = 0
    status: Status | None = None  # why making room does not help; None if it does


class Preempted(msgspec.Struct, rename="camel", kw_only=True):
    """Whom a pending pod would preempt, or why nobody."""

    host: str = ""  # the node that the pod fits; then no other field is set
    failure: str = ""  # the text its user reads, with what PostFilter says
    fault: str = ""  # why the search broke off; then PostFilter is not asked
    promising: int = 0  # nodes where pods could make room by leaving
    wanted: int = 0  # candidates to look for
    tried: list[Tried] = []  # in the order they were tried in
    candidates: list[str] = []  # nodes, as they were put to the choice
    chosen: str = ""
    equals: list[str] = []  # all that might be chosen
    ended: list[str] = []  # uids of the victims in the order they are ended in
    cleared: list[str] = []  # names of pods whose nomination is taken back
    deallocated: list[str] = []  # claims, as namespace/name, that are to be allocated again
    deleted: list[str] = []  # likewise, for extended resources
    taken_back: list[str] = []  # all claims of which any one might be deallocated or deleted
    code: str = ""  # of PostFilter
    message: str = ""
    nomination: str | None = None  # what becomes of the pod's; None leaves it as it is


class Member(msgspec.Struct, rename="camel"):
    """What became of a pod of a group: it has a node, or a reason why it has none."""

    host: str = ""
    failure: str = ""
    is_rejected: bool = False  # False with a failure: a fault
    code: str = ""
    nomination: str | None = None  # what becomes of the pod's; None leaves it as it is


class GroupCondition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    reason: str
    message: str
    observed_generation: int = 0


class WrittenClaim(msgspec.Struct, rename="camel"):
    """What PreBind writes to a claim."""

    allocation: dict[str, Any]  # as JSON
    reserved_for: list[str] | None = None  # uids, some more than once


class ClaimWrites(msgspec.Struct, rename="camel"):
    """What is written to claims while a group is decided and bound; claims are namespace/name."""

    written: dict[str, WrittenClaim] = {}
    deallocated: list[str] | None = None  # as often as it is written
    released: list[str] | None = None  # the claim, and the uid that it is not reserved for any more


class Ganged(msgspec.Struct, rename="camel", kw_only=True):
    """What became of the pending pods of one group in one attempt."""

    is_tried: bool = False  # False: the group is held back, and has no other result
    pods: dict[str, Member] = {}  # by name; one that is terminating is absent
    taken: dict[str, str] | None = None  # pod -> the node that it had meanwhile, or has
    again: dict[str, str] | None = None  # pod -> the node that it had once others had been given back
    # The same by placements: pod -> nodes, for the attempt and, if there was one, for the trial without victims.
    tried: list[dict[str, list[str]]] | None = None
    order: list[str] | None = None  # names in the order in which they were first tried, where that is by chance
    failed: list[str] | None = None  # names in the order in which they were reported
    ended: list[str] | None = None  # uids of the pods that are evicted for the group, in that order
    condition: GroupCondition | None = None
    conditions: dict[str, GroupCondition] | None = None  # of a composite group, by the name of the PodGroup
    claims: ClaimWrites | None = None


class Answer(msgspec.Struct, rename="camel", kw_only=True):
    error: str = ""
    node_order: list[str] | None = None
    plugins: dict[str, list[WeighedPlugin]] | None = None  # "profile/point" -> plugins in order
    queue_order: list[int] | None = None  # positions of the pending pods, as they leave the queue
    pods: list[Decision] | None = None
    changes: list[list[Happened]] | None = None  # of a case of hints: for each change the events it led to
    preempted: list[Preempted] | None = None  # of a case of preemption: for each pending pod
    gang: Ganged | None = None  # of a case of a group


class Oracle(OracleProcess[Case, Answer]):
    """`binary` is the built command `oracle` of the control plane's Go module; `gates`: more that are on."""

    def __init__(self, binary: Path, gates: Sequence[str] = ()) -> None:
        super().__init__(
            binary, Answer, [f"--feature-gates={','.join(f'{each}=true' for each in gates)}"] if gates else ()
        )
