"""Answers requests for what a feature would serve that is switched off."""

from __future__ import annotations

from aiohttp import web

from kscheduler.serving.listener import Handler


def absent(reason: str) -> Handler:
    """Return a handler that answers 404 with the reason."""

    async def answer(request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound(text=reason)

    return answer
