"""Parses field selectors as the apiserver does: `metadata.name=a,status.phase!=Failed`, for the fields it supports."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from kscheduler.client.kinds import NODES, PODS, Resource
from kscheduler.errors import APIError


class Selector(NamedTuple):
    """Selects the objects for which `read` returns none of the excluded values.

    Watches ask that for each change, and read both fields themselves: a call less.
    """

    read: Callable[[Any], object]
    excluded: frozenset[object]

    def __call__(self, item: Any) -> bool:
        return self.read(item) not in self.excluded


EVERYTHING = Selector(id, frozenset())

_METADATA: dict[str, Callable[[Any], str]] = {
    "metadata.name": attrgetter("metadata.name"),
    "metadata.namespace": attrgetter("metadata.namespace"),
}
# plural of a resource -> field that the apiserver supports in selectors -> getter of its value
_FIELDS: dict[str, dict[str, Callable[[Any], str]]] = {
    PODS.plural: {
        **_METADATA,
        "spec.nodeName": attrgetter("spec.node_name"),
        "spec.schedulerName": attrgetter("spec.scheduler_name"),
        "status.phase": attrgetter("status.phase"),
        "status.nominatedNodeName": attrgetter("status.nominated_node_name"),
    },
    NODES.plural: {
        "metadata.name": _METADATA["metadata.name"],
        "spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false",
    },
}


def parse_field_selector(resource: Resource[Any], text: str) -> Selector | None:
    """Return a predicate over objects of this resource, of its namespace and with its label; None if all are selected.

    Raises APIError 400 for a field that the apiserver does not support for this resource.
    """
    terms = [_parse_term(resource, term) for term in text.split(",") if term]
    if resource.namespace:
        terms.append((_METADATA["metadata.namespace"], resource.namespace, True))
    if resource.label:
        terms.append((lambda item: "yes" if resource.label in (item.metadata.labels or ()) else "", "yes", True))
    if not terms:
        return None
    # Without a loop where all terms exclude values of one field, as those of unfinished pods.
    first = terms[0][0]
    if all(read is first and not is_equal for read, _, is_equal in terms):
        return Selector(first, frozenset(wanted for _, wanted, _ in terms))

    def is_selected(item: Any) -> bool:
        return all((read(item) == wanted) is is_equal for read, wanted, is_equal in terms)

    return Selector(is_selected, frozenset((False,)))


def _parse_term(resource: Resource[Any], term: str) -> tuple[Callable[[Any], str], str, bool]:
    """Parse one term of a selector: return a getter of the field, the value, and True for `=`, False for `!=`."""
    path, operator, wanted = _split(term)
    read = _FIELDS.get(resource.plural, _METADATA).get(path)
    if read is None:
        raise APIError(f'field label not supported: "{path}"', status=400, reason="BadRequest")
    return read, wanted, operator != "!="


def _split(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        path, found, wanted = term.partition(operator)
        if found:
            return path, operator, wanted
    raise APIError(f'invalid field selector: "{term}" has no = or !=', status=400, reason="BadRequest")
