"""Secrets that are easily found again: one for each field of a configuration that can hold one, found by its type.

And a server that repeats what it was shown.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, get_type_hints
from urllib.parse import unquote

import msgspec

from kscheduler.input.redaction import Secret, SecretURL

MARK = "C4n4ry"


@dataclass
class Canaries:
    """Makes canaries, and finds them in texts."""

    made: dict[str, str] = field(default_factory=dict)  # canary -> where it was planted

    def new(self, where: str) -> str:
        canary = f"{MARK}{len(self.made):03d}x"
        self.made[canary] = where
        return canary

    def url(self, where: str, address: str = "http://127.0.0.1:1/path") -> str:
        """An address with a user, a password and a signed query."""
        scheme, _, rest = address.partition("://")
        user, password = self.new(f"{where} (user)"), self.new(f"{where} (password)")
        return f"{scheme}://{user}:{password}%2F@{rest}?sig={self.new(f'{where} (query)')}"

    def login(self, where: str, address: str) -> str:
        """An address with a user and a password."""
        scheme, _, rest = address.partition("://")
        return f"{scheme}://{self.new(f'{where} (user)')}:{self.new(f'{where} (password)')}@{rest}"

    def seen_in(self, text: str) -> list[str]:
        """Where those canaries were planted that a text shows, however they are written."""
        found = (unquote(text) + text).lower()  # libraries write schemes and hosts in lower case
        return [where for canary, where in self.made.items() if canary.lower() in found]


def planted(kind: Any, canaries: Canaries, where: str = "", within: tuple[type, ...] = ()) -> Any:
    """A document of `kind` with a canary in each field that can hold a secret, and nothing else; None without any."""
    info = msgspec.inspect.type_info(kind) if not isinstance(kind, msgspec.inspect.Type) else kind
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        return next(
            (found for each in info.types if (found := planted(each, canaries, where, within)) is not None), None
        )
    if isinstance(info, msgspec.inspect.CustomType) and issubclass(info.cls, Secret):
        return canaries.url(where) if issubclass(info.cls, SecretURL) else canaries.new(where)
    if isinstance(info, msgspec.inspect.StructType):
        found = {}
        for each in info.fields if info.cls not in within else ():
            value = planted(each.type, canaries, f"{where}.{each.encode_name}", (*within, info.cls))
            if value is not None:
                found[each.encode_name] = value
        return found or None
    if isinstance(info, (msgspec.inspect.VarTupleType, msgspec.inspect.ListType)):
        found = planted(info.item_type, canaries, f"{where}[]", within)
        return None if found is None else [found]
    if isinstance(info, msgspec.inspect.DictType):
        found = planted(info.value_type, canaries, f"{where}[]", within)
        return None if found is None else {"X-Key": found}
    return None


def replaced_one_by_one(document: Any, value: Any) -> Iterator[Any]:
    """Copies of a document, each with another of its parts replaced: leaves, and what holds them."""
    if isinstance(document, dict):
        for key, item in document.items():
            if key.lower().endswith("name") or key in ("apiVersion", "kind"):  # which are quoted for good reason
                continue
            yield {**document, key: value}
            yield from ({**document, key: changed} for changed in replaced_one_by_one(item, value))
    elif isinstance(document, list):
        for index, item in enumerate(document):
            yield [*document[:index], value, *document[index + 1 :]]
            for changed in replaced_one_by_one(item, value):
                yield [*document[:index], changed, *document[index + 1 :]]


def structs_below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """All classes derived from one."""
    for each in kind.__subclasses__():
        yield each
        yield from structs_below(each)


def text_fields(kind: type) -> Iterator[str]:
    """Names of the fields whose type is text, or a collection of it."""
    for name, hint in get_type_hints(kind).items():
        if hint is not None and "str" in str(hint).replace("<class 'str'>", "str") and "Secret" not in str(hint):
            yield name


def _whole(status: str, body: str, *headers: str) -> str:
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", body)
    return "\r\n".join(lines)


def _status(message: str) -> str:
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": message}
    )


def _samples(**fields: object) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": [], **fields}})


def _cut_in_token(words: str) -> str:
    """Of a text that is cut after 200 characters, the last but a few are the first of a token."""
    return words.removeprefix("asked as ").rjust(190 + len(words) - len("asked as Bearer "))


# What a server may do with the words in which it was asked: each becomes an error's text in some client.
RAW: dict[str, Callable[[str], str]] = {
    "status-line": lambda words: f"{words}\r\n\r\n",
    "http-version": lambda words: f"HTTP/{words} 200 OK\r\n\r\n",
    "status-code": lambda words: f"HTTP/1.1 {words}\r\n\r\n",
    "reason": lambda words: _whole(f"500 {words}", ""),
    "header-name": lambda words: _whole("200 OK", "", f"X {words}: x"),
    "length": lambda words: f"HTTP/1.1 200 OK\r\nContent-Length: {words}\r\n\r\n",
    "chunk": lambda words: f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{words}\r\n{words}\r\n",
    "encoding": lambda words: _whole("200 OK", "{}", f"Content-Encoding: {'x' * 12}{words}"),
    "encoding-of-error": lambda words: _whole("400 Bad", words, "Content-Encoding: gzip"),
    "location": lambda words: _whole("302 Found", "", f"Location: /missing/{words}"),
    "location-of-other-scheme": lambda words: _whole("302 Found", "", f"Location: ftp://h/{'x' * 150}{words}"),
    "location-that-is-none": lambda words: _whole("302 Found", "", f"Location: http://[{words}"),
    "page": lambda words: _whole("400 Bad", words),
    "long-page": lambda words: _whole("400 Bad", _cut_in_token(words)),
    "page-of-a-success": lambda words: _whole("200 OK", words),
    "unauthorized": lambda words: _whole("401 Unauthorized", _status(words)),
    "forbidden": lambda words: _whole("403 Forbidden", _status(words)),
    "gone": lambda words: _whole("410 Gone", _status(words)),
    "error": lambda words: _whole("200 OK", json.dumps({"status": "error", "error": words, "errorType": words})),
    "long-error": lambda words: _whole("200 OK", json.dumps({"status": "error", "error": _cut_in_token(words)})),
    "watch": lambda words: _whole("200 OK", json.dumps({"type": "ERROR", "object": json.loads(_status(words))}) + "\n"),
    "type": lambda words: _whole("200 OK", _samples(resultType=words)),
    "label": lambda words: _whole("200 OK", _samples(result=[{"metric": {words: "x"}, "value": [1, "1"]}])),
    "value": lambda words: _whole("200 OK", _samples(result=[{"metric": {"node": words}, "value": [words, words]}])),
}


class WebServer:
    """WatchDedup what it was shown in its answers, as a badly written server does."""

    def __init__(self) -> None:
        self.url = ""
        self.logins: list[str] = []
        self.keys: list[str] = []
        self.guest = b""  # served at /guest; without one its answer is none
        self.as_apiserver = ""  # the kind of answer to what is asked of an API, whose path says nothing

    def repeated_in(self, text: str) -> list[str]:
        """Pieces of what it was shown that a text holds: half a token is too much as well."""
        shown = {login.partition(" ")[2] for login in self.logins} | set(self.keys)
        return [
            piece for each in shown for piece in (each[at : at + 6] for at in range(len(each) - 5)) if piece in text
        ]


@contextmanager
def web_server() -> Iterator[WebServer]:
    server = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def answer(self, body: bytes) -> None:
            login = self.headers.get("Authorization", "")
            server.logins.append(login)
            server.keys.append(self.headers.get("X-Key", ""))
            words = f"asked as {login} {self.headers.get('X-Key', '')} at http://{self.headers.get('Host')}{self.path}"
            kind = self.path[1:].partition("/")[0].partition("?")[0]
            kind = server.as_apiserver if kind == "api" else kind
            if kind == "guest":
                self.reply(200, server.guest) if server.guest else self.wfile.write(words.encode())
                return
            if kind in RAW:
                self.wfile.write(RAW[kind](words).encode("latin-1"))
                self.close_connection = True
                return
            if kind == "elsewhere":  # where another user is asked for
                place = server.url.replace("://", "://C4n4ryelse:C4n4rywhere@")
                self.wfile.write(_whole("302 Found", "", f"Location: {place}/status-line").encode())
                self.close_connection = True
                return
            if kind == "cut":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
                return
            if kind in ("redirect", "loop"):
                self.send_response(302)
                place = "ftp://C4n4ry:C4n4ry@h/?C4n4ry" if kind == "redirect" else self.path
                self.send_header("Location", place)
                self.end_headers()
                return
            if kind == "ok":
                asked = json.loads(body)
                found = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(asked["NodeNames"], words)}).encode()
                self.reply(200, found)
            elif kind == "echo":
                self.reply(200, json.dumps({"Error": words}).encode())
            elif kind == "garbage":
                self.reply(200, words.encode())
            else:
                self.reply(500 if kind == "failing" else 404, words.encode())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})  # what closing it takes
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
