"""A run of few cases of each test, for a second interpreter whose run whole would last longest of all.

A test with a hundred cases shows with its first two that an interpreter runs it; which cases there are is settled by
the run on the first interpreter.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

CASES_OF_EACH = "KSCHEDULER_CASES_OF_EACH"  # the environment variable with the number of cases kept of each test
EXAMPLES = 10  # that Hypothesis draws for a test in such a run; 100 in another


def cases_of_each() -> int | None:
    """How many cases of each test this run keeps; None: all. ValueError unless the variable is a positive number."""
    number = os.environ.get(CASES_OF_EACH)
    if number is None:
        return None
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"{CASES_OF_EACH}: expected a positive number, got {number!r}")
    return int(number)


class FewCases:
    """Hooks of pytest, to be registered as a plugin."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the first cases of each test, of those that nothing else has left out."""
        if (most := cases_of_each()) is None:
            return
        seen: Counter[str] = Counter()
        left_out = []
        for item in items:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > most:
                left_out.append(item)
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=left_out)
