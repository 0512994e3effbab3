"""Cases put to the oracle and to this program, until one differs; it is then reduced while it still differs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pytest

from tests.parity.case import Case
from tests.parity.oracle import Answer, Oracle
from tests.parity.shrink import Compare, kind_of, shrink


class Counting(Protocol):
    """What keeps account of the cases that were met."""

    def add(self, case: Case, answer: Answer) -> None: ...


def try_all(oracle: Oracle, cases: Iterable[Case], compare: Compare, coverage: Counting) -> None:
    """Fails at the first case that differs."""
    for case, answer in oracle.answers(cases):
        coverage.add(case, answer)
        if different := compare(case, answer):
            _, first = different[0]
            oracle.close()  # with the answers that are still on their way
            smallest = shrink(oracle, case, kind_of(first), compare)
            left = "\n".join(text for _, text in compare(smallest, oracle.ask(smallest)))
            reported = (
                f"seed {case.seed}: {len(different)} differences, the first is\n{first}\nand in the smallest case"
            )
            pytest.fail(f"{reported}\n{left}\nin\n{smallest}", pytrace=False)
