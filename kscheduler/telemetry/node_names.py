"""Find the node that an element of an answer is about, from the element's labels."""

from __future__ import annotations

from collections.abc import Mapping

# Tried in this order if no label is configured: the labels that most rules and exporters use.
NODE_LABELS = ("node", "instance")
LABELS_TRIED = " or ".join(NODE_LABELS)


def node_of(labels: Mapping[str, str], label: str) -> str:
    """Return the name of the node in the labels, without a port; "" if they name none."""
    if label:
        return without_port(labels.get(label, ""))
    return next((without_port(labels[known]) for known in NODE_LABELS if labels.get(known)), "")


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and ":" not in name else host
