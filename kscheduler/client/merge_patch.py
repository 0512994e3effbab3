"""JSON merge patches (RFC 7386): said of one version of an object, and what an apiserver makes of them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kscheduler.api.decode import convert_object

T = TypeVar("T")


def versioned(patch: dict[str, object], resource_version: str) -> dict[str, object]:
    """The patch with the version it is meant for, which the apiserver then insists on."""
    metadata = patch.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    return {**patch, "metadata": {**given, "resourceVersion": resource_version}}


def patched(item: T, patch: dict[str, object]) -> T:
    """The object after the patch. Raises DecodeError if that is none of its kind."""
    return convert_object(merge(msgspec.to_builtins(item), patch), type(item))


def merge(target: object, patch: dict[str, object]) -> dict[str, object]:
    """The members of a patch take the place of the target's; None removes; objects are merged in turn."""
    result: dict[str, object] = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value) if isinstance(value, dict) else value
    return result
