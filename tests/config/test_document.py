"""Files that are no configuration document, each with a message that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.config.document import MAX_BYTES, parse_document, read_document
from kscheduler.errors import ConfigError


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f.yaml: expected a mapping with apiVersion and kind, got null"),
        (b"- 1", "f.yaml: expected a mapping with apiVersion and kind, got a list"),
        (b"text", "f.yaml: expected a mapping with apiVersion and kind, got a string"),
        (b"a: [", "f.yaml: expected YAML or JSON: line 1, column 5: "),
        (b"a: \xff", "f.yaml: expected YAML or JSON: byte 3 is no part of UTF-8 text"),
        (b"a: 1\nb: 2\na: 3", 'f.yaml: strict decoding error: line 3: key "a" already set in map'),
        (b'{"a": {"b": 1, "b": 2}}', 'f.yaml: strict decoding error: line 1: key "b" already set in map'),
        (b"a: 1\n---\nb: 2", "f.yaml: expected YAML or JSON: expected one document, got more"),
        (b"a: 0o9\n\tb: 1", "f.yaml: expected YAML or JSON: line 2, column 1: "),
        (b"[" * 1_000, "f.yaml: expected YAML or JSON: line 1, column 201: nested more than 200 levels deep"),
        (b"#" * (MAX_BYTES + 1), "f.yaml: expected a configuration of at most 1048576 bytes"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_document_is_refused_with_file_and_place(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_document(data, "f.yaml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_json_is_read_as_well() -> None:
    assert parse_document(b'{"a": [1, "x", null, true]}', "f.json") == {"a": [1, "x", None, True]}


def test_dates_stay_text() -> None:
    assert parse_document(b"a: 2026-01-01", "f.yaml") == {"a": "2026-01-01"}


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_document(b"\xef\xbb\xbfa: 1", "f.yaml") == {"a": 1}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_document(str(tmp_path))
