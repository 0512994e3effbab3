"""Implements `kscheduler explain POD`: requests a pod's explanation from a running scheduler, and prints it."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

from kscheduler.clock import Clock
from kscheduler.command.scheduler_endpoint import SchedulerEndpoint
from kscheduler.errors import APIError, ConfigError, DecodeError
from kscheduler.explain.endpoint import PATH
from kscheduler.explain.options import ExplainOptions
from kscheduler.explain.text import explanation_text
from kscheduler.input.decoding import decode_loosely


def explain(options: ExplainOptions, clock: Clock) -> str:
    """Request the explanation and return it as text.

    Raises ConfigError for wrong options, APIError if the request fails.
    """
    query = urllib.parse.urlencode(
        {
            "pod": pod_key(options),
            "nodes": "all" if options.all_nodes else "top",
            "top": options.top_nodes,
        }
    )
    endpoint = SchedulerEndpoint(options, clock)
    answer = endpoint.get(f"{PATH}?{query}")
    try:
        document: dict[str, Any] = decode_loosely(answer)
        return json.dumps(document, indent=2) + "\n" if options.output == "json" else explanation_text(document)
    except (DecodeError, KeyError, TypeError) as error:
        text = endpoint.hidden(answer)[:200]
        raise APIError(f"{endpoint.shown}: expected an explanation, got {text!r}") from error


def pod_key(options: ExplainOptions) -> str:
    """Return the POD argument, which is `NAME`, `NAMESPACE/NAME` or kubectl's `pod/NAME`, as NAMESPACE/NAME."""
    namespace, slash, name = options.pod.rpartition("/")
    if not slash or namespace in ("pod", "pods"):
        namespace = options.namespace
    if not namespace or not name or "/" in namespace:
        raise ConfigError(f"POD: expected a name, or NAMESPACE/NAME, got {options.pod!r}")
    return f"{namespace}/{name}"
