"""Trimaran's scores for all rows at once, in plain Python: what trimaran.pyx must do.

The formulas are those of scheduler-plugins, operation by operation. Utilisations are in percent of a node; one that is
not finite is not known.
"""

from __future__ import annotations

import math
from array import array
from typing import TypeAlias

from kscheduler._fast.codes import CPU, MAX_AMOUNT, MEMORY
from kscheduler._fast.reference.checks import check_scores, within
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts

Doubles: TypeAlias = "array[float] | memoryview"

MEBI = 1.0 / 1024.0 / 1024.0


def rate_target_load(rows: int, used: Doubles, whole: Doubles, missing: array[int], own: int, target: int) -> bytes:
    """0..100 for each row: packed up to `target` percent of CPU, with what is not in the utilisation yet.

    `whole`: the milli-cores of the node; `missing`: of pods that came lately; `own`: of the pod. What is past the end
    of one of them is not known, or zero.
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


def target_load_of(used: float, whole: float, missing: int, own: int, target: int) -> int:
    if not math.isfinite(used):
        return 0
    predicted = 0.0
    if whole != 0.0:
        predicted = max(100.0 * ((used / 100.0) * whole + float(own) + float(missing)) / whole, 0.0)
    if predicted > target:
        if predicted > 100.0:
            return 0
        return _rounded(float(target) * (100.0 - predicted) / (100.0 - float(target)))
    return _rounded((100.0 - float(target)) * predicted / float(target) + float(target))


def rate_load_variation(
    columns: NodeColumns,
    cpu: Doubles,
    cpu_deviation: Doubles,
    memory: Doubles,
    memory_deviation: Doubles,
    own_cpu: int,
    own_memory: int,
    margin: float,
    sensitivity: float,
) -> bytes:
    """0..100 for each row: less where use is high or varies, of CPU or of memory, whichever is worse."""
    within("own_cpu", own_cpu, 0, MAX_AMOUNT)
    within("own_memory", own_memory, 0, MAX_AMOUNT)

    def at(values: Doubles, row: int) -> float:
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


def load_variation_of(
    cpu: tuple[float, float, float, float], memory: tuple[float, float, float, float], margin: float, sensitivity: float
) -> int:
    """Of each resource: use, its deviation, what the node has, and what the pod asks for."""
    of_cpu = _risk_score(*cpu, margin, sensitivity)
    of_memory = _risk_score(*memory, margin, sensitivity)
    if of_cpu is None and of_memory is None:
        return 0
    if of_cpu is None or of_memory is None:
        return _rounded(max(of_cpu or 0.0, of_memory or 0.0))
    return _rounded(min(of_memory, of_cpu))


def _risk_score(
    used: float, deviation: float, whole: float, own: float, margin: float, sensitivity: float
) -> float | None:
    """None if nothing is known of the resource; if one of the two is, the other counts as zero."""
    if not math.isfinite(used) and not math.isfinite(deviation):
        return None
    if whole <= 0.0:
        return 0.0
    average = used * whole / 100.0 if math.isfinite(used) else 0.0
    varies = deviation * whole / 100.0 if math.isfinite(deviation) else 0.0
    average, varies = max(min(average, whole), 0.0), max(min(varies, whole), 0.0)
    mean = max(min((average + own) / whole, 1.0), 0.0)
    sigma = max(min(varies / whole, 1.0), 0.0)
    if sensitivity >= 0.0:
        sigma = math.pow(sigma, 1.0 / sensitivity if sensitivity > 0.0 else math.inf)
    sigma = max(min(sigma * margin, 1.0), 0.0)
    return (1.0 - (mean + sigma) / 2.0) * 100.0


def _rounded(value: float) -> int:
    """Halves away from zero."""
    whole = math.trunc(value)
    return whole + (value - whole >= 0.5)


def score_rated(verdicts: Verdicts, scores: Scores, rates: bytes) -> None:
    """Set the raw score of every feasible row to its byte; a row past the end has 0."""
    check_scores(verdicts, scores)
    for row in verdicts.feasible_rows():
        scores.set_raw(row, rates[row] if row < len(rates) else 0)
