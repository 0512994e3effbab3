"""A client for an HTTP server outside the cluster's API: one request at a time, responses of bounded size.

Files with secrets and certificates are read again when they change. Redirects are not followed: they would carry the
credentials elsewhere. Every failure is raised as a SourceError, whose text contains no secret.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from kscheduler.client.bounded_body import read_bounded
from kscheduler.client.connect_errors import reason_of
from kscheduler.client.tls import load_pair, trust_anybody, verifying_context
from kscheduler.client.urls import environment_proxy
from kscheduler.config.metric_policy import Endpoint
from kscheduler.errors import ConfigError
from kscheduler.input.input_files import FilesState, files_state, read_file
from kscheduler.input.redaction import Secret, SecretURL, hide_parts
from kscheduler.telemetry.source import SourceError

MAX_SECRET_BYTES = 1 << 16
MAX_REASON = 200  # characters quoted from a server's error text
LONG_QUESTION = 2_000  # characters; longer queries are sent by POST, because servers limit the length of URLs


class Answer(NamedTuple):
    status: int
    body: bytes


class EndpointClient:
    def __init__(self, config: Endpoint, timeout_s: float) -> None:
        """Create a client; requests time out after `timeout_s` seconds. Raises ConfigError for an unusable URL."""
        self._config = config
        self._url = _checked(config.url)
        self._proxy = environment_proxy(config.url)
        self._timeout_s = timeout_s
        self._shown_to_server: list[str] = []  # the secrets that were sent with the last request
        self._session: aiohttp.ClientSession | None = None
        self._files_state: FilesState = ()  # the state of the TLS files when the session was made

    async def ask(self, path: str, query: Mapping[str, str], limit_bytes: int) -> Answer:
        """Send a GET request and return the response, whatever its status.

        Raises SourceError for a redirect or too long a body.
        """
        try:
            return await self._ask(path, query, limit_bytes)
        except TimeoutError as error:
            raise SourceError(f"{self._shown}: no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceError(f"{self._shown}: {self.quoted(reason_of(error))}") from None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _ask(self, path: str, query: Mapping[str, str], limit_bytes: int) -> Answer:
        url = self._url.with_path(self._url.path.rstrip("/") + path)
        is_long = sum(map(len, query.values())) > LONG_QUESTION
        session = await self._open_session()
        async with session.request(
            "POST" if is_long else "GET",
            url,
            params=None if is_long else query,
            data=query if is_long else None,
            headers=self._headers(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            allow_redirects=False,
            proxy=None if self._proxy is None else self._proxy.reveal(),
            server_hostname=self._config.server_name or None,
        ) as response:
            if 300 <= response.status < 400:
                raise SourceError(f"{self._shown}: expected an answer, got a redirect, which is not followed")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise SourceError(f"{self._shown}: expected an answer as it is, got a compressed one")
            body = await read_bounded(response, limit_bytes)
            if response.status != 200:  # the body is quoted as a reason, and may repeat the secrets that were sent
                body = self._hide_in(body.decode("utf-8", "replace")).encode()
            return Answer(response.status, body)

    @property
    def _shown(self) -> str:
        return self._config.url.shown.rstrip("/")

    def quoted(self, text: str) -> str:
        """Return a server's text for a message: secrets are hidden before it is cut, so that no part of one remains."""
        return self._hide_in(text)[:MAX_REASON]

    def _hide_in(self, text: str) -> str:
        """Return a text of the server or of the HTTP library without the secrets that were sent to the server."""
        if self._proxy is not None:
            text = self._proxy.hide_in(text)
        return self._config.url.hide_in(hide_parts(text, self._shown_to_server))

    # --- credentials ---

    def _headers(self) -> dict[str, str]:
        config = self._config
        secrets = {name: value.reveal() for name, value in config.headers.items()}
        secrets |= {name: _read_secret(file).reveal() for name, file in config.header_files.items()}
        parts = list(secrets.values())
        if config.bearer_token_file:
            token = _read_secret(config.bearer_token_file).reveal()
            secrets["Authorization"] = f"Bearer {token}"
            parts.append(token)
        elif config.username:
            user = config.username.reveal()
            password = _read_secret(config.password_file).reveal() if config.password_file else ""
            login = b64encode(f"{user}:{password}".encode()).decode()
            secrets["Authorization"] = f"Basic {login}"
            parts += [user, password, login]
        self._shown_to_server = parts
        return {"Accept": "application/json", "Accept-Encoding": "identity", **secrets}

    # --- the connection ---

    async def _open_session(self) -> aiohttp.ClientSession:
        """Return the HTTP session, created on first use and again when a TLS file has changed."""
        state = files_state(self._config.ca_file, self._config.cert_file, self._config.key_file)
        if self._session is not None and state != self._files_state:
            await self.close()
        if self._session is None:
            self._files_state = state
            context = ssl_context(self._config) if self._url.scheme == "https" else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # a small answer could become a huge one
            )
        return self._session


def _checked(given: SecretURL) -> URL:
    try:
        url = URL(given.reveal().rstrip("/"))
    except ValueError as error:
        why = given.hide_in(str(error))
        raise ConfigError(f"expected an http:// or https:// URL of a metric source: {why}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("expected an http:// or https:// URL of a metric source, with a host")
    return url


def ssl_context(config: Endpoint) -> ssl.SSLContext:
    """Return the TLS context for an endpoint. Raises SourceError for certificate files that cannot be used."""
    try:
        context = verifying_context(config.ca_file)
    except (ssl.SSLError, OSError) as error:
        raise SourceError(f"caFile {config.ca_file}: expected certificates in PEM: {_reason(error)}") from error
    if config.insecure_skip_verify:
        trust_anybody(context)
    if config.cert_file:
        try:
            load_pair(context, config.cert_file, config.key_file or None)
        except (ssl.SSLError, OSError) as error:
            raise SourceError(f"certFile {config.cert_file}, with its key: {_reason(error)}") from error
    return context


def _read_secret(file: str) -> Secret:
    try:
        secret = read_file(file, MAX_SECRET_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file}: expected a text file with a secret: {type(error).__name__}") from None
    if not secret or not secret.isprintable():
        raise SourceError(f"{file}: expected one line with a secret")
    return Secret(secret)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:MAX_REASON]
