"""Implements `kscheduler explain POD`: requests a pod's explanation from a running scheduler, and prints it.

The request goes to the scheduler's HTTPS endpoint, usually through `kubectl port-forward`. The endpoint's certificate
is verified except on a loopback address, since by default it is self-signed.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from kscheduler.client.credentials import from_kubeconfig
from kscheduler.client.kube import KubeClient
from kscheduler.client.tls import trust_anybody, verifying_context
from kscheduler.client.urls import is_loopback
from kscheduler.clock import Clock
from kscheduler.errors import APIError, ConfigError, DecodeError, Forbidden, KSchedulerError, NotFound, Unreachable
from kscheduler.explain.endpoint import PATH
from kscheduler.explain.options import ExplainOptions
from kscheduler.explain.text import explanation_text
from kscheduler.input.decoding import decode_loosely
from kscheduler.input.input_files import read_input
from kscheduler.input.redaction import SecretURL, hide_parts

TIMEOUT_S = 10.0
MAX_TOKEN_BYTES = 1 << 16
MAX_ANSWER = 64 * 1024 * 1024


def explain(options: ExplainOptions, clock: Clock) -> str:
    """Request the explanation and return it as text.

    Raises ConfigError for wrong options, APIError if the request fails.
    """
    query = urllib.parse.urlencode(
        {
            "pod": pod_key(options),
            "nodes": "all" if options.all_nodes else "top",
            "top": options.top_nodes,
        }
    )
    token = _token(options, clock)
    try:
        answer = _get(options, f"{options.server.rstrip('/')}{PATH}?{query}", token)
    except Unreachable as error:
        raise Unreachable(f"{error}. {_way_to_the_leader(options, clock)}") from error
    try:
        document: dict[str, Any] = decode_loosely(answer)
        return json.dumps(document, indent=2) + "\n" if options.output == "json" else explanation_text(document)
    except (DecodeError, KeyError, TypeError) as error:
        text = _hidden(answer, options, token)[:200]
        raise APIError(f"{shown_server(options)}: expected an explanation, got {text!r}") from error


def pod_key(options: ExplainOptions) -> str:
    """Return the POD argument, which is `NAME`, `NAMESPACE/NAME` or kubectl's `pod/NAME`, as NAMESPACE/NAME."""
    namespace, slash, name = options.pod.rpartition("/")
    if not slash or namespace in ("pod", "pods"):
        namespace = options.namespace
    if not namespace or not name or "/" in namespace:
        raise ConfigError(f"POD: expected a name, or NAMESPACE/NAME, got {options.pod!r}")
    return f"{namespace}/{name}"


def _get(options: ExplainOptions, url: str, token: str) -> str:
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        handler = urllib.request.HTTPSHandler(context=_tls(options))
        # No proxy: the scheduler is asked directly.
        opener = urllib.request.build_opener(handler, urllib.request.ProxyHandler({}), _NoRedirects())
        with opener.open(request, timeout=TIMEOUT_S) as response:
            content: bytes = response.read(MAX_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            message = _hidden(_message_of(error.read(MAX_ANSWER)), options, token)
            raise _refusal(shown_server(options), error.code, message) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{shown_server(options)}: no answer: {_hidden(str(reason), options, token)}") from None
    return content.decode("utf-8", "replace")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns an HTTP redirect into an error, since following it would send the token to another server."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:
        return None  # so that the opener raises HTTPError, as for other statuses

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _hidden(text: str, options: ExplainOptions, token: str) -> str:
    """Return a message from the server or a library, with the token and the secrets of the URL redacted."""
    return SecretURL(options.server).hide_in(hide_parts(text, [token]))


def _message_of(body: bytes) -> str:
    """Return the message of an error response that is a metav1.Status, or else the whole body."""
    try:
        return str(decode_loosely(body)["message"])
    except (DecodeError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


def _refusal(server: str, status: int, message: str) -> APIError:
    if status in (401, 403):
        return Forbidden(
            f"{server}: {message}. Show a token that may get {PATH}: --token-file FILE, or --kubeconfig FILE",
            status=status,
        )
    if status == 404 and "not known" in message:
        return NotFound(message, status=status)
    return APIError(f"{server}: {message} ({status})", status=status)


def shown_server(options: ExplainOptions) -> str:
    return SecretURL(options.server).shown


# --- where to ask ---


def _way_to_the_leader(options: ExplainOptions, clock: Clock) -> str:
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
    client = await KubeClient.connect(clock, kubeconfig=kubeconfig)
    try:
        return (await client.get_lease(namespace, name)).spec.holder_identity or ""
    finally:
        await client.close()


# --- credentials ---


def _token(options: ExplainOptions, clock: Clock) -> str:
    if options.token_file:
        try:
            return read_input(options.token_file, MAX_TOKEN_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"--token-file {options.token_file}: cannot be read: {error}") from error
    if options.kubeconfig:
        return asyncio.run(_kubeconfig_token(options.kubeconfig, clock))
    return ""


async def _kubeconfig_token(kubeconfig: str, clock: Clock) -> str:
    header = await (await from_kubeconfig(clock, kubeconfig)).authorization()
    scheme, _, token = header.partition(" ")
    if scheme != "Bearer" or not token:
        raise ConfigError(
            f"--kubeconfig {kubeconfig}: expected a user with a token, since the scheduler reads no client "
            "certificates; try --token-file with what `kubectl create token` prints"
        )
    return token


def _tls(options: ExplainOptions) -> ssl.SSLContext:
    try:
        context = verifying_context(options.certificate_authority)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--certificate-authority {options.certificate_authority}: {error}") from error
    if options.insecure_skip_tls_verify or (not options.certificate_authority and _is_here(options.server)):
        trust_anybody(context)
    return context


def _is_here(server: str) -> bool:
    return is_loopback(urllib.parse.urlsplit(server).hostname or "")
