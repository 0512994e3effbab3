"""Sends requests to the HTTPS endpoint of a running scheduler, with a user's token or client certificate.

The requests usually go through `kubectl port-forward`. The endpoint's certificate is verified except on a loopback
address, since by default it is self-signed.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from kscheduler.client.credentials import from_kubeconfig
from kscheduler.client.tls import load_pair, trust_anybody, verifying_context
from kscheduler.client.urls import is_loopback
from kscheduler.clock import Clock
from kscheduler.errors import (
    APIError,
    ConfigError,
    DecodeError,
    Forbidden,
    Gone,
    KSchedulerError,
    NotFound,
    Unreachable,
)
from kscheduler.input.decoding import decode_loosely
from kscheduler.input.input_files import read_input
from kscheduler.input.redaction import SecretURL, hide_parts

TIMEOUT_S = 10.0
MAX_TOKEN_BYTES = 1 << 16
_TOKEN = re.compile(r"[!-~]+")  # what a header can carry; a token has still fewer characters (RFC 6750, 2.1)
MAX_ANSWER = 64 * 1024 * 1024


class EndpointOptions(Protocol):
    """The options that say which scheduler is asked, and as whom."""

    @property
    def server(self) -> str: ...
    @property
    def kubeconfig(self) -> str: ...  # kubeconfig whose token and client certificate are shown; "": none
    @property
    def lease(self) -> str: ...  # namespace/name of the Lease, to name the leader if no server answers
    @property
    def token_file(self) -> str: ...
    @property
    def certificate_authority(self) -> str: ...
    @property
    def insecure_skip_tls_verify(self) -> bool: ...


class Answer:
    """The body of an answer, as it arrives, and its headers. Errors name the server and hide the token."""

    def __init__(self, endpoint: SchedulerEndpoint, response: http.client.HTTPResponse) -> None:
        self._endpoint = endpoint
        self._response = response
        self.length: int | None = response.length  # of the body; None: not announced

    def header(self, name: str) -> str:
        """Return the value of a header; "" if there is none."""
        return str(self._response.headers.get(name, ""))

    def read(self, most: int) -> bytes:
        """Return the next bytes; b"" at the end. Raises Unreachable if the connection breaks."""
        try:
            return self._response.read(most)
        except (http.client.HTTPException, OSError) as error:
            raise self._endpoint.no_answer(error) from None

    def read_some(self, most: int) -> bytes:
        """Return what has arrived, without waiting for more than that; b"" at the end. Raises Unreachable."""
        try:
            return self._response.read1(most)
        except (http.client.HTTPException, OSError) as error:
            raise self._endpoint.no_answer(error) from None


class SchedulerEndpoint:
    """The endpoint of one scheduler, for the user whom the options name."""

    def __init__(self, options: EndpointOptions, clock: Clock) -> None:
        """Read the credentials. Raises ConfigError for files that cannot be used."""
        self._options = options
        self._clock = clock
        credentials = _credentials(options, clock)
        self._token = credentials.token
        self._tls = _tls(options, credentials.client_pair)
        self.shown = SecretURL(options.server).shown  # the server's URL without secrets

    def get(self, path: str) -> str:
        """Return the answer to a GET request of a path, which may have a query. Raises APIError as `open` does."""
        with self.open(path) as answer:
            return answer.read(MAX_ANSWER).decode("utf-8", "replace")

    @contextmanager
    def open(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Answer]:
        """Send a GET request and yield its answer.

        Raises Forbidden, NotFound, Gone or another APIError if the scheduler refuses it, and Unreachable, with advice
        on how to connect to the leader, if there is no answer.
        """
        request = urllib.request.Request(f"{self._options.server.rstrip('/')}{path}", headers=dict(headers or {}))
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            # No proxy: the scheduler is asked directly.
            handler = urllib.request.HTTPSHandler(context=self._tls)
            opener = urllib.request.build_opener(handler, urllib.request.ProxyHandler({}), _NoRedirects())
            response = opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(path.partition("?")[0], error.code, self._message_of(error)) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            failed = self.no_answer(error)
            raise Unreachable(f"{failed}. {_way_to_the_leader(self._options, self._clock)}") from None
        with response:
            yield Answer(self, response)

    def no_answer(self, error: Exception) -> Unreachable:
        cause = getattr(error, "reason", None) or error
        reason = getattr(cause, "strerror", None) or cause  # without "[Errno 111]"
        return Unreachable(f"{self.shown}: no answer: {self.hidden(str(reason))}")

    def hidden(self, text: str) -> str:
        """Return a message from the server or a library, with the token and the secrets of the URL redacted."""
        return SecretURL(self._options.server).hide_in(hide_parts(text, [self._token]))

    def _message_of(self, refusal: urllib.error.HTTPError) -> str:
        try:
            return self.hidden(_message_of(refusal.read(MAX_ANSWER)))
        except (http.client.HTTPException, OSError) as error:  # the connection broke behind the status
            return f"refused without a message: {self.hidden(str(error))}"

    def _refusal(self, path: str, status: int, message: str) -> APIError:
        server = self.shown
        if status in (401, 403):
            return Forbidden(
                f"{server}: {message}. Show credentials that may get {path}: --token-file FILE, or --kubeconfig FILE",
                status=status,
            )
        if status == 404 and "not known" in message:
            return NotFound(message, status=status)
        kind = {404: NotFound, 410: Gone}.get(status, APIError)
        return kind(f"{server}: {message} ({status})", status=status)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns an HTTP redirect into an error, since following it would send the token to another server."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:
        return None  # so that the opener raises HTTPError, as for other statuses

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _message_of(body: bytes) -> str:
    """Return the message of an error response that is a metav1.Status, or else the whole body."""
    try:
        return str(decode_loosely(body)["message"])
    except (DecodeError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


# --- where to ask ---


def _way_to_the_leader(options: EndpointOptions, clock: Clock) -> str:
    """Return advice on how to connect to the leader, naming it if a kubeconfig permits reading the Lease."""
    namespace, _, name = options.lease.partition("/")
    words = "Is a scheduler listening there? To reach one in the cluster: "
    forward = f"kubectl --namespace {namespace} port-forward"
    try:
        holder = asyncio.run(_holder(options.kubeconfig, namespace, name, clock)) if options.kubeconfig else ""
    except KSchedulerError as error:
        return f"{words}{forward} pod/LEADER 10259 (Lease {options.lease} does not tell who leads: {error})"
    if holder:
        return f"{words}{forward} pod/{holder.rpartition('_')[0] or holder} 10259"
    look = f"kubectl --namespace {namespace} get lease {name}"
    return f"{words}{forward} pod/LEADER 10259; the first part of the holder in `{look}` is LEADER"


async def _holder(kubeconfig: str, namespace: str, name: str, clock: Clock) -> str:
    """Return the identity of the leader from the Lease; "" if no replica holds it."""
    # Only where no scheduler answers: the client takes longer to import than the rest of the command to run.
    from kscheduler.client.kube import KubeClient

    client = await KubeClient.connect(clock, kubeconfig=kubeconfig)
    try:
        return (await client.get_lease(namespace, name)).spec.holder_identity or ""
    finally:
        await client.close()


# --- credentials ---


class _Credentials(NamedTuple):
    token: str = ""
    client_pair: tuple[str, str | None] | None = None  # files of a client certificate and its key


def _credentials(options: EndpointOptions, clock: Clock) -> _Credentials:
    """Return what --token-file holds, else what --kubeconfig has of its user."""
    if options.token_file:
        try:
            token = read_input(options.token_file, MAX_TOKEN_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"--token-file {options.token_file}: cannot be read: {reason}") from error
        if not _TOKEN.fullmatch(token):
            raise ConfigError(
                f"--token-file {options.token_file}: expected a token, got nothing, or a text with a line end or "
                "another character that no token has"
            )
        return _Credentials(token)
    if options.kubeconfig:
        return asyncio.run(_kubeconfig_credentials(options.kubeconfig, clock))
    return _Credentials()


async def _kubeconfig_credentials(kubeconfig: str, clock: Clock) -> _Credentials:
    credentials = await from_kubeconfig(clock, kubeconfig)
    scheme, _, token = (await credentials.authorization()).partition(" ")
    found = _Credentials(token if scheme == "Bearer" else "", credentials.endpoint.client_pair)
    if found == _Credentials():
        raise ConfigError(
            f"--kubeconfig {kubeconfig}: expected a user with a token or a client certificate; "
            "try --token-file with what `kubectl create token` prints"
        )
    return found


def _tls(options: EndpointOptions, client_pair: tuple[str, str | None] | None) -> ssl.SSLContext:
    try:
        context = verifying_context(options.certificate_authority)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"--certificate-authority {options.certificate_authority}: {reason}") from error
    if options.insecure_skip_tls_verify or (not options.certificate_authority and _is_here(options.server)):
        trust_anybody(context)
    if client_pair is not None:
        load_pair(context, *client_pair)  # it was loaded for the apiserver already
    return context


def _is_here(server: str) -> bool:
    return is_loopback(urllib.parse.urlsplit(server).hostname or "")
