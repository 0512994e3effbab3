"""Merge patches, by the examples of RFC 7386 as far as they apply to objects, and on API structs."""

from __future__ import annotations

from typing import Any

import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.storage import ObjectReference, PersistentVolume, PersistentVolumeSpec
from kscheduler.client.merge_patch import merge, patched, versioned
from kscheduler.errors import DecodeError

RFC_7386: list[tuple[Any, dict[str, Any], Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), RFC_7386)
def test_merging_is_that_of_the_rfc(target: Any, patch: dict[str, Any], expected: Any) -> None:
    assert merge(target, patch) == expected


def test_merging_changes_neither_target_nor_patch() -> None:
    target: dict[str, Any] = {"a": {"b": 1}}
    patch: dict[str, Any] = {"a": {"c": 2}}
    merge(target, patch)
    assert (target, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_struct_is_patched_under_the_names_of_the_api() -> None:
    before = PersistentVolume(ObjectMeta(name="pv", labels={"a": "b"}, annotations={"x": "y"}))
    patch: dict[str, object] = {
        "metadata": {"annotations": {"x": None, "z": "1"}},
        "spec": {"claimRef": {"name": "c", "uid": "u"}},
    }
    after = patched(before, patch)
    assert after == PersistentVolume(
        ObjectMeta(name="pv", labels={"a": "b"}, annotations={"z": "1"}),
        PersistentVolumeSpec(claim_ref=ObjectReference(name="c", uid="u")),
    )


def test_a_patch_that_leaves_no_such_object_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"spec\.capacity: expected object"):
        patched(PersistentVolume(), {"spec": {"capacity": "10Gi"}})


def test_the_version_stands_beside_what_is_patched_and_removed() -> None:
    assert versioned({"spec": {"a": None}}, "5") == {"spec": {"a": None}, "metadata": {"resourceVersion": "5"}}
    patch: dict[str, object] = {"metadata": {"annotations": {"a": None}}}
    assert versioned(patch, "5") == {"metadata": {"annotations": {"a": None}, "resourceVersion": "5"}}
    assert patch == {"metadata": {"annotations": {"a": None}}}
