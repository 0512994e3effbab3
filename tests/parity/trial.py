"""Cases put to the oracle and to this program, until one differs; it is then reduced while it still differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import pytest

from tests.parity.oracle_process import OracleProcess, Question, Reply
from tests.parity.shrink import kind_of, shrink

Q = TypeVar("Q", bound=Question)
A = TypeVar("A", bound=Reply)
_Q = TypeVar("_Q", contravariant=True)
_A = TypeVar("_A", contravariant=True)


class Counting(Protocol[_Q, _A]):
    """What keeps account of the cases that were met."""

    def add(self, case: _Q, answer: _A) -> None: ...


def try_all(
    oracle: OracleProcess[Q, A],
    cases: Iterable[Q],
    compare: Callable[[Q, A], list[tuple[int, str]]],
    coverage: Counting[Q, A],
) -> None:
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
