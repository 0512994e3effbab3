"""Which node an element of an answer is about, by its labels."""

from __future__ import annotations

from collections.abc import Mapping

# Without a label of the user's choice: what most rules and exporters write.
NODE_LABELS = ("node", "instance")
LABELS_TRIED = " or ".join(NODE_LABELS)


def node_of(labels: Mapping[str, str], label: str) -> str:
    """The node that the labels name; "" if they name none. A port is no part of a node's name."""
    if label:
        return without_port(labels.get(label, ""))
    return next((without_port(labels[known]) for known in NODE_LABELS if labels.get(known)), "")


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and ":" not in name else host
