"""The measurement of wasm calls measures wasmer too, where its library is."""

from __future__ import annotations

import pytest

from perf import wasm_calls
from tests.wasm.conformance.conftest import made_engine


@pytest.mark.slow
def test_a_round_measures_wasmer_beside_wasmtime(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_engine("wasmer")
    monkeypatch.setattr(wasm_calls, "TIMES", 20)
    monkeypatch.setattr(wasm_calls, "WORK", 1000)
    assert wasm_calls.main(["--rounds", "1"]) == 0
    printed = capsys.readouterr().out
    for engine in ("wasmtime", "wasmer"):
        assert printed.count(f"{engine}: ") == len(wasm_calls.GOALS)
