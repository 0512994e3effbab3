"""YAML is read as by Kubernetes, and nothing that a file says takes more than its size in time or memory.

`yaml_read_by_go.json` holds what sigs.k8s.io/yaml 1.6.0 made of each text in YAMLToJSON and YAMLToJSONStrict: the
text, the value, and whether it was read, read with repeated keys, or refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kscheduler
from kscheduler.errors import DecodeError
from kscheduler.input.yaml_documents import MAX_DEPTH, read_one_yaml, read_yaml, write_yaml

READ_BY_GO: list[tuple[str, Any, str]] = [
    tuple(row) for row in json.loads(Path(__file__).with_name("yaml_read_by_go.json").read_text(encoding="utf-8"))
]


@pytest.fixture(params=[False, True], ids=["plain", "libyaml"])
def is_large(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def values(text: str | bytes, is_large: bool) -> list[Any]:
    return [document.value for document in read_yaml(text, is_large=is_large)]


@pytest.mark.parametrize(("text", "value", "how"), READ_BY_GO, ids=lambda part: repr(part)[:40])
def test_a_text_means_what_it_means_to_kubernetes(text: str, value: Any, how: str, is_large: bool) -> None:
    if how == "refused":
        with pytest.raises(DecodeError):
            values(text, is_large)
        return
    documents = list(read_yaml(text, is_large=is_large))
    assert [document.value for document in documents] in ([value], [] if value is None else [value])
    assert bool(documents and documents[0].repeated) == (how == "repeated")
    if documents:
        assert json.dumps(documents[0].value, sort_keys=True) == json.dumps(value, sort_keys=True).replace("-0.0", "0")


def test_what_nests_deeper_than_any_object_is_refused_where_it_does(is_large: bool) -> None:
    assert values("[" * MAX_DEPTH + "]" * MAX_DEPTH, is_large)
    for opening in ("[", "{a: ", "- "):
        with pytest.raises(DecodeError, match=f"line 1, column .*nested more than {MAX_DEPTH} levels deep"):
            values(opening * 200_000, is_large)


def bomb(levels: int, width: int) -> str:
    items = ["x", *(f"*a{level}" for level in range(levels - 1))]
    return "\n".join(f"a{level}: &a{level} [{', '.join([item] * width)}]" for level, item in enumerate(items))


def test_a_text_that_grows_by_aliases_is_refused_and_a_modest_one_is_read(is_large: bool) -> None:
    with pytest.raises(DecodeError, match="excessive aliasing"):
        values(bomb(9, 9), is_large)
    [found] = values(bomb(3, 9), is_large)
    assert found["a2"][8][8] == ["x"] * 9


def test_an_anchor_that_is_given_again_inside_its_own_value_names_the_newer_one(is_large: bool) -> None:
    assert values("a: &x {b: &x 1, c: *x}\nd: *x", is_large) == [{"a": {"b": 1, "c": 1}, "d": 1}]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a:\n\tb: 1", r"line 2, column 1: found character '\t' that cannot start any token (a tab: YAML is indented"),
        ("a: [1, 2", "line 1, column 9: expected ',' or ']', but got '<stream end>'"),
        ("%a\n", "line 2, column 1: expected '<document start>', but found '<stream end>'"),
        ("a: !hunter2!x y", "line 1, column 4: found undefined tag handle <hidden>"),
    ],
)
def test_a_fault_shows_what_the_parser_expected_and_nothing_of_the_text(text: str, fault: str) -> None:
    with pytest.raises(DecodeError) as caught:
        values(text, is_large=False)
    assert fault in str(caught.value)


def test_what_stands_in_a_faulty_text_is_not_quoted(is_large: bool) -> None:
    for text in (
        "password: *hunter2",
        "password: @hunter2",
        "token: !!int hunter2",
        "a: 1\n\thunter2: 2",
        "'hunter2",
        "a: !hunter2!x y",
    ):
        with pytest.raises(DecodeError) as caught:
            values(text, is_large)
        assert "hunter2" not in str(caught.value)


def test_two_escapes_of_json_make_one_character(is_large: bool) -> None:
    if is_large:  # refuses them, as Go does outside JSON
        return
    assert values('{"a": "\\ud83d\\ude00"}', is_large) == [{"a": "😀"}]
    with pytest.raises(DecodeError, match="invalid Unicode"):
        values('{"a": "\\ud83d"}', is_large)


def test_texts_of_powershell_and_of_notepad_are_read() -> None:
    for encoding in ("utf-16", "utf-8-sig", "utf-8"):
        assert read_one_yaml("a: é".encode(encoding)).value == {"a": "é"}


def test_a_second_document_is_refused_where_there_can_be_one_only() -> None:
    assert read_one_yaml("") == (None, [])
    with pytest.raises(DecodeError, match="expected one document, got more"):
        read_one_yaml("a: 1\n---\nb: 2")
    for end in ("---", "---\n", "...\n---\n# the end\n", "---\n---\n"):
        assert read_one_yaml(f"a: 1\n{end}").value == {"a": 1}


def test_what_is_written_is_read_back_by_go_too() -> None:
    texts = [text for text, _, _ in READ_BY_GO] + ["y", "0o17", "1e3", "=", "<<", "1:30", "2026-01-01", "plain"]
    assert read_one_yaml(write_yaml({"texts": texts, "n": 1, "y": None})).value == {"texts": texts, "n": 1, "y": None}
    assert write_yaml(["y", "0o17", "1e3", "plain"]) == "- 'y'\n- '0o17'\n- '1e3'\n- plain\n"


def test_nobody_else_reads_yaml() -> None:
    root = Path(kscheduler.__file__).parent
    sources = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    readers = [name for name, text in sources.items() if "import yaml" in text and not name.startswith("testing/")]
    assert readers == ["input/yaml_documents.py"]
