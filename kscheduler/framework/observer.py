"""The interface through which the framework reports what plugins do and how long it takes, for metrics."""

from __future__ import annotations

from typing import Protocol


class EvaluationCounter(Protocol):
    """Counts a plugin's evaluations: whoever evaluates adds to `value`, which costs no call."""

    value: float


class Observer(Protocol):
    def extension_point(self, point: str, status: str, profile: str, seconds: float, times: int = 1) -> None:
        """Report that all plugins of an extension point ran for `times` pods, and took `seconds` for each."""
        ...

    def algorithm(self, seconds: float, times: int = 1) -> None:
        """Report the seconds that filtering, scoring and selecting took for each of `times` pods."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Report one plugin's run at an extension point; called in a sample of the cycles only."""
        ...

    def evaluations(self, plugin: str, point: str, profile: str) -> EvaluationCounter:
        """Return the counter of a plugin's evaluations at a point; called once, when the framework is built."""
        ...

    def batch_attempts(self, profile: str, result: str, times: int = 1) -> None:
        """Count pods placed with kept results of their class (hint_used), or without (no_hint, hint_not_used)."""
        ...

    def batch_flushed(self, profile: str, reason: str) -> None:
        """Count the dropping of a class's kept results. `reason`: expired (invalid, or dropped to save memory), or
        pod_not_batchable (its pods cannot be placed together any more).
        """
        ...

    def node_hint(self, profile: str, hinted: str, seconds: float, times: int = 1) -> None:
        """Report the seconds that each of `times` pods took to be placed with kept results (hint), or to find none."""
        ...

    def results_stored(self, profile: str, seconds: float) -> None:
        """Report the time it took to ask the plugins about pods of one signature, and to keep the answers."""
        ...


class NoObserver:
    """Reports nothing."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float, times: int = 1) -> None:
        pass

    def algorithm(self, seconds: float, times: int = 1) -> None:
        pass

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        pass

    def evaluations(self, plugin: str, point: str, profile: str) -> EvaluationCounter:
        return _Unread()

    def batch_attempts(self, profile: str, result: str, times: int = 1) -> None:
        pass

    def batch_flushed(self, profile: str, reason: str) -> None:
        pass

    def node_hint(self, profile: str, hinted: str, seconds: float, times: int = 1) -> None:
        pass

    def results_stored(self, profile: str, seconds: float) -> None:
        pass


class _Unread:
    """A counter that nobody reads."""

    value = 0.0
