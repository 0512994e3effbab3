"""The apiserver's address and our credentials: host, TLS, and an Authorization header that is refreshed when needed.

kubernetes-asyncio does the authentication (tokens, client certificates, exec plugins, OIDC, in-cluster tokens that
rotate). This module decides where credentials come from and when they are read again. It reports a mistake in a
kubeconfig with file, field and value before anything is started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from kscheduler.client.auth_library import AuthLibrary, auth_library
from kscheduler.client.concurrency import within
from kscheduler.client.kubeconfig import Kubeconfig
from kscheduler.client.tls import RenewedContext, load_pair, trust_anybody, verifying_context
from kscheduler.client.urls import address_of, basic_header, checked_proxy, environment_proxy, header_secrets, is_http
from kscheduler.clock import Clock
from kscheduler.errors import ConfigError, Unreachable
from kscheduler.input.redaction import SecretURL, hide_parts, hide_urls

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HEADER = re.compile(r"[\t -~]*")  # Go's client takes more, but a token is ASCII (RFC 6750, 2.1)
_SCHEME = "Bearer"  # before a token
REFRESH_PERIOD_S = 60.0  # client-go reads token files again after a minute
REFRESH_TIMEOUT_S = 30.0  # an exec plugin or an OIDC issuer that takes longer counts as unreachable


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the apiserver, with the TLS settings and the proxy for connections to it."""

    host: str  # "https://10.0.0.1:443", no slash at the end
    ssl: ssl.SSLContext | None  # None for plain http, or to trust the system's certificate authorities
    server_name: str | None = None  # checked against the certificate instead of the host's name
    proxy: SecretURL | None = None
    client_pair: tuple[str, str | None] | None = None  # files of the client certificate and its key, of a kubeconfig

    @property
    def is_tls(self) -> bool:
        return self.host.startswith("https:")

    @property
    def authority(self) -> str:
        """Host and port without user info, for the `host` label of rest_client metrics and the Host header."""
        return urlsplit(self.host).netloc.rpartition("@")[2]

    @property
    def path(self) -> str:
        """The prefix of every request's path, such as "/k8s/clusters/c" behind a proxy that serves several clusters."""
        return urlsplit(self.host).path.rstrip("/")


class Credentials:
    """An Authorization header that is read again every minute, and as soon as the apiserver answers 401."""

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        *,
        header: str = "",
        reload: Callable[[bool], Coroutine[Any, Any, str]] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self.header = header
        self._reload = reload  # whether by force -> the new header; None when nothing can change
        # Until then `header` may be read; afterwards `authorization` must be awaited.
        self.fresh_until = clock.now() + REFRESH_PERIOD_S if reload else float("inf")
        self._header_before = ""  # requests that carried it may still be answered
        self._reloading: asyncio.Future[None] | None = None
        self._complaints: set[str] = set()  # what was logged since they could be read last: each request finds it out

    def reach(self, server: SecretURL) -> None:
        """Use this apiserver. User info in its URL takes precedence over all other credentials, as in Go's client."""
        self.endpoint = replace(self.endpoint, host=_without_query(server))
        if header := basic_header(server):
            self.header, self._reload, self.fresh_until = header, None, float("inf")

    @property
    def stale(self) -> bool:
        """True if the header must be read again by awaiting `authorization`; otherwise `header` may be used."""
        return self._clock.now() >= self.fresh_until

    def hide_in(self, text: str) -> str:
        """Return a server's or library's text with the secrets of the header removed."""
        return hide_parts(text, header_secrets(self.header) | header_secrets(self._header_before))

    async def authorization(self) -> str:
        """Return the header, read again if it is older than a minute. If reading fails, the old header is returned."""
        if self.stale:
            try:
                await self._refresh_once(force=False)
            except (ConfigError, Unreachable) as error:
                self._complain(logging.WARNING, "credentials could not be read again", error)
                self.fresh_until = self._clock.now() + REFRESH_PERIOD_S / 6
        return self.header

    async def refused(self, header: str) -> bool:
        """Read the credentials again after a 401 to `header`, and return True if there is another header to try now."""
        if self._reload is None:
            return False
        if self.header == header:
            try:
                await self._refresh_once(force=True)
            except (ConfigError, Unreachable) as error:
                self._complain(logging.ERROR, "credentials were refused and cannot be read again", error)
        return self.header != header

    def _complain(self, level: int, sentence: str, error: Exception) -> None:
        """Log why the credentials cannot be read, unless that was logged since they could be."""
        text = hide_urls(str(error))
        complaint = f"{sentence}: {text}"
        log.log(logging.DEBUG if complaint in self._complaints else level, sentence, extra={"err": text})
        self._complaints.add(complaint)

    async def _refresh_once(self, *, force: bool) -> None:
        """Read the header again; requests that find it stale at the same time share one refresh."""
        if self._reloading is None:
            self._reloading = asyncio.ensure_future(self._refresh(force))
            self._reloading.add_done_callback(self._forget_reloading)
        await asyncio.shield(self._reloading)

    def _forget_reloading(self, future: asyncio.Future[None]) -> None:
        self._reloading = None
        if not future.cancelled():
            future.exception()  # read here, for the case that every waiter was cancelled

    async def _refresh(self, force: bool) -> None:
        assert self._reload is not None
        try:
            header = await within(REFRESH_TIMEOUT_S, self._reload(force))
        except TimeoutError as error:
            raise Unreachable(f"credentials: no answer within {REFRESH_TIMEOUT_S:.0f} s") from error
        if header != self.header:
            self._header_before, self.header = self.header, header
        self.fresh_until = self._clock.now() + REFRESH_PERIOD_S
        if self._complaints:
            self._complaints.clear()
            log.info("credentials could be read again")


