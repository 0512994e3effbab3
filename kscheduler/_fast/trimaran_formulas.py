"""The formulas by which Trimaran's plugins rate one node, in plain Python; trimaran.pyx has the same formulas.

They are those of scheduler-plugins, operation by operation. Utilisations are in percent of a node; one that is not
finite is unknown.
"""

from __future__ import annotations

import math

from kscheduler._fast.rounding import round_half_away

MEBI = 1.0 / 1024.0 / 1024.0


def target_load_of(used: float, whole: float, missing: int, own: int, target: int) -> int:
    """Rate a node 0..100 like TargetLoadPacking: best where the predicted usage is at `target` percent of CPU."""
    if not math.isfinite(used):
        return 0
    predicted = 0.0
    if whole != 0.0:
        predicted = max(100.0 * ((used / 100.0) * whole + float(own) + float(missing)) / whole, 0.0)
    if predicted > target:
        if predicted > 100.0:
            return 0
        return round_half_away(float(target) * (100.0 - predicted) / (100.0 - float(target)))
    return round_half_away((100.0 - float(target)) * predicted / float(target) + float(target))


def load_variation_of(
    cpu: tuple[float, float, float, float], memory: tuple[float, float, float, float], margin: float, sensitivity: float
) -> int:
    """Rate a node 0..100 like LoadVariationRiskBalancing, by (usage, deviation, capacity, request) of each resource."""
    of_cpu = _risk_score(*cpu, margin, sensitivity)
    of_memory = _risk_score(*memory, margin, sensitivity)
    if of_cpu is None and of_memory is None:
        return 0
    if of_cpu is None or of_memory is None:
        return round_half_away(max(of_cpu or 0.0, of_memory or 0.0))
    return round_half_away(min(of_memory, of_cpu))


def _risk_score(
    used: float, deviation: float, whole: float, own: float, margin: float, sensitivity: float
) -> float | None:
    """Return the score by one resource; None if usage and deviation are both unknown.

    One unknown of them counts as 0.
    """
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
