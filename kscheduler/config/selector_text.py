"""Parses label selectors in one line of text: "app=web,tier in (a,b),!canary,disk>10"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kscheduler.input.names import label_value_faults, qualified_name_faults

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<negation>!)\s*)?(?P<key>[^\s,()!=<>]+)\s*"
    r"(?:(?P<operator>==|=|!=|<|>)\s*(?P<value>[^\s,()!=<>]*)"
    r"|(?P<membership>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)


def selector_text_fault(text: str) -> str:
    """Return what is wrong with the text of a selector, or "". An empty text is valid and selects everything."""
    position = 0
    if text.rstrip().endswith(","):
        return "must not end with a comma"
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or (match["negation"] and (match["operator"] or match["membership"])):
            return f'expected a requirement such as "app=web" or "tier in (a,b)" at {text[position : position + 40]!r}'
        fault = _requirement_fault(match)
        if fault:
            return fault
        position = match.end()
    return ""


def requirements(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (key, operator, values) of each requirement of a valid text, with the operators of label selectors.

    Greater and less are "Gt" and "Lt", which only node selectors have.
    """
    operators = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", "<": "Lt", ">": "Gt"}
    for match in _REQUIREMENT.finditer(text):
        operator = match["operator"] or match["membership"]
        if operator is None:
            yield match["key"], "DoesNotExist" if match["negation"] else "Exists", []
            continue
        values = match["value"] if match["operator"] else match["values"]
        yield match["key"], operators[operator], [value.strip() for value in values.split(",")]


def _requirement_fault(match: re.Match[str]) -> str:
    faults = qualified_name_faults(match["key"])
    operator = match["operator"]
    if operator in ("<", ">"):
        if not re.fullmatch(r"-?[0-9]{1,18}", match["value"]):
            faults.append(f"expected an integer after {operator}")
    elif operator:
        faults += label_value_faults(match["value"])
    elif match["membership"]:
        for value in match["values"].split(","):
            faults += label_value_faults(value.strip())
    return "; ".join(faults)
