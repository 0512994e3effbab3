"""The statuses for plugins that raise or answer nonsense."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kscheduler.errors import APIError, PluginError
from kscheduler.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin
from kscheduler.framework.status import STATUS_LABELS, Code, Status

# The texts in which kube-scheduler names a plugin that failed, by the point.
_USUAL_FORM = 'running {point} plugin "{plugin}": {fault}'
_FORMS = {
    "Filter": 'running "{plugin}" filter plugin: {fault}',
    "AddPod": 'running AddPod on PreFilter plugin "{plugin}": {fault}',
    "RemovePod": 'running RemovePod on PreFilter plugin "{plugin}": {fault}',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: {fault}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{plugin}" failed with: {fault}',
    "PreBindPreFlight": 'running PreBindPreFlight "{plugin}": {fault}',
}


class CycleFault(Exception):
    """A plugin's error on its way out of nested loops; it ends the cycle of one pod."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class AnswersToCome(Exception):
    """A plugin waits for slow answers, which the caller may await: then the pod is tried again.

    Raised only where the cycle's state allows it, before the cycle has changed anything.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the cycle waits for answers")
        self.ask = ask  # raises nothing but cancellation


def raised(plugin: Plugin, point: str, error: Exception) -> Status:
    """Return the status of a plugin that let an exception escape."""
    if isinstance(error, CycleFault):
        return error.status
    fault = PluginError(_text(point, plugin.name, f"{type(error).__name__}: {error}"))
    fault.__cause__ = error
    return Status(Code.ERROR, (str(fault),), plugin.name, fault)


def running(point: str, plugin: Plugin, status: Status) -> Status:
    """Return the status of a plugin whose code ends the cycle at this point."""
    return Status(Code.ERROR, (_text(point, plugin.name, status.message),), plugin.name, status.error)


def unsuccessful(point: str, plugin: Plugin, status: Status) -> Status:
    """Return an answer other than success: a rejection in the plugin's words, or a fault naming plugin and point."""
    return status.of(plugin.name) if status.is_rejected else running(point, plugin, status)


def _text(point: str, plugin: str, fault: str) -> str:
    return _FORMS.get(point, _USUAL_FORM).format(point=point, plugin=plugin, fault=fault)


def no_pre_flight(plugin: Plugin, status: Status) -> Status:
    """Return the fault of a PreBindPreFlight answer that is neither success, nor Skip, nor an error."""
    message = (
        f'PreBindPreFlight {plugin.name} returned "{STATUS_LABELS[status.code]}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )
    return Status(Code.ERROR, (message,), plugin.name)


def not_scored(plugin: Plugin, status: Status) -> Status:
    return running("Score", plugin, status)


def invalid_score(plugin: Plugin, score: int) -> Status:
    message = (
        f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )
    return Status(Code.ERROR, (message,), plugin.name)


def not_bound(error: APIError) -> Status:
    """Return the status for the apiserver's answer to a direct binding, when the pod certainly is not bound."""
    return Status(Code.ERROR, (_text("Bind", "DefaultBinder", str(error)),), "DefaultBinder", error)


def not_allowed(status: Status) -> Status:
    """Return the status for a wait on Permit that ended without being allowed."""
    if status.is_rejected:
        return status
    return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin, status.error)
