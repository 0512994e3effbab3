"""Field selectors as the apiserver reads them: `metadata.name=a,status.phase!=Failed`, over the fields it indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.client.protocol import NODES, PODS, Resource
from kscheduler.errors import APIError

Selector = Callable[[Any], bool]

_METADATA: dict[str, Callable[[Any], str]] = {
    "metadata.name": lambda item: item.metadata.name,
    "metadata.namespace": lambda item: item.metadata.namespace,
}
# resource -> the fields the apiserver lets one select by, and how they read
_FIELDS: dict[str, dict[str, Callable[[Any], str]]] = {
    PODS.plural: {
        **_METADATA,
        "spec.nodeName": lambda pod: pod.spec.node_name,
        "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
        "status.phase": lambda pod: pod.status.phase,
        "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name,
    },
    NODES.plural: {
        "metadata.name": _METADATA["metadata.name"],
        "spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false",
    },
}


def parse_field_selector(resource: Resource[Any], text: str) -> Selector | None:
    """Return a predicate over objects of this resource (in its namespace, if it has one); None selects all.

    Raises APIError 400 for a field the apiserver does not know.
    """
    tests = [_parse_term(resource, term) for term in text.split(",") if term]
    if resource.namespace:
        tests.append(lambda item: bool(item.metadata.namespace == resource.namespace))
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda item: all(test(item) for test in tests)


def _parse_term(resource: Resource[Any], term: str) -> Selector:
    path, operator, wanted = _split(term)
    read = _FIELDS.get(resource.plural, _METADATA).get(path)
    if read is None:
        raise APIError(f'field label not supported: "{path}"', status=400, reason="BadRequest")
    if operator == "!=":
        return lambda item: read(item) != wanted
    return lambda item: read(item) == wanted


def _split(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        path, found, wanted = term.partition(operator)
        if found:
            return path, operator, wanted
    raise APIError(f'invalid field selector: "{term}" has no = or !=', status=400, reason="BadRequest")
