"""A fence around an out-of-tree plugin: it checks the values that the plugin returns, and how long it takes.

A wrong value becomes an exception that states what was expected and what came; the framework turns it into a status
that names the plugin, and ends only the cycle of the pod at hand. A synchronous plugin cannot be interrupted, since it
blocks the event loop: one that takes long is named in the log. An asynchronous plugin has a time limit; one that
goes on nevertheless is left behind. In-tree plugins run without a fence.
"""

from __future__ import annotations

import inspect
import logging
import math
import operator
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kscheduler._fast import MAX_RAW, Verdicts
from kscheduler.counted import counted
from kscheduler.cut_text import cut_text
from kscheduler.errors import APIError, KSchedulerError, PluginError, StoppedItself
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import AnswersToCome, CycleFault
from kscheduler.framework.interface import Handle, Plugin, PostFilterResult, PreFilterResult
from kscheduler.framework.plain_text import plain_text
from kscheduler.framework.status import REJECTED, Code, Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# A plugin that takes so long for one pod holds up every other pod. kube-scheduler logs a whole cycle that takes this.
SLOW_S = 0.1
# PreBind and Bind may wait for the outside, but a binding in flight holds room on its node. kube-scheduler's own
# plugins give up after 600 s. A plugin sets its own limit with an attribute `timeout_s`.
DEFAULT_TIMEOUT_S = 600.0
MOST_REPORTED = 20  # lines of one plugin whose exceptions are logged

Call = Callable[..., Any]
Check = Callable[[Any], Any]


class WrongAnswer(PluginError):
    """Raised when a plugin returns a value that its extension point does not allow."""


class TookTooLong(PluginError):
    """Raised when a plugin does not answer within its time limit."""


class Unreadable(PluginError):
    """Raised in place of a plugin's exception whose text cannot be read, or not be sent."""


class Exited(PluginError):
    """Raised when a plugin tried to end the process, or ended its task."""


# --- what an answer must be -----------------------------------------------------------------------------------------

_BASE = frozenset({Code.SUCCESS, Code.ERROR}) | REJECTED


def _status(*more: Code, allowed: frozenset[Code] = _BASE) -> Check:
    """Return a check that an answer is None, or a Status with an allowed code and with reasons that are text."""
    codes = allowed | set(more)

    def check(answer: Any) -> Any:
        if answer is None:
            return None
        if not isinstance(answer, Status):
            raise WrongAnswer(f"expected a Status or None, got {_shown(answer)}")
        if answer.code not in codes:
            names = ", ".join(code.name for code in sorted(codes))
            raise WrongAnswer(f"expected a Status with one of the codes {names}, got {_shown(answer.code)}")
        if not isinstance(answer.reasons, tuple) or not all(isinstance(reason, str) for reason in answer.reasons):
            raise WrongAnswer(f"expected the reasons of a Status as a tuple of str, got {_shown(answer.reasons)}")
        plain = tuple(cut_text(plain_text(reason)) for reason in answer.reasons)
        return answer if all(map(operator.is_, plain, answer.reasons)) else replace(answer, reasons=plain)

    return check


def _pair(what: str, first: Check, second: Check) -> Check:
    def check(answer: Any) -> Any:
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise WrongAnswer(f"expected a tuple {what}, got {_shown(answer)}")
        return first(answer[0]), second(answer[1])

    return check


def _pre_filter_result(answer: Any) -> Any:
    if answer is None:
        return None
    if not isinstance(answer, PreFilterResult):
        raise WrongAnswer(f"expected a PreFilterResult or None, got {_shown(answer)}")
    names: Any = answer.node_names
    if names is None or type(names) is frozenset:
        return answer
    if not isinstance(names, Iterable) or isinstance(names, (str, bytes)):
        raise WrongAnswer(f"expected a set of node names in a PreFilterResult, got {_shown(names)}")
    return PreFilterResult(frozenset(names))


def _post_filter_result(answer: Any) -> Any:
    if answer is None:
        return None
    if not isinstance(answer, PostFilterResult):
        raise WrongAnswer(f"expected a PostFilterResult or None, got {_shown(answer)}")
    node: Any = answer.nominated_node_name
    if node is None:
        return answer
    if not isinstance(node, str):
        raise WrongAnswer(f"expected the name of a node in a PostFilterResult, got {_shown(node)}")
    return PostFilterResult(plain_text(node))


