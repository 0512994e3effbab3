"""What the controllers of a simulated cluster have in common: they process what has changed, soon after the change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Controller(ABC):
    """Processes changes after they are made, all of them together, at the same instant of virtual time.

    `defer` has to call a function soon, as `loop.call_soon` does.
    """

    def __init__(self, defer: Callable[[Callable[[], None]], object]) -> None:
        self._defer = defer
        self._is_due = False

    @abstractmethod
    def _process_one(self) -> bool:
        """Process one change, which may lead to others. Returns False if there is none."""

    def _call(self) -> None:
        """Have changes processed soon."""
        if not self._is_due:
            self._is_due = True
            self._defer(self.settle)

    def settle(self) -> None:
        """Process all changes, and those that follow from them, until there are none."""
        self._is_due = True
        try:
            while self._process_one():
                pass
        finally:
            self._is_due = False


def take_first(keys: dict[str, None]) -> str:
    """Remove the first key from an ordered set, and return it."""
    key = next(iter(keys))
    del keys[key]
    return key
