"""Who is told what the plugins do and how long it took; the metrics answer it."""

from __future__ import annotations

from typing import Protocol


class Tally(Protocol):
    """Counts one thing."""

    def inc(self) -> None: ...


class Observer(Protocol):
    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a point ran for one pod."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin ran; told in a sample of the cycles only."""
        ...

    def evaluations(self, plugin: str, point: str, profile: str) -> Tally:
        """What to count a plugin's evaluations with; asked once."""
        ...


class NoObserver:
    """Nobody is told."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        pass

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        pass

    def evaluations(self, plugin: str, point: str, profile: str) -> Tally:
        return _Nothing()


class _Nothing:
    def inc(self) -> None:
        pass
