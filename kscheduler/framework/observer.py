"""Who is told how long each extension point took; the metrics answer it."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None: ...


class NoObserver:
    """Nobody is told."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        pass
