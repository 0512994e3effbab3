"""Before a certificate expires the log says so, once a day, until there is a new one."""

from __future__ import annotations

import pytest

from kscheduler.serving.certificate_expiry import DAY_S, WARN_S, ExpiryWarnings, expires_at
from kscheduler.serving.certificates import self_signed, server_context
from kscheduler.serving.listener import Listen, Listener
from tests.support.waits import until

EXPIRES = 1_800_000_000.0


def logged(warnings: ExpiryWarnings, caplog: pytest.LogCaptureFixture, wall: float, **expiries: float) -> list[str]:
    caplog.clear()
    warnings.look(expiries or {"tls.crt": EXPIRES}, wall)
    return caplog.messages


def test_in_the_last_week_there_is_a_warning_each_day(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ExpiryWarnings()
    first = EXPIRES - WARN_S
    assert logged(warnings, caplog, first - 60) == []
    assert logged(warnings, caplog, first + 60) == ["a serving certificate expires soon"]
    [record] = caplog.records
    assert vars(record)["file"] == "tls.crt"
    assert vars(record)["expires"] == "2027-01-15T08:00:00Z"
    assert logged(warnings, caplog, first + 120) == []
    assert logged(warnings, caplog, first + DAY_S) == []
    assert logged(warnings, caplog, first + 60 + DAY_S) == ["a serving certificate expires soon"]
    assert logged(warnings, caplog, EXPIRES + 1) == ["a serving certificate has expired"]


def test_a_renewed_certificate_ends_the_warnings(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ExpiryWarnings()
    assert len(logged(warnings, caplog, EXPIRES - 60)) == 1
    assert logged(warnings, caplog, EXPIRES - 30, **{"tls.crt": EXPIRES + 2 * WARN_S}) == []
    assert logged(warnings, caplog, EXPIRES + 1, **{"tls.crt": EXPIRES + 2 * WARN_S}) == []


def test_each_file_has_its_own_warning(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ExpiryWarnings()
    assert len(logged(warnings, caplog, EXPIRES - 60, a=EXPIRES, b=EXPIRES + 2 * WARN_S, c=EXPIRES)) == 2


def test_text_without_a_certificate_has_no_end() -> None:
    assert expires_at(b"hello") is None
    assert expires_at(self_signed().key) is None


async def test_a_listener_warns_of_its_certificate(caplog: pytest.LogCaptureFixture) -> None:
    context = server_context()
    [expires] = context.expiries().values()
    listener = Listener(
        Listen("127.0.0.1", 0, context), "--secure-port", reload_s=0.001, max_body=1024, wall=lambda: expires - DAY_S
    )
    await listener.start()
    try:
        await until(lambda: "a serving certificate expires soon" in caplog.messages)
    finally:
        await listener.stop()
    assert caplog.messages.count("a serving certificate expires soon") == 1
