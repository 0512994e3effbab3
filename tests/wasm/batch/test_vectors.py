"""The examples of the ABI's page are what the codecs make of them."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import msgspec
import pytest

ABI = Path(__file__).parents[3] / "plugins" / "abi"
make_vectors = SimpleNamespace(**runpy.run_path(str(ABI / "make_vectors.py")))
FILES = sorted((ABI / "vectors").glob("*.json"))


def stored(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_every_vector_has_its_file_and_the_other_way_round() -> None:
    assert {path.stem for path in FILES} == set(make_vectors.VECTORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stored_vector_is_what_the_script_writes(path: Path) -> None:
    assert stored(path) == make_vectors.vector(path.stem)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_both_codecs_give_the_stored_bytes_and_read_them(path: Path) -> None:
    vector = stored(path)
    message, packed = make_vectors.to_message(vector["message"]), bytes.fromhex(vector["hex"])
    assert msgspec.msgpack.encode(message) == packed
    assert msgpack.packb(message, use_bin_type=True) == packed
    assert msgspec.msgpack.decode(packed) == message
    assert msgpack.unpackb(packed) == message


def test_the_bytes_on_the_page_are_those_of_the_vectors() -> None:
    text = (ABI / "README.md").read_text()
    blocks = re.findall(r"`([a-z-]+)`[^`]*```text\n(.*?)```", text[text.index("## 9.") :], re.DOTALL)
    assert [name for name, _ in blocks] == ["table-usage-delta", "answer-filter", "answer-score-batch"]
    for name, block in blocks:
        assert _hex_of(block) == stored(ABI / "vectors" / f"{name}.json")["hex"]


def _hex_of(block: str) -> str:
    """The bytes of a dump: all that comes before the words on each line."""
    digits = ""
    for line in block.splitlines():
        for word in line.split():
            if not re.fullmatch(r"(?:[0-9a-f]{2})+", word):
                break
            digits += word
    return digits
