"""Trimaran's scores for all rows (nodes) at once, by the formulas of trimaran_formulas.py."""

from __future__ import annotations

import math
from array import array
from typing import TypeAlias

from kscheduler._fast.codes import CPU, MAX_AMOUNT, MEMORY
from kscheduler._fast.reference.checks import check_scores, within
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts
from kscheduler._fast.trimaran_formulas import MEBI, load_variation_of, target_load_of

_Doubles: TypeAlias = "array[float] | memoryview"


def rate_target_load(rows: int, used: _Doubles, whole: _Doubles, missing: array[int], own: int, target: int) -> bytes:
    """Rate each row 0..100 like TargetLoadPacking: best where the predicted usage is at `target` percent of CPU.

    `used` is the measured usage in percent; in milli-cores are: `whole`, the node's capacity; `missing`, the predicted
    usage of recent pods; `own`, that of the pod. Values past the end of an array are unknown, or zero.
    """
    within("target", target, 1, 100)
    within("own", own, 0, MAX_AMOUNT)
    return bytes(
        target_load_of(
            used[row] if row < len(used) else math.nan,
            whole[row] if row < len(whole) else 0.0,
            missing[row] if row < len(missing) else 0,
            own,
            target,
        )
        for row in range(rows)
    )


def rate_load_variation(
    columns: NodeColumns,
    cpu: _Doubles,
    cpu_deviation: _Doubles,
    memory: _Doubles,
    memory_deviation: _Doubles,
    own_cpu: int,
    own_memory: int,
    margin: float,
    sensitivity: float,
) -> bytes:
    """Rate each row (node) 0..100 like LoadVariationRiskBalancing: less where CPU or memory usage is high or varies."""
    within("own_cpu", own_cpu, 0, MAX_AMOUNT)
    within("own_memory", own_memory, 0, MAX_AMOUNT)

    def at(values: _Doubles, row: int) -> float:
        return values[row] if row < len(values) else math.nan

    return bytes(
        load_variation_of(
            (at(cpu, row), at(cpu_deviation, row), float(columns.allocatable(row, CPU)), float(own_cpu)),
            (
                at(memory, row),
                at(memory_deviation, row),
                float(columns.allocatable(row, MEMORY)) * MEBI,
                float(own_memory) * MEBI,
            ),
            margin,
            sensitivity,
        )
        for row in range(columns.rows)
    )


def score_rated(verdicts: Verdicts, scores: Scores, rates: bytes) -> None:
    """Set the raw score of every feasible row (node) to its byte in `rates`; a row past the end gets 0."""
    check_scores(verdicts, scores)
    for row in verdicts.feasible_rows():
        scores.set_raw(row, rates[row] if row < len(rates) else 0)
