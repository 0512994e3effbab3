"""Computes the report of a simulation, as values that the text and the JSON form show; the page shows the JSON.

Everything but `machine` is a function of scenario, settings and scheduler: the same seed gives the same report, byte
for byte. Shares are fractions of one. Times are virtual seconds since the first arrival unless their name says
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec

from kscheduler import __version__
from kscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from kscheduler.counted import counted
from kscheduler.simulator.accounting import Accounting, Moment, PodRecord
from kscheduler.simulator.fragmentation import contended, fragmentation, frequent_shapes
from kscheduler.simulator.gang_book import GangRuns
from kscheduler.simulator.pod_claims import PodClaims, awaited_claim
from kscheduler.simulator.report_history import (
    Flow,
    NodeHistory,
    Placements,
    Preempted,
    flow,
    node_history,
    placements,
    preempted_pods,
    requests,
)
from kscheduler.simulator.report_load import RealLoadReport, real_load_report
from kscheduler.simulator.run import Ending, Outcome, unscheduled_condition
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.statistics import deviation, distribution, mean, percentile, rounded

T = TypeVar("T")

EXAMPLES = 3  # pods that the report names for each reason
_UNITS = {CPU: "cores", MEMORY: "bytes", EPHEMERAL_STORAGE: "bytes", PODS: "pods"}
# The end is what PostFilter plugins say: DynamicResources of its claims, then preemption.
_FIT_ERROR = re.compile(
    r"0/\d+ nodes are available: (?P<reasons>.+?)\."
    r"(?: (?:[A-Za-z ]+, )?preemption: .*| no new claims to deallocate| still not schedulable"
    r"| de(?:allocation|letion) of ResourceClaim completed)?",
    re.DOTALL,
)
_PART = re.compile(r"(?P<count>\d+) (?P<reason>.+)", re.DOTALL)
_PER_UNIT = {CPU: 1000}  # cpu is counted in thousandths


class Machine(msgspec.Struct, frozen=True):
    """The real time, CPU and memory that the simulation took on this machine; these figures differ from run to run."""

    wall_s: float
    cpu_s: float
    decisions_per_s: float  # scheduling attempts per second of real time
    placed_per_s: float
    cpu_us_per_placed_pod: float
    virtual_days_per_s: float
    peak_memory_mib: float
    python: str


class PodCounts(msgspec.Struct, frozen=True):
    total: int
    existing: int  # created with a node
    placed: int  # placed by a scheduler
    unplaced: int  # still waiting at the end
    left_unplaced: int  # deleted before they got a node
    finished: int  # had a node, and were gone by the end
    running: int  # on a node at the end


class Unplaced(msgspec.Struct, frozen=True):
    pod: str
    priority: int
    arrived_s: float
    left_s: float | None
    reason: str
    message: str
    requests: dict[str, float] = {}  # resource -> amount, cpu in cores
    queue: str | None = None  # with shares, "" for none; None if such queues are not kept


class Reason(msgspec.Struct, frozen=True):
    kind: str  # the message without its counts
    reason: str  # the PodScheduled condition's reason, such as Unschedulable
    pods: int
    still_waiting: int
    examples: list[str]  # namespace/name of some of the pods
    sample: str  # the complete message of the first pod


class Latency(msgspec.Struct, frozen=True):
    """Statistics of the time from a pod's creation to its binding."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float
    distribution: list[tuple[float, float]]  # (seconds, share of pods bound within them), rising


class PriorityFigures(msgspec.Struct, frozen=True):
    priority: int
    pods: int
    placed: int
    unplaced: int
    left_unplaced: int
    p50_s: float
    p99_s: float


class Balance(msgspec.Struct, frozen=True):
    """Statistics of one resource's utilisation over the nodes that have it: 0 is unused, 1 is full."""

    mean: float
    deviation: float
    variation: float  # deviation / mean, 0 when nothing is used
    max: float


