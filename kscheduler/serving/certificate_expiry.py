"""Warns before a certificate that is served expires: once a day, from a week before."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cryptography import x509

from kscheduler.client.times import rfc3339

log = logging.getLogger(__name__)

DAY_S = 86_400.0
WARN_S = 7 * DAY_S


def expires_at(pem: bytes) -> float | None:
    """Return when the first certificate of a chain expires, in Unix seconds; None if there is none that can be read."""
    try:
        chain = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return min((each.not_valid_after_utc.timestamp() for each in chain), default=None)


class ExpiryWarnings:
    """Remembers which certificates were warned of, and when."""

    def __init__(self) -> None:
        self._warned: dict[str, tuple[float, float]] = {}  # file -> when its certificate expires, when that was logged

    def look(self, expiries: Mapping[str, float], wall: float) -> None:
        """Log a warning for each certificate that expires soon or has expired, unless that was done within a day.

        `expiries`: file -> when its certificate expires, "" for one made at start; both times are Unix seconds.
        """
        for file, expires in expiries.items():
            before, at = self._warned.get(file, (0.0, 0.0))
            if expires - wall > WARN_S or (before == expires and wall - at < DAY_S):
                continue
            self._warned[file] = expires, wall
            renew = "a new file is read within a minute" if file else "restart this replica, which makes a new one"
            about = {"file": file or "made at start", "expires": rfc3339(expires), "renew": renew}
            if expires > wall:
                log.warning("a serving certificate expires soon", extra=about)
            else:
                log.warning("a serving certificate has expired", extra=about)
