"""Parses a guest's URL: `file://PATH`, `https://...`, or `http://...` where that is allowed. Nothing is opened here.

Everything after `file://` is the path, which may be relative, as in kube-scheduler-wasm-extension. Plain http is
accepted from this machine's own addresses, and from others only with `allowInsecure: true`, because anyone who can
change the transferred bytes decides where pods go. A digest in the configuration does not replace `allowInsecure`;
otherwise removing it later would silently make the guest insecure.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from kscheduler.client.urls import is_loopback
from kscheduler.input.redaction import HIDDEN, SecretURL

FILE_PREFIX = "file://"


class SourceError(Exception):
    """A guest cannot be read from its source; the text is the reason, to be put after the URL."""


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
    """Parse a guest's URL. Raises SourceError, worded as in kube-scheduler-wasm-extension where that has it, too."""
    url = given.reveal()
    if url.startswith(FILE_PREFIX):
        if not url.removeprefix(FILE_PREFIX):
            raise SourceError("expected file://PATH, got no path")
        if "\0" in url:
            raise SourceError("expected a path without NUL")
        return FileSource(url.removeprefix(FILE_PREFIX))
    parts = _split(given)
    has_scheme = given.shown.lower().startswith(
        f"{parts.scheme}://"
    )  # false for "user:password@host", whose user is no scheme
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
    """Raise SourceError for plain http where it is not allowed; this is also called for every redirect's target."""
    parts = _split(url)
    if parts.scheme == "http" and not allow_insecure and not is_loopback(parts.hostname or ""):
        host = urlsplit(url.shown).hostname
        raise SourceError(
            f"expected https, got plain http from {host}: what arrives could be changed on the way "
            "(allowInsecure: true, or --allow-insecure of `kscheduler plugin`, takes it nevertheless)"
        )


def _split(url: SecretURL) -> SplitResult:
    if any(character <= " " or character == "\x7f" for character in url.reveal()):
        raise SourceError(f"invalid URL: {url.shown!r}")
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError:
        raise SourceError(f"invalid URL: {url.shown}") from None
    return parts
