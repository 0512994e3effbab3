"""/statusz and /flagz as kube-scheduler serves them since 1.36: what runs, since when, and with which flags.

Without an Accept header, or with text/plain, the answer is text for people. Programs ask for a kind by name:
`Accept: application/json;g=config.k8s.io;v=v1beta1;as=Statusz`, or application/yaml. Source: k8s.io/apiserver,
pkg/server/statusz and flagz.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web

from kscheduler import __version__
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock
from kscheduler.input.yaml_documents import write_yaml
from kscheduler.serving.listener import Handler

GROUP = "config.k8s.io"
VERSIONS = {"v1beta1": False, "v1alpha1": True}  # version -> whether it is deprecated
COMPONENT = "kscheduler"
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_TEXT = ("text/plain", "text/*", "*/*")
_WRITERS: dict[str, Callable[[Any], str]] = {"application/json": json.dumps, "application/yaml": write_yaml}
Document = dict[str, Any]


def statusz(clock: Clock, emulated: str, paths: Callable[[], Iterable[str]]) -> Handler:
    """Return the handler of /statusz of a scheduler that starts now and emulates a release such as "1.36".

    `paths` returns all paths that are served, such as "/livez/{check}".
    """
    started_s, since_s = clock.wall(), clock.now()

    def facts() -> Document:
        return {
            "startTime": rfc3339(started_s),
            "uptimeSeconds": int(clock.now() - since_s),
            "goVersion": f"{platform.python_implementation()} {platform.python_version()}",
            "binaryVersion": __version__,
            "emulationVersion": emulated,
            "paths": folders(paths()),
        }

    def text() -> str:
        found = facts()
        up_s = found["uptimeSeconds"]
        return (
            f"Started: {time.strftime('%a %b %e %H:%M:%S UTC %Y', time.gmtime(started_s))}\n"
            f"Up: {up_s // 3600} hr {up_s // 60 % 60:02d} min {up_s % 60:02d} sec\n"
            f"Python version: {found['goVersion']}\n"
            f"Binary version: {found['binaryVersion']}\n"
            f"Emulation version: {found['emulationVersion']}\n"
            f"Paths: {' '.join(found['paths'])}\n"
        )

    return _page("Statusz", facts, text)


def flagz(flags: Mapping[str, str]) -> Handler:
    """Return the handler of /flagz: every flag with its value, given or not. `flags`: names without dashes in front."""
    in_order = dict(sorted(flags.items()))
    return _page("Flagz", lambda: {"flags": in_order}, lambda: "".join(f"{a}: {b}\n" for a, b in in_order.items()))


def folders(paths: Iterable[str]) -> list[str]:
    """Return the first parts of paths, sorted: "/livez" of "/livez/{check}"."""
    return sorted({f"/{part}" for path in paths if (part := path.strip("/").partition("/")[0]) and part[0] != "{"})


def _page(kind: str, facts: Callable[[], Document], text: Callable[[], str]) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        media_type, version = _wanted(request.headers.get("Accept", ""), kind)
        if not version:
            head = f"\n{COMPONENT} {kind.lower()}\n{_WARNING}\n\n"
            return web.Response(text=head + text(), content_type="text/plain", charset="utf-8")
        document = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": COMPONENT}, **facts()}
        content_type = f"{media_type};g={GROUP};v={version};as={kind}"
        response = web.Response(
            body=f"{_WRITERS[media_type](document)}\n".encode(), headers={"Content-Type": content_type}
        )
        if VERSIONS[version]:
            old = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
            response.headers["Warning"] = f'299 - "{old}"'
        return response

    return answer


def _wanted(accept: str, kind: str) -> tuple[str, str]:
    """Return the media type and version of the kind that is to be answered; "" and "" for text.

    Raises HTTPNotAcceptable (406).
    """
    if not accept.strip():
        return "", ""
    for media_type, parameters in _by_quality(accept):
        if media_type in _TEXT:
            return "", ""
        version = parameters.get("v", "")
        named = parameters.get("g"), parameters.get("as")
        if media_type in _WRITERS and named == (GROUP, kind) and version in VERSIONS:
            return media_type, version
    kinds = (f"{media_type};g={GROUP};v={version};as={kind}" for media_type in _WRITERS for version in VERSIONS)
    raise web.HTTPNotAcceptable(
        text=f"only the following media types are accepted: {', '.join(['text/plain', *kinds])}"
    )


def _by_quality(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return media types with their parameters, the preferred ones first: by `q`, then in the order given."""
    clauses = []
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        clauses.append((media_type, dict(parameter.partition("=")[::2] for parameter in parameters)))
    return sorted(clauses, key=lambda clause: -_quality(clause[1].get("q", "1")))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
