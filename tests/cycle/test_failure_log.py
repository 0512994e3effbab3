"""What keeps all pods from being scheduled is logged once a minute."""

from __future__ import annotations

import logging

import pytest

from kscheduler.cycle.failure_log import AGAIN_S, FailureLog
from kscheduler.errors import APIError, Forbidden
from kscheduler.framework.status import Code, Status


def missing(verb: str, pod: str, namespace: str = "shop") -> Status:
    text = (
        f'pods "{pod}" is forbidden: User "system:serviceaccount:kscheduler:kscheduler" cannot {verb} resource '
        f'"pods/binding" in API group "" in the namespace "{namespace}"'
    )
    return Status(Code.ERROR, (text,), error=Forbidden("POST: 403", status=403, explanation=text))


def hung(webhook: str) -> Status:
    text = f'Internal error occurred: failed calling webhook "{webhook}": timed out'
    return Status(Code.ERROR, (text,), error=APIError("POST: 500", status=500, explanation=text))


def shown(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """Return the pods that the lines of level ERROR name, and how many others each line is about."""
    lines = [vars(record) for record in caplog.records if record.levelno == logging.ERROR]
    return [(line["pod"], line.get("not_logged_meanwhile", 0)) for line in lines]


def test_a_right_that_is_missing_is_logged_once_a_minute_whichever_pod_and_namespace_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FailureLog()
    for number in range(100):
        log.log(f"pod-{number}", missing("create", f"pod-{number}", f"namespace-{number}"), 100.0 + number / 10)
    log.log("later", missing("create", "later"), 100.0 + AGAIN_S)
    log.log("last", missing("create", "last"), 100.0 + 2 * AGAIN_S)
    assert shown(caplog) == [("pod-0", 0), ("later", 99), ("last", 0)]
    assert 'cannot create resource "pods/binding"' in vars(caplog.records[0])["err"]


def test_each_cause_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    unknown = Status(Code.ERROR, ("Unauthorized",), error=Forbidden("POST: 401", status=401))
    for turn in range(2):
        for name, status in (("a", hung("x")), ("b", hung("y")), ("c", unknown), ("d", missing("create", "d"))):
            log.log(name, status, float(turn))
    assert shown(caplog) == [("a", 0), ("b", 0), ("c", 0), ("d", 0)]


def test_what_concerns_one_pod_is_logged_each_time(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    denied = 'admission webhook "w" denied the request: pods are not bound on Fridays'
    alone = [
        Status(Code.ERROR, ("a plugin broke",), error=ValueError("x")),
        Status(Code.ERROR, (denied,), error=Forbidden("POST: 403", status=403, explanation=denied)),
        Status(Code.ERROR, ("no error",)),
    ]
    for status in alone * 2:
        log.log("shop/a", status, 0.0)
    assert shown(caplog) == [("shop/a", 0)] * 6
