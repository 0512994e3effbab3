"""Formats field errors as Kubernetes does: `path: Invalid value: "x": detail`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kscheduler.config.duration import Duration
from kscheduler.config.types import ConfigStruct
from kscheduler.input.names import subdomain_faults
from kscheduler.input.redaction import Secret


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {go_value(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value: {detail}" if detail else f"{path}: Required value"


def wrong_name(path: str, name: str) -> list[str]:
    """Return the errors of a required field that must be a DNS-1123 subdomain, such as an object's name."""
    return [invalid(path, name, message) for message in subdomain_faults(name)] if name else [required(path)]


def duplicate(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {go_value(value)}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> str:
    values = ", ".join(go_value(item) for item in allowed)
    return f"{path}: Unsupported value: {go_value(value)}: supported values: {values}"


def go_value(value: Any) -> str:
    """Return a value as Kubernetes prints it: strings quoted, structs as JSON under their Go field names."""
    return json.dumps(_go(value), separators=(",", ":"), ensure_ascii=False)


def _go(value: Any) -> Any:
    if isinstance(value, (Duration, Secret)):
        return str(value)
    if isinstance(value, ConfigStruct):
        return {_go_name(name): _go(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple)):
        return [_go(item) for item in value]
    return value


def _go_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
