"""Records and details, for tests that schedule nothing."""

from __future__ import annotations

import zlib
from array import array

from kscheduler.explain.details import FIRST_STATUS, NodeDetails, NodeNames, NodeScore, PluginScore
from kscheduler.explain.record import DecisionRecord, Refusal
from kscheduler.framework.status import Status, unschedulable

NAMES = NodeNames(("n0", "n1", "", "n3"))
FILTERS = ("NodeName", "NodeResourcesFit", "InterPodAffinity")
NO_CPU = unschedulable("Insufficient cpu").of("NodeResourcesFit")


def make_details(
    names: NodeNames = NAMES,
    numbers: tuple[int, ...] = (0, 0, 0, FIRST_STATUS),
    statuses: tuple[Status, ...] = (NO_CPU,),
) -> NodeDetails:
    best = (
        NodeScore("n1", 170, (PluginScore("NodeResourcesFit", 1, 70, 70), PluginScore("ImageLocality", 2, 9, 50))),
        NodeScore("n0", 60, (PluginScore("NodeResourcesFit", 1, 60, 60), PluginScore("ImageLocality", 2, 0, 0))),
    )
    return NodeDetails(names, statuses, zlib.compress(array("H", numbers).tobytes()), FILTERS, best)


def make_record(
    uid: str = "u", attempt: int = 1, details: NodeDetails | None = None, message: str = ""
) -> DecisionRecord:
    record = DecisionRecord(uid, f"default/{uid}", "default-scheduler", attempt, 1_700_000_000.0, 3, "n1", 3, 2)
    record.details, record.refusal = details, Refusal(message) if message else None
    record.bytes = record.measure()
    return record
