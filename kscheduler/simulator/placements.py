"""Writes each pod's placement as a CSV table: one row per pod, in order of creation."""

from __future__ import annotations

import csv
import io

from kscheduler.simulator.run import Outcome, unscheduled_condition

COLUMNS = ("pod", "node", "created_s", "bound_s", "left_s", "reason")


def to_csv(outcome: Outcome) -> bytes:
    """Return the table as CSV. Times are virtual seconds.

    `reason` is the message of the PodScheduled condition, if False. Pods that were created with a node are included,
    with their creation as the time of binding.
    """
    books = outcome.accounting
    waiting = {pod.metadata.uid: pod for pod in outcome.cluster.pods.values()}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for record in books.records.values():
        node = books.rows[record.row].name if record.row >= 0 else ""
        condition = None if node else unscheduled_condition(waiting.get(record.uid, record.last_seen))
        reason = "" if condition is None else condition.message
        table.writerow([record.key, node, *map(_time, (record.created_s, record.bound_s, record.left_s)), reason])
    return text.getvalue().encode()


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")
