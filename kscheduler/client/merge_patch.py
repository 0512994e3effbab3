"""JSON merge patches (RFC 7386) of one version of an object, and their result as an apiserver computes it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kscheduler.api.decode import decode_object
from kscheduler.input.decoding import json_decoder

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decode = json_decoder(dict[str, Any])


def versioned(patch: dict[str, object], resource_version: str) -> dict[str, object]:
    """Return the patch with a resource version, so that the apiserver refuses it for any other version."""
    metadata = patch.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    return {**patch, "metadata": {**given, "resourceVersion": resource_version}}


def patched(item: T, patch: dict[str, object]) -> T:
    """Return the object with the patch applied. Raises DecodeError if the result is not a valid object of its kind.

    The patch may hold structs of `api` as values.
    """
    return decode_object(_encode(merge(_decode(_encode(item)), patch)), type(item))


def merge(target: object, patch: dict[str, object]) -> dict[str, object]:
    """Return the target with the members of the patch: None removes a member, and nested objects are merged."""
    result: dict[str, object] = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value) if isinstance(value, dict) else value
    return result