def _score(answer: Any) -> int:
    try:
        score = operator.index(answer)
    except TypeError:
        raise WrongAnswer(f"expected an integer as score, got {_shown(answer)}") from None
    if not -MAX_RAW <= score <= MAX_RAW:
        raise WrongAnswer(f"expected a score between -{MAX_RAW} and {MAX_RAW}, got {_shown(score)}")
    return score


def _permission(answer: Any) -> Any:
    status, timeout_s = _pair("(Status or None, seconds)", _status(Code.WAIT), _anything)(answer)
    if status is None or status.code is not Code.WAIT:
        return status, 0.0
    if not isinstance(timeout_s, (int, float)) or not math.isfinite(timeout_s) or timeout_s < 0:
        raise WrongAnswer(f"expected how many seconds to wait, got {_shown(timeout_s)}")
    return status, float(timeout_s)


def _sort_key(answer: Any) -> Any:
    is_key = isinstance(answer, tuple) and all(
        isinstance(part, (int, float)) and math.isfinite(part) for part in answer
    )
    if not is_key:
        raise WrongAnswer(f"expected a tuple of finite numbers, got {_shown(answer)}")
    return answer


def _coroutine(answer: Any) -> Any:
    if not inspect.iscoroutine(answer):
        raise WrongAnswer(f"expected a coroutine (async def), got {_shown(answer)}")
    return answer


def _explanation(answer: Any) -> Any:
    if answer is None:
        raise WrongAnswer("expected the Status behind a rejection, got None")
    return _status(allowed=REJECTED)(answer)


def _anything(answer: Any) -> Any:
    return answer


def _shown(answer: object) -> str:
    try:
        text = repr(answer)
    except Exception:
        text = f"a {type(answer).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}..."


HINT = "queueing hint"  # as a method in the log

CHECKS: Mapping[str, Check] = {  # method of a plugin -> what its answer must be
    "pre_enqueue": _status(),
    "pre_filter": _pair("(PreFilterResult or None, Status or None)", _pre_filter_result, _status(Code.SKIP)),
    "add_pod": _status(),
    "remove_pod": _status(),
    "filter": _status(),
    "explain": _explanation,
    "post_filter": _pair("(PostFilterResult or None, Status or None)", _post_filter_result, _status()),
    "pre_score": _status(Code.SKIP),
    "score": _pair("(score, Status or None)", _score, _status()),
    "reserve": _status(),
    "permit": _permission,
    "pre_bind_pre_flight": _status(Code.SKIP),
    "pre_bind": _status(),
    "bind": _status(Code.SKIP),
    HINT: bool,
}
ASYNCHRONOUS = frozenset({"pre_bind", "bind"})
DEFAULTS: Mapping[str, tuple[str, ...]] = {  # method that may be missing -> added if one of these is there
    "unreserve": ("reserve",),
    "pre_bind_pre_flight": ("pre_bind",),
}


