"""The oracle's process: Kubernetes' own evaluation of selectors, asked in lines of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec


class Verdict(msgspec.Struct):
    """What became of one device."""

    matches: bool = False
    error: str = ""
    cost: int = 0


class Computed(msgspec.Struct, rename="camel"):
    """What is known of two quantities; the texts are canonical."""

    error: str = ""
    first: str = ""
    sum: str = ""
    diff: str = ""
    cmp: int = 0
    value: int = 0
    int_: int | None = msgspec.field(default=None, name="int")
    float_: str = msgspec.field(default="", name="float")


class Answer(msgspec.Struct, rename="camel"):
    error: str = ""  # the oracle crashed, as kube-scheduler would
    compile_error: str = ""
    verdicts: list[Verdict] = []
    computed: list[Computed] = []


class Oracle:
    """The process, for questions that are all known at once."""

    def __init__(self, executable: Path) -> None:
        self._executable = executable

    def judge(self, cases: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[Answer]:
        """Return the answers about expressions with their devices, in order."""
        return self._ask([{"expression": expression, "devices": devices} for expression, devices in cases])

    def compute(self, pairs: Sequence[tuple[str, str]]) -> list[Computed]:
        """Return what is computed of pairs of quantities, in order."""
        return self._ask([{"quantities": list(pairs)}])[0].computed

    def _ask(self, questions: list[dict[str, Any]]) -> list[Answer]:
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run([self._executable], input=lines, capture_output=True, text=True, check=True)
        answers = [msgspec.json.decode(line, type=Answer) for line in done.stdout.splitlines()]
        assert len(answers) == len(questions), done.stderr
        return answers
