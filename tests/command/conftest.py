"""What tests of several commands give to them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The flag that names a file with a token that the served scheduler accepts."""
    path = tmp_path / "token"
    path.write_text("good\n")
    return f"--token-file={path}"
