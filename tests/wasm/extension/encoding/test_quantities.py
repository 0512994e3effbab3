"""The texts that Kubernetes writes. All of them were asked of Kubernetes itself: see test_against_kubernetes."""

from __future__ import annotations

import pytest

from kscheduler.errors import DecodeError
from kscheduler.wasm.extension.encoding.quantities import canonical_quantity


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("0", "0"), ("0Ki", "0"), ("100m", "100m"), ("0.1", "100m"), ("1000m", "1"), ("1000", "1k"),
        ("1.5Gi", "1536Mi"),
        ("65536Mi", "64Gi"), ("9Ki", "9Ki"), ("512Mi", "512Mi"), ("0.5Ki", "512"), ("1e3", "1e3"), ("1000e3", "1e6"),
        ("1.500", "1.500"), ("0.0000000001", "1n"), ("-1.5", "-1500m"), (" 2 ", "2"), (4, "4"), (0.25, "250m"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_as_kubernetes_writes_it(given: str | int | float, written: str) -> None:
    assert canonical_quantity(given) == written


@pytest.mark.parametrize("given", ["", "much", "1 Gi", "1e", ".", "1e99999", "9" * 600])
def test_what_is_no_quantity_is_refused(given: str) -> None:
    with pytest.raises(DecodeError):
        canonical_quantity(given)
