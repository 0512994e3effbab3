"""Kubernetes' library of URLs, as Go's net/url parses them."""

from __future__ import annotations

import re
import urllib.parse
from typing import NamedTuple

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.gofmt import quote
from kscheduler.cel.types import BOOL, STRING, URL, list_of, map_of
from kscheduler.cel.values import Map, Opaque, Value

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.ASCII | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_BAD_HOST = re.compile(r'[ "<>\\^`{|}\x00-\x20]')
_PATH_SAFE = "/:@&=+$,;!*'()~-._[]%"


class _Parts(NamedTuple):
    text: str
    scheme: str
    host: str
    path: str
    query: str


class URLValue(Opaque):
    """A URL."""

    __slots__ = ("parts",)
    cel_type = URL
    go_type = "cel.URL"

    def __init__(self, parts: _Parts) -> None:
        self.parts = parts

    def same(self, other: Value) -> bool:
        if not isinstance(other, URLValue):
            raise no_such_overload()
        return self.parts.text == other.parts.text

    def __str__(self) -> str:
        return self.parts.text


def _parse(text: str) -> _Parts:
    """Return the parts of an absolute URL or path. Raises ValueError with the words of net/url."""
    try:
        return _parts(text)
    except ValueError as error:
        raise ValueError(f"parse {quote(text)}: {error}") from None


def _parts(text: str) -> _Parts:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme, rest = (match[0][:-1].lower(), text[match.end() :]) if match else ("", text)
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return _Parts(text, scheme, "", "", rest.partition("?")[2])
    rest, _, query = rest.partition("#")[0].partition("?")
    host, path = "", rest
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
        host = _host(authority)
    _check_escapes(path)
    return _Parts(text, scheme, host, path, query)


def _host(authority: str) -> str:
    _user, _, host = authority.rpartition("@")
    if host.startswith("["):
        closing = host.rfind("]")
        if closing < 0:
            raise ValueError("missing ']' in host")
        port = host[closing + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if _PORT.fullmatch(port) is None:
        raise ValueError(f"invalid port {quote(port)} after host")
    found = _BAD_HOST.search(host)
    if found is not None:
        raise ValueError(f"invalid character {quote(found[0])} in host name")
    _check_escapes(host)
    return urllib.parse.unquote(host)


def _check_escapes(text: str) -> None:
    found = _BAD_ESCAPE.search(text)
    if found is not None:
        raise ValueError(f"invalid URL escape {quote(found[0])}")


def _url(text: str) -> URLValue:
    try:
        return URLValue(_parse(text))
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_request_uri(text: str) -> str | None:
    """Return what is wrong with a URI, or None if nothing is."""
    try:
        _parse(text)
    except ValueError as error:
        return str(error)
    return None


def _hostname(url: URLValue) -> str:
    host = url.parts.host
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]) and not host.endswith("]"):
        host = host[:colon]
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _port(url: URLValue) -> str:
    host = url.parts.host
    colon = host.rfind(":")
    return host[colon + 1 :] if colon >= 0 and _PORT.fullmatch(host[colon:]) and "]" not in host[colon:] else ""


def _query(url: URLValue) -> Map:
    found: dict[str, list[str]] = {}
    for pair in url.parts.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
            continue
        found.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
    return Map(found)


FUNCTIONS = (
    Function("url", (overload("string_to_url", (STRING,), URL, _url),)),
    Function("getScheme", (method("url_get_scheme", (URL,), STRING, lambda url: url.parts.scheme),)),
    Function("getHost", (method("url_get_host", (URL,), STRING, lambda url: url.parts.host),)),
    Function("getHostname", (method("url_get_hostname", (URL,), STRING, _hostname),)),
    Function("getPort", (method("url_get_port", (URL,), STRING, _port),)),
    Function(
        "getEscapedPath",
        (
            method(
                "url_get_escaped_path",
                (URL,),
                STRING,
                lambda url: urllib.parse.quote(url.parts.path, safe=_PATH_SAFE),
            ),
        ),
    ),
    Function("getQuery", (method("url_get_query", (URL,), map_of(STRING, list_of(STRING)), _query),)),
    Function("isURL", (overload("is_url_string", (STRING,), BOOL, lambda text: is_request_uri(text) is None),)),
)
