"""Our encoder and Kubernetes' own, byte by byte; and whether our table of messages is the one it has."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kscheduler.testing.controlplane import ensure
from kscheduler.wasm.extension.encoding.messages import encode
from kscheduler.wasm.extension.encoding.schema import TABLE
from tests.wasm.extension.encoding.generate import Generator, quantity
from tests.wasm.extension.encoding.samples import NODE, POD

pytestmark = pytest.mark.slow

Object = dict[str, Any]
_MARKS = {"one": "", "maybe": "?", "list": "*", "map": "%"}


@pytest.fixture(scope="module")
def kubernetes() -> Path:
    return ensure(["protobuf"]).path("protobuf")


def encode_there(program: Path, objects: Sequence[tuple[str, Object]]) -> list[bytes]:
    lines = b"".join(json.dumps({"kind": kind, "object": found}).encode() + b"\n" for kind, found in objects)
    done = subprocess.run([program], input=lines, capture_output=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (kind, found), answer in zip(objects, answers, strict=True):
        assert "error" not in answer, f"{answer['error']}: {kind} {json.dumps(found)}"
    return [base64.b64decode(answer["protobuf"]) for answer in answers]


def compare(program: Path, objects: Sequence[tuple[str, Object]]) -> None:
    for (kind, found), theirs in zip(objects, encode_there(program, objects), strict=True):
        assert encode(kind, found).hex(" ") == theirs.hex(" "), json.dumps(found)


@pytest.mark.parametrize("fullness", [0.1, 0.4, 0.8])
def test_random_pods_and_nodes_are_encoded_as_by_kubernetes(kubernetes: Path, fullness: float) -> None:
    objects = []
    for seed in range(20):
        generator = Generator(seed, fullness)
        objects += [("Pod", generator.document("Pod")), ("Node", generator.document("Node"))]
    objects.append(("NodeList", {"items": [found for kind, found in objects if kind == "Node"]}))
    compare(kubernetes, objects)


def test_the_samples_are_encoded_as_by_kubernetes(kubernetes: Path) -> None:
    compare(kubernetes, [("Pod", POD), ("Node", NODE), ("Pod", {}), ("Node", {}), ("NodeList", {})])


def test_quantities_are_written_as_by_kubernetes(kubernetes: Path) -> None:
    rng = Generator(7, 1.0)._rng
    texts = sorted({quantity(rng) for _ in range(4000)})
    compare(kubernetes, [("Node", {"status": {"capacity": {"cpu": text}}}) for text in texts])


def test_our_table_has_the_fields_of_the_release(kubernetes: Path) -> None:
    done = subprocess.run([kubernetes, "-schema"], capture_output=True, check=True)
    theirs = json.loads(done.stdout)
    expected = {
        f"{message}.{field['json']}={field['number']}:{field['kind']}{_MARKS[field['shape']]}"
        for message, fields in theirs.items()
        for field in fields
        if message != "ManagedFieldsEntry" and field["json"] != "managedFields"
    }
    assert set(_qualified(TABLE)) == expected


def _qualified(table: str) -> list[str]:
    found: list[str] = []
    message = ""
    for word in table.split():
        if word.endswith(":"):
            message = word[:-1]
        else:
            found.append(f"{message}.{word}")
    return found