async def load_credentials(
    clock: Clock, *, kubeconfig: str = "", context: str = "", environ: Mapping[str, str] = os.environ
) -> Credentials:
    """Load credentials from the first of `kubeconfig`, $KUBECONFIG, the pod's service account, ~/.kube/config.

    Raises ConfigError.
    """
    paths = kubeconfig or environ.get("KUBECONFIG", "")
    if not paths and environ.get("KUBERNETES_SERVICE_HOST"):
        return await in_cluster(clock, environ=environ)
    return await from_kubeconfig(clock, paths or str(Path.home() / ".kube" / "config"), context)


def checked_server(server: str, *, is_tls: bool) -> SecretURL:
    """Return the URL given by --master, completed as Go's client does. Raises ConfigError for an invalid URL."""
    url = SecretURL(server if "://" in server else f"{'https' if is_tls else 'http'}://{server}")
    if not is_http(url):
        raise ConfigError(f"--master: expected a URL such as https://host:6443, got {url.shown!r}")
    if not _is_host(urlsplit(url.reveal()).hostname or ""):  # perhaps a token, so it is not shown
        raise ConfigError("--master: expected a URL such as https://host:6443, got a text that is no host's name")
    return url


def _is_host(name: str) -> bool:
    """Return True if the text is short enough for a DNS name (RFC 1035, 2.3.4); tokens given by mistake are longer."""
    return len(name) <= 253 and all(len(label) <= 63 for label in name.split("."))