class ResourceFigures(msgspec.Struct, frozen=True):
    name: str
    unit: str
    capacity: float  # at the end
    average: float  # used / capacity, over time
    peak: float
    final: float
    balance_final: Balance
    balance_busiest: Balance
    balance_average: Balance
    fragmentation_final: float | None
    fragmentation_busiest: float | None


class NodeCounts(msgspec.Struct, frozen=True):
    total: int
    empty_at_end: int
    empty_when_busiest: int
    never_used: int


class Series(msgspec.Struct, frozen=True):
    """Samples for plots over time: each value holds from its time until the next one's."""

    time_s: list[float]
    pending: list[int]
    running: list[int]
    used: dict[str, list[float]]  # resource -> used / capacity


class NodeUtilisation(msgspec.Struct, frozen=True):
    """The utilisation of each node, at the end, when the cluster was busiest, and on average.

    Nodes are in the order of `names`, resources in the order of `resources`; None for a node without the resource.
    """

    names: list[str]
    resources: list[str]
    final: list[list[float | None]]  # resource -> node -> share
    busiest: list[list[float | None]]
    average: list[list[float | None]]
    pods_final: list[int]
    pods_busiest: list[int]


class DecisionsOfPod(msgspec.Struct, frozen=True):
    """The latest decisions about a pod, newest first, as `kscheduler explain --output json` has them.

    Their times are virtual seconds since the first arrival.
    """

    pod: str  # namespace/name
    decisions: list[dict[str, Any]]


class Decisions(msgspec.Struct, frozen=True):
    """The decisions about a sample of the pods, in the order of each pod's latest one."""

    pods: list[DecisionsOfPod]
    left_out: int  # decisions dropped to bound memory
    # The nodes of each large domain to which a search for a gang's pod was confined, that `confinedToDomain` of a
    # decision stands for: its own list of them is cut.
    domains: list[list[str]] = []


class Report(msgspec.Struct, frozen=True):
    version: str
    parameters: dict[str, str]
    notes: list[str]
    ending: str
    complete: bool
    simulated_s: float
    busiest_s: float
    violations: list[str]
    pods: PodCounts
    attempts: dict[str, int]
    events: dict[str, int]
    placed_per_virtual_s: float
    peak_pending: int
    latency: Latency
    priorities: list[PriorityFigures]
    resources: list[ResourceFigures]
    nodes: NodeCounts
    reasons: list[Reason]
    unplaced: list[Unplaced]
    series: Series
    node_utilisation: NodeUtilisation
    machine: Machine | None = None
    real_load: RealLoadReport | None = None  # None unless pods or nodes declare what they really use
    flow: Flow | None = None
    node_history: NodeHistory | None = None  # None without nodes
    placements: Placements | None = None  # None if there are too many
    preempted: list[Preempted] = []
    decisions: Decisions | None = None  # None unless asked for
    claims: PodClaims | None = None  # None without claims for devices
    gangs: GangRuns | None = None  # None without pods of gangs


def build_report(
    scenario: Scenario,
    outcome: Outcome,
    parameters: dict[str, str],
    machine: Machine | None = None,
    *,
    with_histories: bool = True,
) -> Report:
    """Compute the report of one simulation. `parameters`: the command's arguments, which the report shows.

    `with_histories`: with what is shown of single pods and nodes and over time, which takes longer than all figures.
    """
    books = outcome.accounting
    start_s = books.start_s or 0.0
    records = list(books.records.values())
    unplaced = _unplaced(outcome, start_s)
    last = books.moment()
    busiest = books.busiest() or last
    groups = _by_priority(records)
    shares = _shares(books, last, busiest)
    preempted = preempted_pods(books, start_s) if with_histories else []
    return Report(
        version=__version__,
        parameters={**scenario.parameters, **parameters},
        notes=[*scenario.notes, *_left_behind(books)],
        ending=outcome.ending.value,
        complete=outcome.ending is not Ending.TIME_LIMIT,
        simulated_s=rounded(books.duration_s),
        busiest_s=rounded(max(0.0, busiest.at_s - start_s)),
        violations=outcome.violations,
        pods=_sum([group.counts for group in groups]),
        attempts=outcome.attempts,
        events=outcome.events,
        placed_per_virtual_s=rounded(books.bound / books.duration_s) if books.duration_s else 0.0,
        peak_pending=books.peak_pending,
        latency=_latency(groups),
        priorities=[_priority(group) for group in groups],
        resources=_resources(books, records, shares, last, busiest),
        nodes=_node_counts(books, last, busiest),
        reasons=_reasons(unplaced),
        unplaced=unplaced,
        series=_series(books, start_s) if with_histories else Series([], [], [], {}),
        node_utilisation=_node_utilisation(books, shares if with_histories else {}, last, busiest),
        machine=machine,
        real_load=None if outcome.load is None else real_load_report(outcome.load, start_s),
        flow=flow(books, start_s, preempted) if with_histories else None,
        node_history=node_history(books, outcome.cluster.nodes, _shown(books), start_s) if with_histories else None,
        placements=placements(books, start_s) if with_histories else None,
        preempted=preempted,
        claims=outcome.claims,
        gangs=outcome.gangs,
    )


