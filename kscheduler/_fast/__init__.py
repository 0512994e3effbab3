"""The kernels: every filter and score that reads only numbers, over all nodes in one call. No I/O, no Python objects.

`NodeColumns` holds the nodes as columns: one array for each property, in which every node has a row. `Verdicts` and
`Scores` hold what is decided about the nodes for one pod, and the functions read the columns and write these two. Each
name exists twice: compiled, from the .pyx files here, and in plain Python, from the modules of the same names in
`reference`, which are the specification. The compiled form is used where it has been built, unless
KSCHEDULER_NO_EXTENSIONS=1; `COMPILED` is True if it is used.

Four compiled modules have no reference, since only kernels call them: `chunks`, `row_ranking`, `totals` and
`worker_threads`.

Rows are counted from 0; rows of deleted nodes stay in the tables as dead rows until they are used again, and no kernel
ever chooses them. In names `node_class` is the number of a row's node class, i.e. of nodes with equal labels and
taints. One thread writes at a time. Nothing here imports the rest of kscheduler.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kscheduler._fast.codes import (
    CPU,
    ENTRY_BITS,
    EPHEMERAL_STORAGE,
    FEASIBLE,
    MANY_TIMERS,
    MAX_AMOUNT,
    MAX_CLASS_WEIGHT,
    MAX_CODE,
    MAX_ENTRIES,
    MAX_RAW,
    MAX_SCORED_RESOURCES,
    MAX_TEXT,
    MAX_WEIGHT,
    MEMORY,
    NO_NODE,
    NOBODY,
    NOT_EXAMINED,
    NOTHING_LEFT,
    PENALTY,
    STOPPED,
    TIME_STANDS_STILL,
    TOO_MANY_PODS,
    UNRESOLVABLE,
    entry_bit,
)

if TYPE_CHECKING:
    from kscheduler._fast.amount_vectors import add_amounts, is_within
    from kscheduler._fast.answers import RowAnswers
    from kscheduler._fast.call_queue import CallQueue
    from kscheduler._fast.classes import PodClass
    from kscheduler._fast.columns import NodeColumns, PodRequest
    from kscheduler._fast.device_search import find_devices
    from kscheduler._fast.filtering import RowNominated, filter_fit, filter_node_classes, filter_with_nominated
    from kscheduler._fast.histogram import Histogram
    from kscheduler._fast.metric_rules import MetricRules, copy_use, mean_use
    from kscheduler._fast.packing import (
        changes_so_far,
        pack_alive,
        pack_amounts,
        pack_feasible,
        pack_usage,
        reject_marked,
        rows_changed_since,
        set_raws,
        take_metric,
        values_by_node_class,
    )
    from kscheduler._fast.placement import Placer
    from kscheduler._fast.plain_answer import read_plain_answer
    from kscheduler._fast.pod_text import cut_names
    from kscheduler._fast.preemption import Conditions, Residents, clear_nodes, spare_pods
    from kscheduler._fast.scoring import (
        Scores,
        accumulate,
        add_to_rows,
        clear_raw,
        normalize,
        score_balanced,
        score_images,
        score_least_allocated,
        score_most_allocated,
        score_node_classes,
        score_requested_to_capacity_ratio,
    )
    from kscheduler._fast.selection import best_total, select_host
    from kscheduler._fast.spread_affinity import Joiner, JoinTerms
    from kscheduler._fast.tallies import DomainTally
    from kscheduler._fast.topology import (
        DomainSums,
        RowMask,
        RowTotals,
        add_domain_sums,
        add_spread,
        add_spread_by_row,
        filter_inside,
        filter_outside,
        filter_skew,
        filter_without_domain,
        normalize_range,
        normalize_spread,
        score_spread,
        sum_by_domain,
    )
    from kscheduler._fast.trimaran import rate_load_variation, rate_target_load, score_rated
    from kscheduler._fast.turn_order import TurnOrder, rank_queue
    from kscheduler._fast.use_over_time import UseOverTime
    from kscheduler._fast.verdicts import Verdicts

# Modules of both forms, and those of the compiled form alone.
_TWINS: Final = (
    "amount_vectors", "answers", "call_queue", "classes", "columns", "device_search", "filtering", "histogram",
    "metric_rules", "packing", "placement", "plain_answer", "pod_text", "preemption", "scoring", "selection",
    "spread_affinity", "tallies", "topology", "trimaran", "turn_order", "use_over_time", "verdicts",
)  # fmt: skip
_PLUMBING: Final = ("chunks", "row_ranking", "totals", "worker_threads")

COMPILED: Final = os.environ.get("KSCHEDULER_NO_EXTENSIONS") != "1" and all(
    find_spec(f"{__name__}.{name}") for name in (*_TWINS, *_PLUMBING)
)

__all__ = [
    "COMPILED",
    "CPU",
    "ENTRY_BITS",
    "EPHEMERAL_STORAGE",
    "FEASIBLE",
    "MANY_TIMERS",
    "MAX_AMOUNT",
    "MAX_CLASS_WEIGHT",
    "MAX_CODE",
    "MAX_ENTRIES",
    "MAX_RAW",
    "MAX_SCORED_RESOURCES",
    "MAX_TEXT",
    "MAX_WEIGHT",
    "MEMORY",
    "NOBODY",
    "NOTHING_LEFT",
    "NOT_EXAMINED",
    "NO_NODE",
    "PENALTY",
    "STOPPED",
    "TIME_STANDS_STILL",
    "TOO_MANY_PODS",
    "UNRESOLVABLE",
    "CallQueue",
    "Conditions",
    "DomainSums",
    "DomainTally",
    "Histogram",
    "JoinTerms",
    "Joiner",
    "MetricRules",
    "NodeColumns",
    "Placer",
    "PodClass",
    "PodRequest",
    "Residents",
    "RowAnswers",
    "RowMask",
    "RowNominated",
    "RowTotals",
    "Scores",
    "TurnOrder",
    "UseOverTime",
    "Verdicts",
    "accumulate",
    "add_amounts",
    "add_domain_sums",
    "add_spread",
    "add_spread_by_row",
    "add_to_rows",
    "best_total",
    "changes_so_far",
    "clear_nodes",
    "clear_raw",
    "copy_use",
    "cut_names",
    "entry_bit",
    "filter_fit",
    "filter_inside",
    "filter_node_classes",
    "filter_outside",
    "filter_skew",
    "filter_with_nominated",
    "filter_without_domain",
    "find_devices",
    "is_within",
    "mean_use",
    "normalize",
    "normalize_range",
    "normalize_spread",
    "pack_alive",
    "pack_amounts",
    "pack_feasible",
    "pack_usage",
    "rank_queue",
    "rate_load_variation",
    "rate_target_load",
    "read_plain_answer",
    "reject_marked",
    "rows_changed_since",
    "score_balanced",
    "score_images",
    "score_least_allocated",
    "score_most_allocated",
    "score_node_classes",
    "score_rated",
    "score_requested_to_capacity_ratio",
    "score_spread",
    "select_host",
    "set_raws",
    "spare_pods",
    "sum_by_domain",
    "take_metric",
    "values_by_node_class",
]

if not TYPE_CHECKING:
    for _name in _TWINS:
        _module = import_module(f"{__name__}.{_name}" if COMPILED else f"{__name__}.reference.{_name}")
        globals().update((name, value) for name, value in vars(_module).items() if name in __all__)
