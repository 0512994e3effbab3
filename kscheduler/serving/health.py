"""Answers /healthz, /livez and /readyz by running named checks, in kube-scheduler's text form.

A check is a function that returns None if healthy, or else the reason. The answer about all checks has only their
names, since anyone may read it; the answer about a single check, at a path of its own, includes the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kscheduler.clock import Clock
from kscheduler.serving.slis import HealthResults

log = logging.getLogger(__name__)

Check = Callable[[], "str | None"]  # returns None if healthy, else the reason

WATCHDOG_S = 20.0  # kube-scheduler's: how far past its lease a leader may be before it counts as stuck


@dataclass(frozen=True, slots=True)
class Answer:
    ok: bool
    text: str


class Health:
    """The checks of each endpoint (healthz, livez, readyz), in the order in which they were added."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {  # endpoint -> check name -> check
            "healthz": {"ping": _always},
            "livez": {"ping": _always},
            "readyz": {},
        }
        self._failing: dict[str, list[str]] = {}  # endpoint -> the checks that failed when it was asked last
        self.results = HealthResults()

    @property
    def endpoints(self) -> list[str]:
        return list(self._checks)

    def add(self, endpoint: str, name: str, check: Check) -> None:
        """Add a check to endpoint "healthz", "livez" or "readyz"; it replaces one of the same name."""
        self._checks.setdefault(endpoint, {})[name] = check

    def ask(self, endpoint: str, *, verbose: bool = False, exclude: Collection[str] = ()) -> Answer:
        """Run an endpoint's checks, except those in `exclude`.

        The answer lists the checks if one failed, or if `verbose`.
        """
        lines = []
        failed = {}
        checks = self._checks.get(endpoint, {})
        for name, check in checks.items():
            reason = None if name in exclude else _run(check)
            if name not in exclude:
                self.results.observe(name, endpoint, passed=reason is None)
            if reason is not None:
                failed[name] = reason
            lines.append(_line(name, excluded=name in exclude, failed=reason is not None))
        unknown = ", ".join(f'"{name}"' for name in exclude if name not in checks)
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        self._log_change(endpoint, failed)
        if failed:
            return Answer(False, "\n".join([*lines, f"{endpoint} check failed\n"]))
        return Answer(True, "\n".join([*lines, f"{endpoint} check passed\n"]) if verbose else "ok")

    def _log_change(self, endpoint: str, failed: Mapping[str, str]) -> None:
        """Log which checks fail if they are others than the last time: a kubelet asks every few seconds."""
        known = self._failing.get(endpoint, [])
        self._failing[endpoint] = names = list(failed)
        if failed:
            reasons = [f"{name}: {reason}" for name, reason in failed.items()]
            level = logging.DEBUG if names == known else logging.WARNING
            log.log(level, "health check failed", extra={"endpoint": endpoint, "reasons": reasons})
        elif known:
            log.info("health check passes again", extra={"endpoint": endpoint, "failed": known})

    def ask_one(self, endpoint: str, name: str) -> Answer | None:
        """Run one check; the answer includes the reason if it failed. None if there is no such check."""
        check = self._checks.get(endpoint, {}).get(name)
        if check is None:
            return None
        reason = _run(check)
        return Answer(True, "ok") if reason is None else Answer(False, f"internal server error: {reason}\n")


def _always() -> None:
    """Pass, as the check "ping": it fails only if the process does not answer at all."""


def _run(check: Check) -> str | None:
    """Run a check; return None if it passed, else the reason. A check that raises has failed."""
    try:
        return check()
    except Exception as error:
        log.exception("health check raised an exception")
        return f"{type(error).__name__}: {error}"


def _line(name: str, *, excluded: bool, failed: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: reason withheld" if failed else f"[+]{name} ok"


class LeaderWatchdog:
    """A health check that fails if this process considers itself leader although its Lease expired `WATCHDOG_S` ago.

    Then its Lease renewal is stuck, and it should be restarted. A standby is always healthy.
    """

    def __init__(
        self, clock: Clock, lease_name: str, lease_duration_s: float, last_renewal: Callable[[], float | None]
    ) -> None:
        """Create the check.

        `last_renewal` returns when the Lease was last renewed (`clock.now()`), or None on a standby.
        """
        self._clock = clock
        self._lease_name = lease_name
        self._limit_s = lease_duration_s + WATCHDOG_S
        self._last_renewal = last_renewal

    def __call__(self) -> str | None:
        renewed = self._last_renewal()
        if renewed is None or self._clock.now() - renewed <= self._limit_s:
            return None
        return f"failed election to renew leadership on lease {self._lease_name}"
