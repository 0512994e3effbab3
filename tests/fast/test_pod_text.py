"""Keys of pods' texts: both forms cut the same names out."""

from __future__ import annotations

from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import MAX_TEXT
from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool

PARTS = (b'{"app":"web"}', b"", b"[]")


def test_pods_that_differ_in_their_own_names_have_one_key(fast: ModuleType) -> None:
    texts = [
        b'{"volumes":[{"name":"kube-api-access-%s"}],"mounts":["kube-api-access-%s"],"nodeName":"%s","x":1}' % names
        for names in ((b"a", b"a", b"n1"), (b"bcd", b"bcd", b"node-2"))
    ]
    keys = [fast.cut_names(text, *PARTS) for text in texts]
    assert keys[0][0] == keys[1][0]
    assert [key[1:] for key in keys] == [(b"n1", b"kube-api-access-a"), (b"node-2", b"kube-api-access-bcd")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"nodeName":"n"}', b'{"a":1}'),
        (b'{"a":1,"nodeName":"n"}', b'{"nodeName":"n","a":1}'),
        (b'["kube-api-access-a","kube-api-access-"]', b'["kube-api-access-a","kube-api-access-a"]'),
        (b'["kube-api-access-a","kube-api-access-b"]', b'["kube-api-access-a","kube-api-access-a"]'),
    ],
)
def test_pods_that_differ_in_anything_else_have_two_keys(fast: ModuleType, one: bytes, other: bytes) -> None:
    assert fast.cut_names(one, *PARTS)[0] != fast.cut_names(other, *PARTS)[0]


def test_parts_are_distinguished(fast: ModuleType) -> None:
    assert fast.cut_names(b"s", b"ab", b"c", b"")[0] != fast.cut_names(b"s", b"a", b"bc", b"")[0]


def test_parts_of_a_larger_text_are_read_in_place(fast: ModuleType) -> None:
    raw = msgspec.json.decode(b'{"spec":{"nodeName":"n1"}}', type=dict[str, msgspec.Raw])["spec"]
    assert fast.cut_names(raw, *PARTS) == fast.cut_names(bytes(raw), *PARTS)


def test_texts_that_are_too_long_or_no_texts_are_refused(fast: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected texts of at most 8000 bytes, got 8001"):
        fast.cut_names(b"x" * (MAX_TEXT - 14), *PARTS)
    with pytest.raises(TypeError):
        fast.cut_names(None, *PARTS)


pieces = st.sampled_from(
    [b'"nodeName":"', b"kube-api-access-", b'"', b"a", b"kube-api-access-a", b"\\", b"n1", b",", b"{"]
)
texts = st.lists(pieces, max_size=12).map(b"".join)


@given(texts, texts, texts, texts)
def test_both_forms_agree_on_any_text(spec: bytes, labels: bytes, annotations: bytes, owners: bytes) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    found = compiled.cut_names(spec, labels, annotations, owners)
    assert found == reference.cut_names(spec, labels, annotations, owners)
