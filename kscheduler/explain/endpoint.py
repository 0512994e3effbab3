"""Serves `GET /debug/kscheduler/explain?pod=NAMESPACE/NAME`: the explanation of one pod, as JSON.

`nodes=all` adds each node's filter result; `top=N` sets how many of the best nodes are shown with their scores.
`GET /debug/kscheduler/explain?gang=NAMESPACE/NAME` explains a gang.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from aiohttp import web

from kscheduler.explain.options import DEFAULT_TOP_NODES, MAX_TOP_NODES

MAX_KEY = 253 + 1 + 63  # the longest name of a pod, "/", and the longest name of a namespace


class Explains(Protocol):
    def explain(
        self, key: str, *, all_nodes: bool = False, top_nodes: int = DEFAULT_TOP_NODES
    ) -> dict[str, Any] | None: ...

    def absence(self, key: str) -> str: ...

    def explain_gang(self, key: str) -> dict[str, Any] | None: ...

    def gang_absence(self, key: str) -> str: ...


class ExplainEndpoint:
    def __init__(self, explainer: Explains) -> None:
        self._explainer = explainer

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "gang" in request.query:
            return self._answer_gang(_key(request.query["gang"], "gang"))
        key = _key(request.query.get("pod", ""), "pod")
        all_nodes = _choice("nodes", request.query.get("nodes", "top"), "top", "all") == "all"
        top = _count("top", request.query.get("top", str(DEFAULT_TOP_NODES)))
        found = self._explainer.explain(key, all_nodes=all_nodes, top_nodes=top)
        if found is None:
            raise web.HTTPNotFound(text=self._explainer.absence(key))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    def _answer_gang(self, key: str) -> web.StreamResponse:
        found = self._explainer.explain_gang(key)
        if found is None:
            raise web.HTTPNotFound(text=self._explainer.gang_absence(key))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")


def is_key(text: str) -> bool:
    """Return True if the text has the form NAMESPACE/NAME, and is no longer than a pod's can be."""
    namespace, _, name = text.partition("/")
    return bool(namespace and name) and "/" not in name and len(text) <= MAX_KEY


def _key(text: str, what: str) -> str:
    if not is_key(text):
        raise web.HTTPBadRequest(text=f"{what}: expected NAMESPACE/NAME, got {text[:MAX_KEY]!r}")
    return text


def _choice(field: str, text: str, *allowed: str) -> str:
    if text not in allowed:
        raise web.HTTPBadRequest(text=f"{field}: expected {' or '.join(allowed)}, got {text[:MAX_KEY]!r}")
    return text


def _count(field: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= MAX_TOP_NODES):
        raise web.HTTPBadRequest(text=f"{field}: expected a number from 0 to {MAX_TOP_NODES}, got {text[:MAX_KEY]!r}")
    return int(text)
