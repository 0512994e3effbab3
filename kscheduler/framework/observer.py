"""Who is told what the plugins do and how long it took; the metrics answer it."""

from __future__ import annotations

from typing import Protocol


class Tally(Protocol):
    """Counts one thing."""

    def inc(self, amount: float = 1) -> None: ...


class Observer(Protocol):
    def extension_point(self, point: str, status: str, profile: str, seconds: float, times: int = 1) -> None:
        """All plugins of a point ran for one pod; or for so many pods, in so many seconds each."""
        ...

    def algorithm(self, seconds: float, times: int = 1) -> None:
        """How long it took to filter, score and select; told by whoever asks the framework to."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin ran; told in a sample of the cycles only."""
        ...

    def evaluations(self, plugin: str, point: str, profile: str) -> Tally:
        """What to count a plugin's evaluations with; asked once."""
        ...

    def batch_attempts(self, profile: str, result: str, times: int = 1) -> None:
        """Pods were placed with results kept from earlier pods (hint_used), or not (no_hint, hint_not_used)."""
        ...

    def batch_flushed(self, profile: str, reason: str) -> None:
        """Kept results were dropped, since they no longer hold or to make room (expired), or since pods that had
        them cannot be placed together any more (pod_not_batchable)."""
        ...

    def node_hint(self, profile: str, hinted: str, seconds: float, times: int = 1) -> None:
        """Time that each of so many pods took to be placed with kept results (hint), or to find none (no_hint)."""
        ...

    def results_stored(self, profile: str, seconds: float) -> None:
        """Time it took to ask the plugins about pods that are alike, and to keep the answers for the next of them."""
        ...


class NoObserver:
    """Nobody is told."""

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