def is_ctrl_c(error: BaseException) -> bool:
    """Return True for a KeyboardInterrupt that may be the user's.

    `kscheduler run` has its event loop handle the signal, so that nothing is raised for it.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    handler = signal.getsignal(signal.SIGINT)
    return handler is signal.default_int_handler or isinstance(handler, partial)  # Python's, or that of asyncio.Runner


# --- the fence --------------------------------------------------------------------------------------------------------


class Fence:
    """A proxy of a plugin that has only the plugin's name and public methods, each wrapped in checks."""

    name: str

    def __init__(self, plugin: Plugin, handle: Handle) -> None:
        self.name = plugin.name
        self._handle = handle
        self._timeout_s = _timeout(plugin)
        self._cycle: object = None  # the CycleState in which the time below was spent
        self._spent_s = 0.0
        self._left: set[object] = set()  # calls that nobody waits for any more, and that go on
        self._reported: set[tuple[type[BaseException], str, int]] = set()  # (kind, file, line) of exceptions in the log
        for method in dir(plugin):
            call = None if method.startswith("_") else getattr(plugin, method, None)
            if callable(call) and not isinstance(call, type):
                setattr(self, method, self._fenced(method, call))
        for method, those in DEFAULTS.items():
            if not hasattr(self, method) and any(hasattr(self, other) for other in those):
                setattr(self, method, _does_nothing)

    def _fenced(self, method: str, call: Call) -> Call:
        check = CHECKS.get(method, _anything)
        if method in ASYNCHRONOUS:
            return self._limited(method, call, check)
        if method == "sort_key":
            return self._sorted(call)
        if method == "events_to_register":
            return self._registering(call)
        if method == "normalize_score":
            return self._normalized(self._watched(method, call, _status()))
        if method in ("filter_table", "filter_until"):
            return _own_code_only(self._watched(method, call, _anything))
        return self._watched(method, call, check)

    def _watched(self, method: str, call: Call, check: Check) -> Call:
        stopwatch = self._handle.stopwatch

        def watched(*arguments: Any) -> Any:
            started = stopwatch()
            try:
                return check(call(*arguments))  # a look at the answer may run code of the plugin, too
            except Exception as error:
                self._report(method, error)
                if (replacement := _unreadable(error)) is not None:
                    raise replacement from error
                raise
            except BaseException as error:
                if is_ctrl_c(error):
                    raise
                raise self._contained(method, error) from error
            finally:
                self._count(method, arguments, stopwatch() - started)

        return watched

    def _count(self, method: str, arguments: tuple[Any, ...], seconds: float) -> None:
        """Add up the plugin's time in one pod's cycle, over all nodes and methods; log it when it exceeds SLOW_S."""
        cycle = arguments[0] if arguments else None
        if cycle is not self._cycle or not isinstance(cycle, CycleState):
            self._cycle, self._spent_s = cycle, 0.0
        was_quick = self._spent_s < SLOW_S
        self._spent_s += seconds
        if was_quick and self._spent_s >= SLOW_S:
            log.warning(
                "plugin takes long and blocks the scheduling cycle",
                extra={
                    "plugin": self.name,
                    "method": method,
                    "pod": _pod(arguments),
                    "seconds": round(self._spent_s, 3),
                },
            )

    def _contained(self, method: str, error: BaseException) -> Exited:
        """Return what ends the pod's cycle alone, in place of an exception that is no `Exception`.

        Uncaught, SystemExit, KeyboardInterrupt and a panic of a library in Rust end the process; a CancelledError ends
        the task.
        """
        text = _text_of(error)
        if isinstance(error, SystemExit):
            return Exited(f"called exit({text})")
        self._report(method, error)
        return Exited(f"raised {type(error).__name__}{f': {text}' if text else ''}")

    def _report(self, method: str, error: BaseException) -> None:
        """Log an exception of the plugin's own with its stack, once for each line that raises it.

        The pod's status has its text alone, which does not show the plugin's author where to look.
        """
        if isinstance(error, (KSchedulerError, CycleFault, AnswersToCome)):
            return
        file, line = "", 0
        for frame, number in traceback.walk_tb(error.__traceback__):
            file, line = frame.f_code.co_filename, number
        place = type(error), file, line
        if place not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(place)
            log.error("plugin raised an exception", exc_info=error, extra={"plugin": self.name, "method": method})

    def _limited(self, method: str, call: Call, check: Check) -> Call:
        begin = self._watched(method, call, _coroutine)

        async def limited(*arguments: Any) -> Any:
            work = begin(*arguments)
            runs = False

            async def outcome() -> tuple[Any, Exception | None]:
                # The plugin's own exceptions are returned as values, so that any raised exception is the time limit.
                nonlocal runs
                runs = True
                try:
                    return await work, None
                except Exception as error:
                    self._report(method, error)
                    return None, _unreadable(error) or error
                except (SystemExit, KeyboardInterrupt) as error:  # the others end the task of `within` alone
                    if is_ctrl_c(error):
                        raise
                    return None, self._contained(method, error)
                finally:
                    runs = False
                    self._left.discard(work)

            try:
                answer, fault = await self._handle.within(self._timeout_s, outcome())
            except StoppedItself as error:
                raise self._contained(method, error.__cause__ or error) from error
            except Exception as error:
                raise TookTooLong(f"no answer within {self._timeout_s:g} s") from error
            finally:
                if runs:
                    self._leave(method, work, arguments)
            if isinstance(fault, APIError):  # as from DefaultBinder: the type of the error decides on a retry
                return error_status(str(fault), fault)
            if fault is not None:
                raise fault
            return check(answer)

        return limited

    def _registering(self, call: Call) -> Call:
        """Wrap `events_to_register`, and each hint in what it returns: the queue calls them among its own changes."""

        def register() -> list[Any]:
            fenced: dict[int, Call] = {}  # id of a hint -> itself: that two registrations have the same one matters

            def one(registered: Any) -> Any:
                hint = getattr(registered, "hint", None)
                if hint is None:
                    return registered
                if id(hint) not in fenced:
                    fenced[id(hint)] = self._watched(HINT, hint, CHECKS[HINT])
                return replace(registered, hint=fenced[id(hint)])

            return [one(registered) for registered in call()]

        return register

    def _leave(self, method: str, work: object, arguments: tuple[Any, ...]) -> None:
        """Log that a call goes on though it was cancelled; what it does from now on, nobody learns."""
        self._left.add(work)
        log.error(
            "plugin ignores that it was cancelled, and is left behind",
            extra={
                "plugin": self.name,
                "method": method,
                "pod": _pod(arguments),
                "left_behind": len(self._left),
            },
        )

    def _sorted(self, call: Call) -> Call:
        """Wrap `sort_key`: if it fails, the pod is sorted by priority and age, so that the queue does not lose it."""
        watched = self._watched("sort_key", call, _sort_key)

        def sorted_anyhow(priority: int, timestamp: float) -> tuple[float, ...]:
            try:
                key: tuple[float, ...] = watched(priority, timestamp)
            except Exception as error:
                log.error(
                    "queue sort plugin failed; sorting by priority and age",
                    extra={"plugin": self.name, "err": f"{type(error).__name__}: {error}"},
                )
                return (-priority, timestamp)
            return key

        return sorted_anyhow

    def _normalized(self, watched: Call) -> Call:
        def normalized(state: Any, pod: Any, scores: dict[str, int]) -> Any:
            nodes = set(scores)
            status = watched(state, pod, scores)
            if set(scores) != nodes:
                wanted, others = counted(len(nodes), "node"), counted(len(scores), "other")
                raise WrongAnswer(f"expected scores of the same {wanted}, got {others}")
            for node, score in scores.items():
                scores[node] = _score(score)
            return status

        return normalized


