"""Defines every exception this program raises on purpose. A pod that fits no node is none: that is a framework Status.

Exceptions of libraries are converted to these where they are caught, with the original as cause. A message says what
was expected and what was found, and names the file, the object and the field where there is one.
"""

from __future__ import annotations


class KSchedulerError(Exception):
    """The base class of all errors; its message can be shown to a user without a traceback."""


class ConfigError(KSchedulerError):
    """The configuration, a flag, a kubeconfig or an input file is invalid; nothing was started."""


class DecodeError(KSchedulerError):
    """One object from the apiserver or a file cannot be decoded; it is skipped and the rest is processed."""


class StoppedAtOnce(KSchedulerError):
    """A second signal came while the scheduler stopped; what became of bindings under way is not known."""


class InternalError(KSchedulerError):
    """An invariant of this program was violated, which is a bug."""


class PluginError(KSchedulerError):
    """A plugin raised an exception, or returned something that its extension point does not allow."""


class StoppedItself(KSchedulerError):
    """A coroutine ended as if it had been cancelled, though nobody did that, or by another exception of that kind."""


class APIError(KSchedulerError):
    """The apiserver answered with an error, or did not answer (status 0)."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
        explanation: str = "",
        cause: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status  # HTTP status; 0 when no answer came
        self.reason = reason  # metav1.Status.reason, such as "AlreadyExists"
        self.retry_after_s = retry_after_s
        # The message of the apiserver's answer alone, which is what kube-scheduler reports; ours names the request.
        self.explanation = explanation or message
        self.cause = cause or self.explanation  # what went wrong, whatever the request was

    @property
    def is_transient(self) -> bool:
        """True if repeating the request may help: no answer, an unreadable one, a server error (5xx), 408, or 429."""
        return not isinstance(self, DEFINITE) and (self.status in (0, 408, 429) or self.status >= 500)

    @property
    def is_failed_admission(self) -> bool:
        """True if the apiserver could not call an admission webhook, and therefore carried nothing out."""
        return self.status == 500 and self.explanation.startswith(_FAILED_WEBHOOK)


class Conflict(APIError):
    """409: the object is not in the state that the request assumed (already bound, other uid, stale version)."""


class NotFound(APIError):
    """404: the object does not exist."""


class Forbidden(APIError):
    """401 or 403: the credentials do not allow the request."""


class Gone(APIError):
    """410: the resource version is too old to watch from; a new list is needed."""


class TooManyRequests(APIError):
    """429: the apiserver asks the client to slow down, for `retry_after_s` seconds if it says so."""


class Unreachable(APIError):
    """The apiserver gave no answer (refused, reset, timeout, TLS failure); the request may have been carried out."""


class NotLeading(APIError):
    """The request was not sent: this replica is not the leader, and must not write."""


class NodeGone(APIError):
    """A binding was not sent: the watch has shown meanwhile that its node was deleted."""


# How the apiserver's message begins if it cannot call a webhook whose failurePolicy is Fail, before it writes anything.
_FAILED_WEBHOOK = "Internal error occurred: failed calling webhook "

# Errors with which a request fails again, however often it is repeated.
DEFINITE = (Conflict, NotFound, Forbidden, Gone, NotLeading, NodeGone)
