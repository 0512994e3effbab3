"""The audit log as it grows: which entries are pods created and bound, and when."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perf.workloads.audit_tail import AuditTail
from perf.workloads.pod_log import PodLog

TOOK_S = 0.25  # each request


def entry(name: str, unix_s: float, subresource: str = "", code: int = 201) -> str:
    fields = {
        "requestReceivedTimestamp": written(unix_s - TOOK_S),
        "stageTimestamp": written(unix_s),
        "objectRef": {"resource": "pods", "namespace": "n", "name": name, "subresource": subresource},
        "responseStatus": {"code": code},
    }
    return json.dumps(fields) + "\n"


def written(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read(directory: Path, *parts: str) -> PodLog:
    """The log of pods after the parts were written one after another."""
    log = PodLog()
    with AuditTail(directory, log), (directory / "audit.log").open("a") as file:
        for part in parts:
            file.write(part)
            file.flush()
    return log


def test_times_are_those_of_the_answers(tmp_path: Path) -> None:
    now_s, unix_s = time.monotonic(), time.time()
    log = read(tmp_path, entry("a", unix_s - 3.0), entry("a", unix_s - 1.0, "binding"))
    created, bound = log.created_s("n/a"), log.bound_s("n/a")
    assert created == pytest.approx(now_s - 3.0, abs=0.1)
    assert bound == pytest.approx(now_s - 1.0, abs=0.1)
    assert log.bound() == ["n/a"]


def test_binding_was_asked_for_before_it_was_answered(tmp_path: Path) -> None:
    log = read(tmp_path, entry("a", time.time()), entry("a", time.time(), "binding"))
    asked, bound = log.asked_s("n/a"), log.bound_s("n/a")
    assert asked is not None
    assert bound is not None
    assert bound - asked == pytest.approx(TOOK_S, abs=0.001)
