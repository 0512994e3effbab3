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


class _Nothing:
    def inc(self, amount: float = 1) -> None:
        pass