async def in_cluster(clock: Clock, *, environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Credentials:
    """Load the pod's service account, whose token rotates on disk."""
    library = auth_library()
    configuration = library.configuration()
    loader = library.in_cluster_loader(str(directory / "token"), str(directory / "ca.crt"), environ=dict(environ))

    async def reload(force: bool) -> str:
        try:
            loader.load_and_set(configuration)
        except (library.error, OSError) as error:
            raise ConfigError(f"in-cluster credentials in {directory}: {error}") from error
        return _header_of(configuration, f"in-cluster credentials in {directory / 'token'}")

    header = await reload(False)
    context = _tls_of(configuration, f"in-cluster credentials: {directory / 'ca.crt'}", is_ca_a_file=True)
    return Credentials(Endpoint(configuration.host, context), clock, header=header, reload=reload)


async def from_kubeconfig(clock: Clock, paths: str, context: str = "") -> Credentials:
    """Load one kubeconfig, or several joined by colons as in $KUBECONFIG."""
    checked = Kubeconfig.read(paths, context)
    library = auth_library()
    configuration = library.configuration()
    loader = _kubeconfig_loader(library, checked)
    header = partial(_header_of, configuration, checked.where(""))

    certificate = b""  # what its file held when it was loaded last

    async def reload(force: bool) -> str:
        nonlocal certificate
        if force:
            loader.__dict__.pop("exec_plugin_expiry", None)  # an exec plugin's token is kept until then
        elif "exec" in checked.user and "exec_plugin_expiry" not in loader.__dict__ and hasattr(loader, "token"):
            return header()  # no expiry: good until refused, as in client-go
        await _load(loader, configuration, checked)
        if tls is not None and configuration.cert_file:
            newest = _content(configuration.cert_file)
            tls.renew(is_other_certificate=newest != certificate)
            certificate = newest
        return header()

    tls: RenewedContext | None = None
    await _load(loader, configuration, checked)
    ca_field, certificate_field = checked.where("certificate-authority"), checked.where("client-certificate")
    is_ca_a_file = not checked.cluster.get("certificate-authority-data")
    if configuration.cert_file:
        certificate = _content(configuration.cert_file)
    tls = _tls_of(configuration, ca_field, certificate_field, is_ca_a_file=is_ca_a_file)
    endpoint = Endpoint(
        configuration.host,
        tls,
        configuration.tls_server_name or None,
        _proxy(configuration, checked),
        (configuration.cert_file, configuration.key_file) if configuration.cert_file else None,
    )
    changes = bool(checked.user.keys() & {"exec", "auth-provider", "tokenFile", "client-certificate"})
    credentials = Credentials(endpoint, clock, header=header(), reload=reload if changes else None)
    credentials.reach(SecretURL(configuration.host))
    return credentials


def _proxy(configuration: Any, checked: Kubeconfig) -> SecretURL | None:
    if configuration.proxy:
        return checked_proxy(SecretURL(configuration.proxy), checked.where("proxy-url"))
    return environment_proxy(SecretURL(configuration.host))


def _kubeconfig_loader(library: AuthLibrary, checked: Kubeconfig) -> Any:
    merger = library.kubeconfig_merger(checked.paths)
    # config_base_path=None: relative files are looked for beside the kubeconfig that names them.
    loader = library.kubeconfig_loader(merger.config, active_context=checked.context, config_base_path=None)
    if loader._user is None:  # anonymous: the library expects a mapping
        loader._user = type(merger.config)("users", {}, checked.first_path)
    return loader


async def _load(loader: Any, configuration: Any, checked: Kubeconfig) -> None:
    """Run the library's authentication, and turn every error in the file into a ConfigError."""
    if "exec" in checked.user and "exec_plugin_expiry" not in loader.__dict__:
        loader.__dict__.pop("token", None)  # so that an answer without one is seen
    try:
        await within(REFRESH_TIMEOUT_S, loader.load_and_set(configuration))
    except TimeoutError as error:
        raise ConfigError(f"{checked.where('')}: no credentials within {REFRESH_TIMEOUT_S:.0f} s") from error
    except Exception as error:  # the library raises ConfigException, ValueError, OSError, KeyError, aiohttp's, ...
        # Without the library's error as a cause: its text may hold what a plugin wrote, or what was sent.
        raise ConfigError(f"{checked.where('')}: {_reason(error, checked)}") from None
    if "exec" in checked.user and not hasattr(loader, "token") and not getattr(loader, "cert_file", ""):
        raise ConfigError(f"{checked.where('')}: exec: the plugin answered without a token, and without a certificate")


def _header_of(configuration: Any, where: str) -> str:
    """Return the Authorization header. Raises ConfigError for a token with line breaks, or of nothing but space."""
    # A token file usually ends with a newline, which no header may hold.
    header = str(configuration.api_key.get("BearerToken") or "").strip()
    if not _HEADER.fullmatch(header):
        raise ConfigError(f"{where}: the token holds a line end or another character that no token has")
    if header == _SCHEME:  # a file that is being written; without a token the apiserver would take us for anybody
        raise ConfigError(f"{where}: expected a token, got nothing but space")
    return header


def _tls_of(
    configuration: Any, ca_field: str, certificate_field: str = "", *, is_ca_a_file: bool
) -> RenewedContext | None:
    """Return the TLS settings of a configuration, None for plain http. Raises ConfigError that names the field."""
    if not configuration.host.startswith("https:"):
        return None
    authorities = configuration.ssl_ca_cert if is_ca_a_file and configuration.verify_ssl else None
    followed = (authorities,) if authorities else ()
    return RenewedContext.around(partial(_ssl_context, configuration, ca_field, certificate_field), *followed)


def _ssl_context(configuration: Any, ca_field: str, certificate_field: str) -> ssl.SSLContext:
    try:
        context = verifying_context(configuration.ssl_ca_cert)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{ca_field}: not a PEM file of certificates: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    if not configuration.verify_ssl:
        trust_anybody(context)
    _load_client_certificate(context, configuration, certificate_field)
    return context


def _load_client_certificate(context: ssl.SSLContext, configuration: Any, field: str) -> None:
    if not configuration.cert_file:
        return
    try:
        load_pair(context, configuration.cert_file, configuration.key_file)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{field}: certificate and key cannot be loaded: {error}") from error


def _content(path: str) -> bytes:
    """Return what is in a file; nothing if it cannot be read, which the caller reports."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _reason(error: Exception, checked: Kubeconfig) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    failed, _, words = text.partition(". ")
    if failed.startswith("exec: process returned") and words:
        return f"{failed}; what it wrote to stderr may hold credentials: run the command yourself to see it"
    if text.startswith("exec: plugin api version"):  # which the library quotes from the answer, whatever it is
        return f"exec: the plugin answered in another apiVersion than {checked.user['exec'].get('apiVersion')}"
    return checked.hide_in(text)


def _without_query(server: SecretURL) -> str:
    """Return scheme, host, port and path, none of which is secret; Go's client ignores the rest of the URL, too."""
    parts = urlsplit(address_of(server))
    return urlunsplit(parts._replace(query="", fragment="")).rstrip("/")
