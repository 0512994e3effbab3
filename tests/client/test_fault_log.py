"""Faults that are met again with each try, in virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kscheduler.client.fault_log import MOST_REMEMBERED, FaultLog
from kscheduler.simulator.virtual_time import run_virtual

log = logging.getLogger(__name__)


def report(faults: FaultLog, uid: str = "u", fault: Exception | None = None, message: str = "a fault") -> None:
    faults.report(message, fault or KeyError("x"), namespace="default", name="p", uid=uid)


def test_each_pod_message_and_kind_of_exception_is_a_fault_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        faults = FaultLog(log)
        for _ in range(3):
            report(faults)
            report(faults, uid="another")
            report(faults, fault=ValueError("x"))
            report(faults, message="another fault")

    run_virtual(scenario())
    assert len(caplog.records) == 4
    assert {record.__dict__["pod"] for record in caplog.records} == {"default/p"}


def test_pauses_double_up_to_an_hour_and_what_was_kept_back_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        faults = FaultLog(log)
        for _ in range(24 * 3600):
            report(faults)
            await asyncio.sleep(1.0)

    run_virtual(scenario())
    kept_back = [record.__dict__["not_logged_meanwhile"] + 1 for record in caplog.records]
    assert kept_back[:11] == [1, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]
    assert set(kept_back[11:]) == {3600}


def test_no_more_than_so_many_faults_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        faults = FaultLog(log)
        for number in range(MOST_REMEMBERED):
            report(faults, uid=str(number))
        report(faults, uid="0")  # met again, and so the youngest
        report(faults, uid="one more")
        caplog.clear()
        report(faults, uid="0")
        assert not caplog.records
        report(faults, uid="1")
        assert len(caplog.records) == 1

    run_virtual(scenario())
