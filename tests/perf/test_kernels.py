"""Every kernel is measured, and figures are what their names say."""

from __future__ import annotations

import pytest

from kscheduler.testing.kernels import load_compiled, reference
from perf.kernels import CODE, KERNELS, Kernel, Result, Scene, main, measure
from tests.support.skips import NOT_BUILT, missing_tool

COMPILED = load_compiled()
needs_compiled = pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)


def noop() -> None:
    """Nothing to measure."""


@needs_compiled
def test_every_kernel_has_a_line_for_each_size_and_what_has_a_twin_its_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ["--rows", "100", "200", "--twin-rows", "100"]
    assert main([*sizes, "--rounds", "1", "--seconds", "0", "--threads", "--thread-rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for kernel in KERNELS:
        small, large = (line for line in lines if f"  {kernel.name}  " in line)
        assert small.endswith("x") == kernel.has_twin
        assert not large.endswith("x")
    assert sum("all rows, 1 thread" in line for line in lines) == 2 * len(sizes[1:3])


@pytest.mark.parametrize("fast", [reference, COMPILED], ids=["reference", "compiled"])
def test_all_rows_of_the_scene_stay_feasible(fast: object) -> None:
    """Else the bytes of a row would not be what every row costs."""
    if fast is None:
        missing_tool(NOT_BUILT)
    scene = Scene(fast, 64)
    for kernel in KERNELS:
        measure(kernel, scene, 1, 0.0)
        scene.mask.take_alive(scene.columns)
        assert scene.verdicts.feasible_count() == 64, kernel.name
    assert scene.fast.filter_fit(scene.columns, scene.verdicts, scene.request, CODE) == 64


def test_result_shows_speed_share_of_a_copy_and_ratio_to_the_twin() -> None:
    kernel = Kernel("k", 40, lambda scene: noop)
    assert str(Result(kernel, 5_000, 4.0, 20.0, 800.0)).split() == [
        "5,000", "k", "4.00", "40", "10.0", "0.50", "800", "200x",
    ]  # fmt: skip
