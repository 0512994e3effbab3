"""Every exception this program raises on purpose. A pod that fits nowhere is no fault: that is a framework Status.

Library exceptions are turned into these once, where they are caught, with the cause chained. A message says
what was expected and what was found, and names the file, the object and the field where there is one.
"""

from __future__ import annotations


class KSchedulerError(Exception):
    """Base class of all faults; the message can be shown to a user without a traceback."""


class ConfigError(KSchedulerError):
    """The configuration, a flag, a kubeconfig or an input file is invalid; nothing was started."""


class DecodeError(KSchedulerError):
    """One object from the apiserver or a file cannot be decoded; it is skipped and the rest is processed."""


class InternalError(KSchedulerError):
    """An invariant of this program was violated: a bug."""


class PluginError(KSchedulerError):
    """A plugin raised an exception, or returned something its extension point does not allow."""


class APIError(KSchedulerError):
    """The apiserver answered with an error, or could not be reached (status 0)."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status  # HTTP status; 0 when no answer came
        self.reason = reason  # metav1.Status.reason, such as "AlreadyExists"
        self.retry_after_s = retry_after_s

    @property
    def is_transient(self) -> bool:
        """True if repeating may help: no answer, an unreadable one, a server error (5xx), 408, or 429."""
        return not isinstance(self, DEFINITE) and (self.status in (0, 408, 429) or self.status >= 500)


class Conflict(APIError):
    """409: the object is not in the state the request assumed (already bound, other uid, stale version)."""


class NotFound(APIError):
    """404: the object is gone."""


class Forbidden(APIError):
    """401 or 403: the credentials do not allow the request."""


class Gone(APIError):
    """410: the resource version is too old to watch from; list again."""


class TooManyRequests(APIError):
    """429: the apiserver asks to slow down, for `retry_after_s` where it says so."""


class Unreachable(APIError):
    """The apiserver gave no answer (refused, reset, timed out, TLS failure); the request may have been carried out."""


class NotLeading(APIError):
    """The request was not sent: this replica is not the leader and may not write now."""


# Errors that stay the same however often the request is repeated.
DEFINITE = (Conflict, NotFound, Forbidden, Gone, NotLeading)
