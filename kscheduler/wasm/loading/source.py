"""Where a guest is: `file://PATH`, `https://...`, or `http://...` where that is allowed. Opens nothing.

Of a file URL everything after `file://` is the path, relative ones too, as in kube-scheduler-wasm-extension. Plain
http is taken from this machine's own addresses, where nobody stands between, and from others only with
`allowInsecure: true`: whoever can change what arrives decides where pods go. A pinned digest does not replace the
opt-in, so that taking the pin away later cannot open the door unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from kscheduler.client.loopback import is_loopback
from kscheduler.input.redaction import HIDDEN, SecretURL

FILE_PREFIX = "file://"


class SourceError(Exception):
    """A guest cannot be had; the text says why, and needs the URL before it."""


@dataclass(frozen=True, slots=True)
class FileSource:
    path: str

    @property
    def shown(self) -> str:
        return SecretURL(f"{FILE_PREFIX}{self.path}").shown


@dataclass(frozen=True, slots=True)
class HTTPSource:
    url: SecretURL
    allow_insecure: bool = False

    @property
    def shown(self) -> str:
        return self.url.shown


Source = FileSource | HTTPSource


def parse_source(given: SecretURL, *, allow_insecure: bool = False) -> Source:
    """Raises SourceError, in kube-scheduler-wasm-extension's words where it has some."""
    url = given.reveal()
    if url.startswith(FILE_PREFIX):
        if not url.removeprefix(FILE_PREFIX):
            raise SourceError("expected file://PATH, got no path")
        if "\0" in url:
            raise SourceError("expected a path without NUL")
        return FileSource(url.removeprefix(FILE_PREFIX))
    parts = _split(given)
    has_scheme = given.shown.lower().startswith(f"{parts.scheme}://")  # "user:password@host" has another first word
    if not has_scheme and parts.scheme not in ("http", "https"):
        fault = "unsupported URL scheme: " if url.startswith("/") else f"invalid URL: {given.shown}"
        is_path = not parts.scheme and HIDDEN not in given.shown
        raise SourceError(f"{fault} (for a file, write {FILE_PREFIX}{given.shown})" if is_path else fault)
    if parts.scheme not in ("http", "https"):
        raise SourceError(f"unsupported URL scheme: {parts.scheme}")
    if not parts.hostname:
        raise SourceError(f"expected a URL with a host, got {given.shown}")
    check_transport(given, allow_insecure)
    return HTTPSource(given, allow_insecure)


def check_transport(url: SecretURL, allow_insecure: bool) -> None:
    """Raises SourceError for plain http where it is not allowed; also asked of every redirect."""
    parts = _split(url)
    if parts.scheme == "http" and not allow_insecure and not is_loopback(parts.hostname or ""):
        host = urlsplit(url.shown).hostname
        raise SourceError(
            f"expected https, got plain http from {host}: what arrives could be changed on the way "
            "(allowInsecure: true takes it nevertheless)"
        )


def _split(url: SecretURL) -> SplitResult:
    if any(character <= " " or character == "\x7f" for character in url.reveal()):
        raise SourceError(f"invalid URL: {url.shown!r}")
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port  # raises for one that is no number
    except ValueError:
        raise SourceError(f"invalid URL: {url.shown}") from None
    return parts
