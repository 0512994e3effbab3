"""The oracle's driver, with scripts in the oracle's place: it needs no Go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parity.case import EVALUATE, Case
from tests.parity.oracle import Oracle
from tests.parity.oracle_process import OracleError

SCRIPT = f"""#!{sys.executable} -I
import sys
for line in sys.stdin:
    if "please-die" in line:
        sys.exit("no memory left")
    if "please-refuse" in line:
        print('{{"error": "pods: not today", "queueOrder": null, "pods": null}}', flush=True)
    else:
        print('{{"nodeOrder": ["n1"], "pods": []}}', flush=True)
"""


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[Oracle]:
    script = tmp_path / "oracle"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    running = Oracle(script)
    yield running
    running.close()


def case(seed: int, name: str = "fine") -> Case:
    return Case(seed, EVALUATE, {"name": name})


def test_answers_come_with_their_cases_in_order(oracle: Oracle) -> None:
    cases = [case(seed) for seed in range(10)]
    answered = list(oracle.answers(iter(cases)))
    assert [asked for asked, _ in answered] == cases
    assert {tuple(answer.node_order or ()) for _, answer in answered} == {("n1",)}


def test_a_refused_request_says_why_and_the_next_is_answered(oracle: Oracle) -> None:
    with pytest.raises(OracleError, match="seed 7: the oracle refused the request: pods: not today"):
        oracle.ask(case(7, "please-refuse"))
    assert oracle.ask(case(8)).node_order == ["n1"]


def test_an_oracle_that_dies_is_reported_with_its_last_words_and_started_again(oracle: Oracle) -> None:
    with pytest.raises(OracleError, match=r"seed 3: the oracle ended with exit code .*: no memory left"):
        oracle.ask(case(3, "please-die"))
    assert oracle.ask(case(4)).node_order == ["n1"]


def test_answers_to_questions_nobody_waits_for_any_more_are_not_taken_for_others(oracle: Oracle) -> None:
    for _ in oracle.answers(case(seed) for seed in range(10)):
        break
    with pytest.raises(OracleError, match="not today"):
        oracle.ask(case(11, "please-refuse"))
