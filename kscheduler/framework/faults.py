"""Statuses for plugins that raise exceptions or return invalid answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kscheduler.cut_text import cut_text
from kscheduler.errors import APIError, PluginError
from kscheduler.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin
from kscheduler.framework.status import STATUS_LABELS, Code, Status

# kube-scheduler's messages for a plugin that failed, by extension point.
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
    """Raised out of nested loops with the ERROR status of a plugin; it ends the cycle of one pod."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class AnswersToCome(Exception):
    """Raised when a plugin needs answers that take long: the caller awaits `ask`, and then tries the pod again.

    A plugin raises it only if `CycleState.may_wait` is set, and before the cycle has changed anything.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the cycle waits for answers")
        self.ask = ask  # raises nothing but cancellation


def raised(plugin: Plugin, point: str, error: Exception) -> Status:
    """Return the ERROR status for a plugin that raised `error` at an extension point."""
    if isinstance(error, CycleFault):
        return error.status
    fault = PluginError(_text(point, plugin.name, cut_text(f"{type(error).__name__}: {error}")))
    fault.__cause__ = error
    return Status(Code.ERROR, (str(fault),), plugin.name, fault)


def running(point: str, plugin: Plugin, status: Status) -> Status:
    """Return the ERROR status for a plugin whose status at this extension point is neither success nor a rejection."""
    return Status(Code.ERROR, (_text(point, plugin.name, status.message),), plugin.name, status.error)


def unsuccessful(point: str, plugin: Plugin, status: Status) -> Status:
    """Return the status to report for one that is not success: a rejection unchanged, anything else as an ERROR."""
    return status.of(plugin.name) if status.is_rejected else running(point, plugin, status)


def _text(point: str, plugin: str, fault: str) -> str:
    return _FORMS.get(point, _USUAL_FORM).format(point=point, plugin=plugin, fault=fault)


def no_pre_flight(plugin: Plugin, status: Status) -> Status:
    """Return the ERROR status for a PreBindPreFlight answer that is neither success nor Skip."""
    message = (
        f'PreBindPreFlight {plugin.name} returned "{STATUS_LABELS[status.code]}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )
    return Status(Code.ERROR, (message,), plugin.name)


def invalid_score(plugin: Plugin, score: int) -> Status:
    message = (
        f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )
    return Status(Code.ERROR, (message,), plugin.name)


def not_bound(error: APIError) -> Status:
    """Return the ERROR status for a binding that the apiserver refused, so that the pod is certainly not bound."""
    return Status(Code.ERROR, (_text("Bind", "DefaultBinder", error.explanation),), "DefaultBinder", error)


def not_allowed(status: Status) -> Status:
    """Return the status of a pod that waited on Permit in vain: a rejection unchanged, anything else as an ERROR."""
    if status.is_rejected:
        return status
    return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin, status.error)
