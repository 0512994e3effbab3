"""Kubernetes' rules for names: of labels and resources (`[prefix/]name`), of label values, and of objects."""

from __future__ import annotations

import functools
import re

_NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = re.compile(_NAME_PATTERN, re.ASCII)
_SUBDOMAIN = re.compile(_SUBDOMAIN_PATTERN, re.ASCII)
MAX_NAME = 63
MAX_SUBDOMAIN = 253

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PATTERN}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_PATTERN}')"
)


_VALUE_PATTERN = f"({_NAME_PATTERN})?"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE_PATTERN}')"
)


@functools.lru_cache(maxsize=4_096)
def is_qualified_name(text: str) -> bool:
    """Return True for `name` or `domain/name`, the form of label keys and resource names."""
    return not qualified_name_faults(text)


@functools.lru_cache(maxsize=4_096)
def is_label_value(text: str) -> bool:
    """Return True for up to 63 letters, digits, "-", "_" and ".", a letter or digit at both ends; or ""."""
    return not label_value_faults(text)


def label_value_faults(value: str) -> list[str]:
    """Return why `value` is not a valid label value; [] if it is."""
    faults = []
    if len(value.encode()) > MAX_NAME:
        faults.append(f"must be no more than {MAX_NAME} bytes")
    if value and not _NAME.fullmatch(value):
        faults.append(_VALUE_RULE)
    return faults


def qualified_name_faults(value: str) -> list[str]:
    """Return why `value` is not a valid `[prefix/]name`, in Kubernetes' words; [] if it is."""
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    faults = _prefix_faults(parts[0]) if len(parts) == 2 else []
    name = parts[-1]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > MAX_NAME:
        faults.append(f"name part must be no more than {MAX_NAME} bytes")
    if not _NAME.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return faults


def subdomain_faults(value: str) -> list[str]:
    """Return why `value` is not a valid object name; [] if it is."""
    faults = []
    if len(value.encode()) > MAX_SUBDOMAIN:
        faults.append(f"must be no more than {MAX_SUBDOMAIN} bytes")
    if not _SUBDOMAIN.fullmatch(value):
        faults.append(_SUBDOMAIN_RULE)
    return faults


def _prefix_faults(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    faults = []
    if len(prefix.encode()) > MAX_SUBDOMAIN:
        faults.append(f"prefix part must be no more than {MAX_SUBDOMAIN} bytes")
    if not _SUBDOMAIN.fullmatch(prefix):
        faults.append(f"prefix part {_SUBDOMAIN_RULE}")
    return faults
