"""Implements `kscheduler explain POD`: requests an explanation of a pod or gang from a scheduler, and prints it."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import replace
from typing import Any

from kscheduler.clock import Clock
from kscheduler.command.scheduler_endpoint import SchedulerEndpoint
from kscheduler.errors import APIError, ConfigError, DecodeError
from kscheduler.explain.options import PATH, ExplainOptions
from kscheduler.explain.text import explanation_text, gangs_text
from kscheduler.input.decoding import decode_loosely

GANG = ("gang", "podgroup")  # in place of a namespace: a gang is meant


def explain(options: ExplainOptions, clock: Clock) -> str:
    """Request the explanation and return it as text.

    Raises ConfigError for wrong options, APIError if the request fails.
    """
    kind, slash, name = options.pod.partition("/")
    is_gang = bool(slash) and kind in GANG  # without a slash it is a pod's name
    asked = {"gang": pod_key(replace(options, pod=name))} if is_gang else _asked_of_pod(options)
    query = urllib.parse.urlencode(asked)
    endpoint = SchedulerEndpoint(options, clock)
    answer = endpoint.get(f"{PATH}?{query}")
    try:
        document: dict[str, Any] = decode_loosely(answer)
        if options.output == "json":
            return json.dumps(document, indent=2) + "\n"
        namespace = options.lease.partition("/")[0]
        return gangs_text(document, namespace) if is_gang else explanation_text(document, namespace)
    except (DecodeError, KeyError, TypeError, AttributeError) as error:
        text = endpoint.hidden(answer)[:200]
        raise APIError(f"{endpoint.shown}: expected an explanation, got {text!r}") from error


def _asked_of_pod(options: ExplainOptions) -> dict[str, object]:
    nodes = "all" if options.all_nodes else "top"
    return {"pod": pod_key(options), "nodes": nodes, "top": options.top_nodes}


def pod_key(options: ExplainOptions) -> str:
    """Return the POD argument, which is `NAME`, `NAMESPACE/NAME` or kubectl's `pod/NAME`, as NAMESPACE/NAME."""
    namespace, slash, name = options.pod.rpartition("/")
    if not slash or namespace in ("pod", "pods"):
        namespace = options.namespace
    if not namespace or not name or "/" in namespace:
        raise ConfigError(f"POD: expected a name, or NAMESPACE/NAME, got {options.pod!r}")
    key = f"{namespace}/{name}"
    if not key.isascii():  # nor can bytes of an argument that are no UTF-8 be sent
        raise ConfigError(f"POD: expected names as Kubernetes has them, in ASCII, got {key!r}")
    return key
