"""Downloads guests from servers: one GET with limits on time, bytes and redirects.

Redirects are followed here rather than by aiohttp, so that each target is checked like the configured URL, and https
never leads to http. A body may be gzip, as with Go's client; the unpacked bytes are limited too, because a small file
may unpack into a huge one. Proxies are taken from the environment; none is used for this machine.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp
import yarl

from kscheduler import __version__
from kscheduler.client.concurrency import within
from kscheduler.client.tls import verifying_context
from kscheduler.client.urls import address_of, basic_header, environment_proxy
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.source import HTTPSource, SourceError, check_transport

MEBIBYTE = 1024 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHUNK = 1 << 16
_SHOWN, _SHOWN_OF_HEADER = 300, 40  # at most so many characters of a fault and of a header are shown
_PACKED = frozenset({"gzip", "x-gzip"})
_ENCODINGS = _PACKED | {"", "identity"}
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say: with a gzip header


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """The limits of one download, including its redirects."""

    max_bytes: int = 32 * MEBIBYTE  # transferred, and also unpacked; the largest published guest has 2 MiB
    whole_s: float = 60.0
    connect_s: float = 10.0
    silence_s: float = 10.0  # the longest time between two pieces of the body
    # A server that sends single bytes never exceeds `silence_s`, so the rate is limited too.
    min_bytes_per_s: int = 4096
    grace_s: float = 5.0  # time before the rate is checked
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Validators:
    """The ETag and Last-Modified of a server, for a conditional GET; both are empty if it sent none."""

    etag: str = ""
    last_modified: str = ""

    def headers(self) -> dict[str, str]:
        pairs = (("If-None-Match", self.etag), ("If-Modified-Since", self.last_modified))
        return {name: value for name, value in pairs if value}


@dataclass(frozen=True, slots=True)
class Downloaded:
    """The result of a download. `data` is None if the file was not modified since the validators of the request."""

    data: bytes | None
    validators: Validators


DEFAULT_LIMITS = DownloadLimits()
NO_VALIDATORS = Validators()


async def download(
    source: HTTPSource, limits: DownloadLimits = DEFAULT_LIMITS, known: Validators = NO_VALIDATORS
) -> Downloaded:
    """Download a guest, or find that it has not changed since `known`. Raises SourceError for any other result."""
    try:
        return await within(limits.whole_s, _follow(source, limits, known))
    except TimeoutError as error:
        raise SourceError(f"no complete answer within {limits.whole_s:g} s") from error
    except SourceError as error:  # its text may contain a redirect's target, which may repeat secrets of the URL
        raise SourceError(source.url.hide_in(str(error))) from None


async def _follow(source: HTTPSource, limits: DownloadLimits, known: Validators) -> Downloaded:
    tls = await asyncio.to_thread(_tls_context)  # reads some hundred certificates
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_s, sock_read=limits.silence_s)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, force_close=True, limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        auto_decompress=False,
        headers={"User-Agent": f"kscheduler/{__version__}", "Accept-Encoding": "gzip"},
    ) as session:
        url = source.url
        for _ in range(limits.redirects + 1):
            try:
                answer = await _get(session, url, limits, known)
            except TimeoutError as error:
                raise SourceError(_silent(url, source, limits)) from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise SourceError(f"{_shown(url, source)}{_why(error, url)}") from None
            if isinstance(answer, Downloaded):
                return answer
            url = _target(url, answer, source.allow_insecure)
        raise SourceError(f"expected at most {limits.redirects} redirects, got more, the last to {url.shown}")


async def _get(
    session: aiohttp.ClientSession, url: SecretURL, limits: DownloadLimits, known: Validators
) -> Downloaded | str:
    """Send one GET; return the result, or the Location of a redirect."""
    proxy, login = _proxy_of(url), basic_header(url)
    async with session.get(
        _as_written(address_of(url)),
        headers=known.headers() | ({"Authorization": login} if login else {}),
        allow_redirects=False,
        proxy=None if proxy is None else proxy.reveal(),
    ) as response:
        if response.status in _REDIRECTS and (location := response.headers.get("Location")):
            return location
        if response.status == 304 and known.headers():
            return Downloaded(None, known)
        if response.status != 200:
            raise SourceError(f'received {response.status} status code from "{url.shown}"')
        encoding = response.headers.get("Content-Encoding", "")
        if encoding.lower() not in _ENCODINGS:
            given = _hidden(encoding, url)[:_SHOWN_OF_HEADER]
            raise SourceError(f'expected the content encoding "gzip" or none, got "{given}"')
        data = await _Body(response, limits).read()
        headers = response.headers
        return Downloaded(data, Validators(headers.get("ETag", ""), headers.get("Last-Modified", "")))


def _tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's certificate authorities, or those of SSL_CERT_FILE."""
    return verifying_context()


