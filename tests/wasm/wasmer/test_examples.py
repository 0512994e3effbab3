"""The examples in C, Go, AssemblyScript and Rust by wasmer decide as those in C do by wasmtime."""

from __future__ import annotations

import pytest

from kscheduler.wasm.batch.points import Point
from tests.wasm.batch.sdks import CASES, decide_as_in_c, sdk_builder

pytestmark = pytest.mark.slow  # compilers run


@pytest.mark.parametrize(("name", "config", "points"), CASES)
@pytest.mark.parametrize("language", ["c", *sdk_builder.LANGUAGES])
def test_an_example_makes_the_same_decisions_by_either_engine(
    language: str, name: str, config: str, points: tuple[Point, ...]
) -> None:
    decide_as_in_c(language, "wasmer", name, config, points)
