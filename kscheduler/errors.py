"""Every fault this program raises on purpose. A pod that fits nowhere is no fault: that is a framework Status.

Library exceptions are turned into these at the edge that met them, once, with the cause chained. A message says
what was expected and what came, and names the file, the object and the field where there is one.
"""

from __future__ import annotations


class KSchedulerError(Exception):
    """Base of all faults; its text is fit for a user, without a traceback."""


class ConfigError(KSchedulerError):
    """The configuration, a flag, a kubeconfig or an input file is wrong; nothing was started."""


class DecodeError(KSchedulerError):
    """One object from the outside cannot be read; it is skipped and the rest goes on."""


class InternalError(KSchedulerError):
    """A promise between our own parts was broken: a bug in this program."""


class PluginError(KSchedulerError):
    """A plugin raised, or answered something its extension point does not allow."""


class APIError(KSchedulerError):
    """The apiserver answered with an error, or could not be asked at all (status 0)."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status  # HTTP status; 0 when no answer came
        self.reason = reason  # metav1.Status.reason, such as "AlreadyExists"
        self.retry_after_s = retry_after_s

    @property
    def is_transient(self) -> bool:
        """True if repeating may help: no answer or an unreadable one, a server's fault, or a plea to slow down."""
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
    """No answer: refused, reset, timed out, or TLS failed. The request may or may not have been carried out."""


class NotLeading(APIError):
    """Not asked at all: this replica may not write now."""


# Kinds of answers that stay the same however often the request is repeated.
DEFINITE = (Conflict, NotFound, Forbidden, Gone, NotLeading)
