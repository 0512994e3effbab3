"""Answers requests below /ui/: the page's files for everybody, and what the page shows for those who may see it.

The files hold no data, and a browser cannot send a token with an address that is typed into it; so they need none. All
else is below /ui/api/ and needs credentials. Everything only reads.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from kscheduler.client.reviews import User
from kscheduler.explain.endpoint import MAX_KEY, is_key
from kscheduler.serving.authentication import Shown
from kscheduler.serving.live.access import PageAccess, Refused
from kscheduler.serving.live.limits import RequestLimit
from kscheduler.serving.live.nearest import nearest_nodes
from kscheduler.serving.live.readings import NODES, VIEWS, FreeAmounts
from kscheduler.serving.live.redaction import without_nodes
from kscheduler.serving.live.streams import Streams
from kscheduler.ui.assets import LIVE_FILES, live_asset
from kscheduler.ui.server import HEADERS, TYPES

log = logging.getLogger(__name__)

PREFIX = "/ui/"

Explained = tuple[dict[str, Any] | None, str, FreeAmounts | None]
ExplainPod = Callable[[str], Awaitable[Explained]]  # namespace/name -> its explanation, or why there is none
DescribeNode = Callable[[str], Awaitable[dict[str, Any] | None]]
ShownBy = Callable[[web.Request], Shown]


class LivePage:
    """The handler of all requests below /ui/."""

    def __init__(
        self,
        access: PageAccess,
        streams: Streams,
        limit: RequestLimit,
        *,
        explain: ExplainPod,
        node: DescribeNode,
        shown_by: ShownBy,
    ) -> None:
        """Create the page. `explain` and `node` ask the scheduler's loop; `shown_by` returns the credentials shown."""
        self._access = access
        self._streams = streams
        self._limit = limit
        self._explain = explain
        self._node = node
        self._shown_by = shown_by
        self._files = {name: live_asset(name).encode() for name in LIVE_FILES}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request. Never raises."""
        try:
            response = await self._answered(request)
        except Refused as error:
            response = _refusal(error)
        except ConnectionError:  # the client left; what is returned reaches nobody
            response = web.Response()
        except Exception:
            log.exception("a request for the page could not be answered", extra={"path": request.path})
            response = _refusal(Refused(500, "This could not be answered; the scheduler's log says why."))
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "The page only reads: use GET.")
        self._limit.check(request.remote or "")
        if request.path == PREFIX[:-1]:
            return web.Response(status=308, headers={"Location": "ui/"})
        name = request.path.removeprefix(PREFIX) or "index.html"
        if name in self._files:
            return web.Response(body=self._files[name], content_type=TYPES[name.rpartition(".")[2]], charset="utf-8")
        if not name.startswith("api/"):
            raise Refused(404, "There is no such page.")
        shown = self._shown_by(request)
        user = await self._access.user(shown, request.path)
        if name == "api/stream":
            return await self._stream(request, shown, user)
        if name == "api/pod":
            return _json(await self._pod(_key(request.query.get("pod", "")), user))
        if name == "api/node":
            return _json(await self._one_node(request.query.get("node", ""), user))
        raise Refused(404, "There is no such page.")

    async def _stream(self, request: web.Request, shown: Shown, user: User) -> web.StreamResponse:
        view = request.query.get("view", "")
        if view not in VIEWS:
            raise Refused(400, f"view: expected one of {', '.join(VIEWS)}, got {view[:MAX_KEY]!r}")
        if view == NODES:
            await self._require_nodes(user)
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        return await self._streams.serve(request, view, shown, user, HEADERS)

    async def _pod(self, key: str, user: User) -> Mapping[str, Any]:
        namespace = key.partition("/")[0]
        if not await self._access.may_list(user, "pods") and not await self._access.may_list(user, "pods", namespace):
            raise Refused(403, f"You may not list pods in namespace {namespace!r}.")
        self._limit.check_question()
        found, words, free = await self._explain(key)
        if found is None:
            raise Refused(404, words)
        if not await self._access.may_list(user, "nodes"):
            return without_nodes(found)
        return {**found, "nearest": [] if free is None else nearest_nodes(free)}

    async def _one_node(self, name: str, user: User) -> Mapping[str, Any]:
        await self._require_nodes(user)
        self._limit.check_question()
        found = await self._node(name)
        if found is None:
            raise Refused(404, f"There is no node {name[:MAX_KEY]!r}, or not any more.")
        pods = found["pods"]
        visible = await self._access.visible(user, {pod["pod"].partition("/")[0] for pod in pods})
        seen = [pod for pod in pods if visible is None or pod["pod"].partition("/")[0] in visible]
        return {**found, "pods": seen, "podsHidden": len(pods) - len(seen)}

    async def _require_nodes(self, user: User) -> None:
        if not await self._access.may_list(user, "nodes"):
            raise Refused(403, "You may not list nodes.")


def _key(text: str) -> str:
    if not is_key(text):
        raise Refused(400, f"pod: expected NAMESPACE/NAME, got {text[:MAX_KEY]!r}")
    return text


def _json(document: Mapping[str, Any]) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")


def _refusal(error: Refused) -> web.Response:
    body = msgspec.json.encode({"status": error.status, "message": str(error)})
    headers = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 405:
        headers["Allow"] = "GET, HEAD"
    if error.retry_s:
        headers["Retry-After"] = str(error.retry_s)
    return web.Response(status=error.status, body=body, content_type="application/json", headers=headers)
