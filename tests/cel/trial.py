"""Puts an expression and devices to this program, and names what differs from the oracle's answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kscheduler.api.devices import DeviceAttribute, DeviceCapacity
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.environment import KUBERNETES_1_36, Environment
from kscheduler.cel.expressions import Selector
from kscheduler.cel.faults import SelectorError
from tests.cel.oracle import Answer, Verdict


def view(device: dict[str, Any]) -> DeviceView:
    """Return a generated device as selectors see it."""
    return DeviceView(
        device["driver"],
        msgspec.convert(device.get("attributes") or {}, dict[str, DeviceAttribute]),
        msgspec.convert(device.get("capacity") or {}, dict[str, DeviceCapacity]),
        device.get("allowMultipleAllocations") or False,
    )


def differences(
    expression: str,
    devices: list[dict[str, Any]],
    answer: Answer,
    seen: Counter[str],
    environment: Environment = KUBERNETES_1_36,
) -> list[str]:
    """Return what differs in verdicts, errors at run time and costs. `seen` counts what the cases came to."""
    if answer.error:  # there is nothing to compare with where Kubernetes' code panics
        seen["panic"] += 1
        return []
    try:
        selector = Selector(expression, environment)
    except SelectorError as error:
        seen["refused"] += 1
        if not answer.compile_error:
            return [f"{expression}\n  compiles for Kubernetes, here: {error}"]
        return [] if _same_refusal(str(error), answer.compile_error) else [f"{expression}\n  {_both(answer, error)}"]
    if answer.compile_error:
        return [f"{expression}\n  compiles here, Kubernetes says: {answer.compile_error}"]
    found = []
    for device, verdict in zip(devices, answer.verdicts, strict=True):
        seen["error" if verdict.error else "match" if verdict.matches else "no match"] += 1
        found += [
            f"{expression}\n  {device}\n  expected {verdict}, got {got}"
            for counted in (False, True)
            if not _agree(got := _judged(selector, device, count=counted), verdict)
        ]
    return found


def _judged(selector: Selector, device: dict[str, Any], *, count: bool) -> Verdict:
    try:
        matches, cost = selector.evaluate(view(device), count=count)
    except SelectorError as error:
        return Verdict(error=str(error), cost=-1)
    return Verdict(matches, cost=cost if count else -1)


def _agree(got: Verdict, expected: Verdict) -> bool:
    is_same_cost = got.cost in (-1, expected.cost)
    return (got.matches, got.error) == (expected.matches, expected.error) and is_same_cost


def _same_refusal(got: str, expected: str) -> bool:
    """Return whether two refusals are the same. Of syntax errors the words are not compared, which are ANTLR's."""
    if "Syntax error" in expected:
        return "Syntax error" in got
    return got == expected


def _both(answer: Answer, error: SelectorError) -> str:
    return f"expected: {answer.compile_error}\n  got: {error}"