def _left_behind(books: Accounting) -> list[str]:
    """Return what is to be known of pods whose nodes went, if there were any."""
    if not books.left_behind:
        return []
    pods = counted(books.left_behind, "pod was on a node", "pods were on nodes")
    return [
        f"{pods} that went away meanwhile; until they leave, they count as running, and use nothing of other nodes."
    ]


def to_compact_json(report: Report) -> bytes:
    """Return the report as JSON without white space, as the HTML page holds it."""
    return msgspec.json.encode(report)


def to_json(report: Report) -> bytes:
    """Return the report as indented JSON, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


# --- pods ---------------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """The pods of one priority."""

    priority: int
    counts: PodCounts
    latencies: list[float]  # of those that a scheduler placed, to the microsecond, sorted


def _by_priority(records: Iterable[PodRecord]) -> list[_Group]:
    """Return the groups of all priorities, highest first."""
    groups: dict[int, list[PodRecord]] = {}
    for record in records:
        groups.setdefault(record.priority, []).append(record)
    return [_Group(priority, *_outcomes(group)) for priority, group in sorted(groups.items(), reverse=True)]


def _outcomes(records: Sequence[PodRecord]) -> tuple[PodCounts, list[float]]:
    existing = finished = running = unplaced = left_unplaced = 0
    latencies: list[float] = []
    for record in records:
        existing += record.existing
        if record.bound_s is None:
            unplaced += record.left_s is None
            left_unplaced += record.left_s is not None
            continue
        finished += record.left_s is not None
        running += record.left_s is None
        if not record.existing:
            latencies.append(round(record.bound_s - record.created_s, 6))
    placed = finished + running - existing
    return PodCounts(len(records), existing, placed, unplaced, left_unplaced, finished, running), sorted(latencies)


def _sum(counts: Sequence[PodCounts]) -> PodCounts:
    columns = zip(*map(msgspec.structs.astuple, counts), strict=True)
    return PodCounts(*map(sum, columns)) if counts else PodCounts(0, 0, 0, 0, 0, 0, 0)


def _unplaced(outcome: Outcome, start_s: float) -> list[Unplaced]:
    found = []
    for record in outcome.accounting.records.values():
        if record.bound_s is not None:
            continue
        reason, message = _why(outcome, record)
        left_s = None if record.left_s is None else rounded(record.left_s - start_s)
        arrived_s = rounded(record.created_s - start_s)
        asked = requests(record.demand.amounts)
        queue = outcome.queue_of(record.last_seen)
        found.append(Unplaced(record.key, record.priority, arrived_s, left_s, reason, message, asked, queue))
    return found


def _why(outcome: Outcome, record: PodRecord) -> tuple[str, str]:
    """Return (reason, message) for a pod without a node, from its PodScheduled condition or else from its situation."""
    pod = record.last_seen if record.left_s is not None else outcome.cluster.pods.get(record.key, record.last_seen)
    condition = unscheduled_condition(pod)
    if condition is not None:
        return condition.reason, condition.message
    if pod.spec.scheduler_name not in outcome.scheduler_names:
        return "OtherScheduler", f'schedulerName "{pod.spec.scheduler_name}" is no profile of this scheduler'
    if record.left_s is not None:
        return "LeftEarly", "left again before the scheduler had tried it"
    awaited = awaited_claim(outcome.cluster, pod)
    if awaited:
        return "WaitsForClaim", awaited
    if record.uid in outcome.held_back:
        return "HeldBack", f'held back by PreEnqueue plugin "{outcome.held_back[record.uid]}"'
    if outcome.ending is Ending.TIME_LIMIT:
        return "NotTried", "the simulation ended before the scheduler had tried it"
    return "Unknown", "no reason was given"


def _reasons(unplaced: Iterable[Unplaced]) -> list[Reason]:
    groups: dict[tuple[str, str], list[Unplaced]] = {}
    for pod in unplaced:
        groups.setdefault((pod.reason, kind_of(pod.message)), []).append(pod)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        Reason(
            kind=kind,
            reason=reason,
            pods=len(pods),
            still_waiting=sum(pod.left_s is None for pod in pods),
            examples=[pod.pod for pod in pods[:EXAMPLES]],
            sample=pods[0].message,
        )
        for (reason, kind), pods in ordered
    ]


def kind_of(message: str) -> str:
    """Return a message without its counts, by which pods that are rejected for the same reasons are grouped.

    "0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint(s)." becomes
    "Insufficient cpu; node(s) had untolerated taint(s)", with the parts sorted. Other messages are returned unchanged.
    """
    found = _FIT_ERROR.fullmatch(message)
    if found is None:
        return message
    parts = [_PART.fullmatch(part) for part in found["reasons"].split(", ")]
    reasons = sorted({part["reason"] for part in parts if part is not None})
    return "; ".join(reasons) if all(parts) else message


def _latency(groups: Iterable[_Group]) -> Latency:
    ordered = sorted(chain.from_iterable(group.latencies for group in groups))
    p50, p90, p95, p99 = (rounded(percentile(ordered, share)) for share in (0.5, 0.9, 0.95, 0.99))
    return Latency(
        count=len(ordered),
        mean_s=rounded(mean(ordered)),
        p50_s=p50,
        p90_s=p90,
        p95_s=p95,
        p99_s=p99,
        max_s=rounded(ordered[-1]) if ordered else 0.0,
        distribution=[(rounded(seconds), share) for seconds, share in distribution(ordered)],
    )


def _priority(group: _Group) -> PriorityFigures:
    counts = group.counts
    return PriorityFigures(
        priority=group.priority,
        pods=counts.total,
        placed=counts.placed + counts.existing,
        unplaced=counts.unplaced,
        left_unplaced=counts.left_unplaced,
        p50_s=rounded(percentile(group.latencies, 0.5)),
        p99_s=rounded(percentile(group.latencies, 0.99)),
    )


# --- resources and nodes ------------------------------------------------------------------------------------------


def _shown(books: Accounting) -> list[str]:
    """Return the resources to report: those of which some node has any. CPU and memory come first, "pods" last."""
    usual = [CPU, MEMORY]
    have = [name for name, capacity in zip(books.resources, books.capacity, strict=True) if capacity]
    others = sorted(name for name in have if name not in (*usual, PODS))
    return [name for name in usual if name in have] + others + [name for name in (PODS,) if name in have]


class _Shares(NamedTuple):
    """The utilisation of one resource by node row; None for nodes that are gone or have none of it."""

    final: list[float | None]
    busiest: list[float | None]
    average: list[float | None]  # over the time from the first arrival to the end


def _shares(books: Accounting, last: Moment, busiest: Moment) -> dict[str, _Shares]:
    """Return the shares of the resources that are shown."""
    duration_s = books.duration_s
    found = {}
    for name in _shown(books):
        at = books.resources.index(name)
        capacities = [row.capacity[at] for row in books.rows]
        final, when_busiest = (_shares_of([used[at] for used in each.used], capacities) for each in (last, busiest))
        average = final
        if duration_s:
            areas = [row.use.integrals[at] / duration_s for row in books.rows]
            average = _shares_of(areas, capacities)
        found[name] = _Shares(final, when_busiest, average)
    return found


def _shares_of(used: Sequence[float], capacities: Sequence[int]) -> list[float | None]:
    """Return shares with five decimals: a hundredth of a per mille, and a page of 5,000 nodes stays small."""
    return [
        round(amount / capacity, 5) if capacity else None for amount, capacity in zip(used, capacities, strict=True)
    ]


def _resources(
    books: Accounting, records: Sequence[PodRecord], shares: Mapping[str, _Shares], last: Moment, busiest: Moment
) -> list[ResourceFigures]:
    found = []
    for name, of_nodes in shares.items():
        at = books.resources.index(name)
        capacity, integral = books.capacity[at], books.capacity_integral[at]
        final = books.use.amounts[at] / capacity
        fragments: list[float | None] = [None, None]
        if name in contended(books.resources):
            shapes = frequent_shapes(records, name)
            found_at = [fragmentation(name, shapes, books.resources, books.rows, moment) for moment in (last, busiest)]
            fragments = [None if value is None else rounded(value) for value in found_at]
        found.append(
            ResourceFigures(
                name=name,
                unit=_UNITS.get(name, "units"),
                capacity=capacity / _PER_UNIT.get(name, 1),
                average=rounded(books.use.integrals[at] / integral) if integral else rounded(final),
                peak=rounded(books.peak[at]),
                final=rounded(final),
                balance_final=_balance(of_nodes.final),
                balance_busiest=_balance(of_nodes.busiest),
                balance_average=_balance(of_nodes.average),
                fragmentation_final=fragments[0],
                fragmentation_busiest=fragments[1],
            )
        )
    return found


def _balance(shares: Iterable[float | None]) -> Balance:
    values = [share for share in shares if share is not None]
    middle, spread = mean(values), deviation(values)
    return Balance(
        mean=rounded(middle),
        deviation=rounded(spread),
        variation=rounded(spread / middle) if middle else 0.0,
        max=max(values, default=0.0),
    )


def _node_counts(books: Accounting, last: Moment, busiest: Moment) -> NodeCounts:
    here = [index for index, row in enumerate(books.rows) if not row.gone]
    return NodeCounts(
        total=len(here),
        empty_at_end=sum(not last.pods[index] for index in here),
        empty_when_busiest=sum(not busiest.pods[index] for index in here if index < len(busiest.pods)),
        never_used=sum(not books.rows[index].ever_used for index in here),
    )


def _node_utilisation(
    books: Accounting, shares: Mapping[str, _Shares], last: Moment, busiest: Moment
) -> NodeUtilisation:
    """Return the utilisation of every node that exists at the end, in order of creation."""
    here = [index for index, row in enumerate(books.rows) if not row.gone]

    def only_here(values: Sequence[T]) -> list[T]:
        return [values[index] for index in here]

    return NodeUtilisation(
        names=[books.rows[index].name for index in here],
        resources=list(shares),
        final=[only_here(each.final) for each in shares.values()],
        busiest=[only_here(each.busiest) for each in shares.values()],
        average=[only_here(each.average) for each in shares.values()],
        pods_final=only_here(last.pods),
        pods_busiest=only_here(busiest.pods),
    )


def _series(books: Accounting, start_s: float) -> Series:
    samples = books.timeline.samples
    used: dict[str, list[float]] = {}
    for name in _shown(books):
        at = books.resources.index(name)
        used[name] = [
            round(sample.used[at] / sample.capacity[at], 5) if at < len(sample.used) and sample.capacity[at] else 0.0
            for sample in samples
        ]
    return Series(
        time_s=[rounded(max(0.0, sample.at_s - start_s)) for sample in samples],
        pending=[sample.pending for sample in samples],
        running=[sample.running for sample in samples],
        used=used,
    )
