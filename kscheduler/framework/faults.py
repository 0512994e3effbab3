"""A plugin that raised or answered nonsense, as the status its pod gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kscheduler.errors import APIError, PluginError
from kscheduler.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin
from kscheduler.framework.status import Code, Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

# How kube-scheduler names a plugin that failed, by the point.
_USUAL_FORM = '{point} plugin "{plugin}"'
_FORMS = {
    "Filter": '"{plugin}" filter plugin',
    "AddPod": '{point} on PreFilter plugin "{plugin}"',
    "RemovePod": '{point} on PreFilter plugin "{plugin}"',
    "PreBindPreFlight": '{point} "{plugin}"',
}


class CycleFault(Exception):
    """A plugin's error on its way out of nested loops; it ends the cycle of one pod."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class AnswersToCome(Exception):
    """A plugin has questions that take long, which the caller of the cycle may await: then the pod is tried again.

    Raised only where the cycle's state allows it, before the cycle has changed anything.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the cycle waits for answers")
        self.ask = ask  # raises nothing but cancellation


def raised(plugin: Plugin, point: str, error: Exception) -> Status:
    """The plugin let an exception escape."""
    if isinstance(error, CycleFault):
        return error.status
    fault = PluginError(_text(point, plugin, f"{type(error).__name__}: {error}"))
    fault.__cause__ = error
    return Status(Code.ERROR, (str(fault),), plugin.name, fault)


def running(point: str, plugin: Plugin, status: Status) -> Status:
    """The plugin answered with a code that ends the cycle at this point."""
    return Status(Code.ERROR, (_text(point, plugin, status.message),), plugin.name, status.error)


def _text(point: str, plugin: Plugin, fault: str) -> str:
    form = _FORMS.get(point, _USUAL_FORM)
    return f"running {form.format(point=point, plugin=plugin.name)}: {fault}"


def not_scored(plugin: Plugin, status: Status) -> Status:
    return running("Score", plugin, status)


def invalid_score(plugin: Plugin, score: int) -> Status:
    message = (
        f'plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )
    return Status(Code.ERROR, (message,), plugin.name)


def not_bound(pod: PodInfo, node_name: str, error: APIError) -> Status:
    """The apiserver's answer, when the pod certainly is not bound."""
    return error_status(f"binding {pod.key} to {node_name}: {error}", error)