# --- the body -------------------------------------------------------------------------------------------------------


class _Body:
    """Reads a body piece by piece, and checks the limits before keeping a piece."""

    def __init__(self, response: aiohttp.ClientResponse, limits: DownloadLimits) -> None:
        self._response = response
        self._limits = limits
        is_packed = response.headers.get("Content-Encoding", "").lower() in _PACKED
        self._unpack = zlib.decompressobj(_GZIP) if is_packed else None

    async def read(self) -> bytes:
        limits, loop = self._limits, asyncio.get_running_loop()
        announced = self._response.content_length
        if announced is not None and announced > limits.max_bytes:
            raise SourceError(f"expected at most {limits.max_bytes} bytes, got an announcement of {announced}")
        started, received = loop.time(), 0
        pieces: list[bytes] = []
        unpacked = 0
        async for piece in self._response.content.iter_chunked(_CHUNK):
            received += len(piece)
            if received > limits.max_bytes:
                raise SourceError(f"expected at most {limits.max_bytes} bytes, got more")
            self._check_pace(received, loop.time() - started)
            kept = self._unpacked(piece, limits.max_bytes - unpacked)
            unpacked += len(kept)
            pieces.append(kept)
        if self._unpack is not None and not self._unpack.eof:
            raise SourceError(f"expected a whole gzip file, got the first {received} bytes of one")
        return b"".join(pieces)

    def _check_pace(self, received: int, seconds: float) -> None:
        limits = self._limits
        if seconds > limits.grace_s and received < limits.min_bytes_per_s * seconds:
            raise SourceError(
                f"expected at least {limits.min_bytes_per_s} bytes a second, got {received} bytes in {seconds:.1f} s"
            )

    def _unpacked(self, piece: bytes, room: int) -> bytes:
        if self._unpack is None:
            return piece
        try:
            data = self._unpack.decompress(piece, room + 1)
        except zlib.error as error:
            raise SourceError(f"expected a gzip file, as the server says it is one: {error}") from error
        if len(data) > room:
            raise SourceError(f"expected at most {self._limits.max_bytes} bytes unpacked, got more")
        return data


# --- addresses ------------------------------------------------------------------------------------------------------


def _target(url: SecretURL, location: str, allow_insecure: bool) -> SecretURL:
    """Return the target of a redirect. Raises SourceError for a target that is not allowed."""
    try:
        target = SecretURL(urljoin(url.reveal(), location))
        parts = urlsplit(target.reveal())
    except ValueError:
        raise SourceError(f"expected a redirect to https, got one from {url.shown} to what is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SourceError(f"expected a redirect to https, got one to {url.hide_in(target.shown)[:200]}")
    if urlsplit(url.reveal()).scheme == "https" and parts.scheme == "http":
        raise SourceError(
            f"expected https to stay https, got a redirect from {url.shown} to {url.hide_in(target.shown)[:_SHOWN]}"
        )
    check_transport(target, allow_insecure)
    return target


def _proxy_of(url: SecretURL) -> SecretURL | None:
    try:
        return environment_proxy(url)
    except ConfigError as error:
        raise SourceError(str(error)) from None


def _as_written(url: str) -> yarl.URL:
    """Return the URL without normalising its percent-escapes, since signed URLs depend on how each byte is written."""
    return yarl.URL(url, encoded=url.isascii())


# --- messages -------------------------------------------------------------------------------------------------------


def _shown(url: SecretURL, source: HTTPSource) -> str:
    """Return a prefix for messages that names the server of a redirect; "" if `url` is the configured one."""
    return "" if url == source.url else f"{url.shown}: "


def _silent(url: SecretURL, source: HTTPSource, limits: DownloadLimits) -> str:
    allowed = f"connecting may take {limits.connect_s:g} s, a silence {limits.silence_s:g} s"
    return f"{_shown(url, source)}no answer: {allowed}"


def _hidden(text: str, url: SecretURL) -> str:
    """Return a text from a server, a proxy or a library without the secrets in this URL and in the proxy's."""
    proxy = _proxy_of(url)
    return url.hide_in(text if proxy is None else proxy.hide_in(text))


def _why(error: Exception, url: SecretURL) -> str:
    text = _hidden(" ".join(str(error).split()) or type(error).__name__, url)
    if isinstance(error, aiohttp.ClientPayloadError):
        text = f"the body ended early or is malformed: {text}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."  # aiohttp repeats what it could not read
