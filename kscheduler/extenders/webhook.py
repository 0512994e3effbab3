"""Sends an extender's HTTP requests, with answers bounded in size and time.

Connections are kept and reused. Every failure is raised as a PluginError that names the URL, and has no effect on later
requests. The content of requests and answers is not interpreted here.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from functools import partial
from urllib.parse import SplitResult, urlsplit

import aiohttp

from kscheduler.client.bounded_body import read_bounded
from kscheduler.client.connect_errors import reason_of
from kscheduler.client.tls import RenewedContext, load_pair, trust_anybody, verifying_context
from kscheduler.client.urls import address_of, basic_header, environment_proxy
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.config.types import ExtenderTLSConfig
from kscheduler.errors import ConfigError, PluginError
from kscheduler.input.redaction import SecretURL

# The longest valid answer repeats the request and adds a message for each node; a longer one is an error.
MIN_ANSWER_LIMIT = 1 << 20
ANSWER_PER_QUESTION = 4
DEFAULT_TIMEOUT_S = 5.0


class Webhook:
    """An extender's HTTP endpoint. The constructor raises ConfigError, naming `path`, for a bad URL or TLS settings."""

    def __init__(self, config: ExtenderConfig, path: str) -> None:
        self.url = SecretURL(config.url_prefix.reveal().rstrip("/"))
        self.timeout_s = config.http_timeout.seconds or DEFAULT_TIMEOUT_S
        parts = _parts(self.url)
        if parts is None:
            raise ConfigError(
                f"{path}.urlPrefix: expected an http:// or https:// URL with a host, got {config.url_prefix.quoted}"
            )
        self._prefix = address_of(self.url)
        login = basic_header(self.url)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": login} if login else {})
        self._proxy = environment_proxy(self.url)
        uses_tls = parts.scheme == "https" or config.tls_config is not None
        self.ssl_context = _followed_context(config, path) if uses_tls else None
        self._server_name = config.tls_config.server_name if config.tls_config else ""
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, verb: str, question: bytes) -> bytes:
        """POST JSON and return the answer's body. Raises PluginError on failure, and for any HTTP status but 200."""
        shown = f"{self.url.shown}/{verb}"
        limit = answer_limit(question)
        try:
            async with self._open_session().post(
                f"{self._prefix}/{verb}",
                data=question,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self.timeout_s),
                allow_redirects=False,
                proxy=None if self._proxy is None else self._proxy.reveal(),
                server_hostname=self._server_name or None,
            ) as response:
                if response.status != 200:
                    raise PluginError(f"failed {verb} with extender at URL {shown}, code {response.status}")
                return await read_bounded(response, limit)
        except TimeoutError as error:
            raise PluginError(f"extender at URL {shown}: no answer within {self.timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = self.url.hide_in(reason_of(error))
            if self._proxy is not None:
                why = self._proxy.hide_in(why)
            raise PluginError(f"extender at URL {shown}: {why}") from None

    def _open_session(self) -> aiohttp.ClientSession:
        """Return the HTTP session, created on first use because it is tied to the running event loop."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.ssl_context or True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        """Close the connections; a later `ask` opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


def _parts(url: SecretURL) -> SplitResult | None:
    """Split an http(s) URL that has a host; return None for anything else."""
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def answer_limit(question: bytes) -> int:
    """Return the maximum size in bytes of the answer to this request."""
    return max(MIN_ANSWER_LIMIT, ANSWER_PER_QUESTION * len(question))


# --- TLS ---------------------------------------------------------------------------------------------------------


def _followed_context(config: ExtenderConfig, path: str) -> RenewedContext:
    """Return the TLS context, for which files that have changed are read again: certificates are often renewed.

    kube-scheduler reads the client certificate again, and the authorities only when it starts.
    """
    tls = config.tls_config or ExtenderTLSConfig()
    files = (tls.ca_file, tls.cert_file, tls.key_file)
    return RenewedContext.around(partial(_ssl_context, config, path), *filter(None, files))


def _ssl_context(config: ExtenderConfig, path: str) -> ssl.SSLContext:
    """Return the TLS context. As in kube-scheduler, enableHTTPS without a CA means the server is not verified."""
    tls = config.tls_config or ExtenderTLSConfig()
    path = f"{path}.tlsConfig"
    authority = _decoded(tls.ca_data, f"{path}.caData").decode("latin-1")
    try:
        context = verifying_context(tls.ca_file, authority)
    except (ssl.SSLError, OSError) as error:
        field = f"{path}.caFile" if tls.ca_file else f"{path}.caData"
        raise ConfigError(f"{field}: expected certificates in PEM: {error}") from error
    if tls.insecure or (config.enable_https and not tls.ca_file and not tls.ca_data):
        trust_anybody(context)
    _load_client_certificate(context, tls, path)
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig, path: str) -> None:
    certificate = _decoded(tls.cert_data, f"{path}.certData")
    key = _decoded(tls.key_data.reveal(), f"{path}.keyData")
    if bool(certificate or tls.cert_file) != bool(key or tls.key_file):
        raise ConfigError(f"{path}: expected a client certificate with its key, got only one of them")
    try:
        if certificate:
            _load_from_memory(context, certificate, key)
        elif tls.cert_file:
            load_pair(context, tls.cert_file, tls.key_file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{path}: the client certificate and its key cannot be used: {error}") from error


def _load_from_memory(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate by way of a private temporary file, since the ssl module only reads files."""
    with tempfile.NamedTemporaryFile() as held:
        held.write(certificate + b"\n" + key)
        held.flush()
        context.load_cert_chain(held.name)


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ConfigError(f"{field}: expected base64: {error}") from None
