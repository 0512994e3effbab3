"""The observer of the framework: what plugins do and how long it takes, for metrics."""

from __future__ import annotations

from typing import Protocol


class Tally(Protocol):
    """A counter."""

    def inc(self, amount: float = 1) -> None: ...


class Observer(Protocol):
    def extension_point(self, point: str, status: str, profile: str, seconds: float, times: int = 1) -> None:
        """Report that all plugins of a point ran for one pod, or for `times` pods in `seconds` each."""
        ...

    def algorithm(self, seconds: float, times: int = 1) -> None:
        """Report how long it took to filter, score and select; called by the framework's caller."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Report one plugin's run; called in a sample of the cycles only."""
        ...

    def evaluations(self, plugin: str, point: str, profile: str) -> Tally:
        """Return the counter of a plugin's evaluations; called once."""
        ...

    def batch_attempts(self, profile: str, result: str, times: int = 1) -> None:
        """Count pods placed with kept results (hint_used), or without (no_hint, hint_not_used)."""
        ...

    def batch_flushed(self, profile: str, reason: str) -> None:
        """Count dropped results: invalid or dropped to make room (expired), or of pods that
        cannot be placed together any more (pod_not_batchable).
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

    def evaluations(self, plugin: str, point: str, profile: str) -> Tally:
        return _Nothing()

    def batch_attempts(self, profile: str, result: str, times: int = 1) -> None:
        pass

    def batch_flushed(self, profile: str, reason: str) -> None:
        pass

    def node_hint(self, profile: str, hinted: str, seconds: float, times: int = 1) -> None:
        pass

    def results_stored(self, profile: str, seconds: float) -> None:
        pass


class _Nothing:
    def inc(self, amount: float = 1) -> None:
        pass