def _own_code_only(watched: Call) -> Call:
    """Wrap a plugin's `filter_table` so that it fails if the plugin rejects nodes under another plugin's code."""

    def filtered(state: Any, pod: Any, table: Any, verdicts: Verdicts, code: int, *circle: int) -> None:
        before = {code for code, _ in verdicts.histogram()}
        watched(state, pod, table, verdicts, code, *circle)
        strange = {found for found, _ in verdicts.histogram()} - before - {code}
        if strange:
            raise WrongAnswer(f"expected rejections under code {code}, got {_shown(sorted(strange))}")

    return filtered


def _text_of(error: BaseException) -> str:
    """Return an exception's text as it can be sent; reading it runs code of the plugin."""
    try:
        return plain_text(str(error))
    except BaseException as another:
        return f"(its text raises {type(another).__name__})"


def _unreadable(error: Exception) -> Unreadable | None:
    """Return what to raise in place of an exception whose text the pod's status cannot have; None if it can."""
    try:
        text: str = str(error)
        if plain_text(text) is text:
            return None
    except BaseException:
        pass
    return Unreadable(f"{type(error).__name__}: {_text_of(error)}")


def _timeout(plugin: Plugin) -> float:
    seconds = float(getattr(plugin, "timeout_s", DEFAULT_TIMEOUT_S))
    if not seconds > 0 or not math.isfinite(seconds):
        raise ValueError(f"timeout_s: expected a number of seconds above 0, got {seconds:g}")
    return seconds


def _pod(arguments: tuple[Any, ...]) -> str:
    return next((argument.key for argument in arguments if isinstance(argument, PodInfo)), "")


def _does_nothing(*arguments: Any) -> None:
    return None
