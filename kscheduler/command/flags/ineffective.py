"""Flags of `kscheduler run` that have no effect, always or as they are given, and the warnings that say so."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Callable
from typing import Any

from kscheduler.command.flags.values import boolean, duration, whole_number

# Flag of kube-scheduler that is accepted and has no effect here -> the reason.
IGNORED_FLAGS: dict[str, str] = {
    "--contention-profiling": "there is no such profile",
    "--disable-http2-serving": "only HTTP/1.1 is served",
    "--emulation-forward-compatible": "it is about the APIs that an apiserver serves",
    "--http2-max-streams-per-connection": "only HTTP/1.1 is served",
    "--log-flush-frequency": "logs are not buffered",
    "--log-json-info-buffer-size": "logs are not buffered",
    "--log-json-split-stream": "all logs go to stderr",
    "--log-text-info-buffer-size": "logs are not buffered",
    "--log-text-split-stream": "all logs go to stderr",
    "--min-compatibility-version": "no implemented feature depends on it",
    "--permit-address-sharing": "the address is not shared",
    "--permit-port-sharing": "the port is not shared",
    "--show-hidden-metrics-for-version": "no metrics are hidden",
    "--tls-curve-preferences": "OpenSSL's defaults are used",
}
# Of them those whose value kube-scheduler refuses if it is of another type, so that a mistake is found here, too.
_BOOLEANS = frozenset(
    {
        "--contention-profiling",
        "--disable-http2-serving",
        "--emulation-forward-compatible",
        "--log-json-split-stream",
        "--log-text-split-stream",
        "--permit-address-sharing",
        "--permit-port-sharing",
    }
)
_TYPED: dict[str, Callable[[str], object]] = {
    "--http2-max-streams-per-connection": whole_number,
    "--log-flush-frequency": duration,
}
# Flags that only take effect without a configuration file, as in kube-scheduler.
_WITHOUT_CONFIG = ("--kube-api-qps", "--kube-api-burst", "--kube-api-content-type", "--profiling")
# Flag -> (the header that API aggregation requires in its value, what kind of header it is).
_STANDARD_HEADERS = {
    "--requestheader-username-headers": ("X-Remote-User", "header"),
    "--requestheader-group-headers": ("X-Remote-Group", "header"),
    "--requestheader-extra-headers-prefix": ("X-Remote-Extra-", "header prefix"),
}


def add_ignored(parser: argparse.ArgumentParser) -> None:
    """Add the flags without effect, whose values stay texts."""
    for name in IGNORED_FLAGS:
        if name in _BOOLEANS:
            parser.add_argument(name, type=_checked(boolean), nargs="?", const="true", help=argparse.SUPPRESS)
        else:
            parser.add_argument(name, type=_checked(_TYPED.get(name, str)), help=argparse.SUPPRESS)


def _checked(parse: Callable[[str], object]) -> Callable[[str], str]:
    def read(text: str) -> str:
        parse(text)
        return text

    return read


def warnings(namespace: argparse.Namespace) -> tuple[str, ...]:
    given = [name for name in IGNORED_FLAGS if _value(namespace, name) is not None]
    flags = [f"{name} has no effect: {IGNORED_FLAGS[name]}" for name in given]
    if namespace.config:
        late = [name for name in _WITHOUT_CONFIG if _value(namespace, name) is not None]
        flags += [f"{name} has no effect: the configuration file decides" for name in late]
    elif namespace.kube_api_content_type is not None:
        flags.append("--kube-api-content-type has no effect: each request has the type that suits it")
    flags += [
        f"--tls-sni-cert-key has no effect for the address {name}: clients ask for names of hosts only"
        for pair in namespace.tls_sni_cert_key
        for name in pair.names
        if _is_address(name)
    ]
    for name, (standard, kind) in _STANDARD_HEADERS.items():
        headers = {header.lower() for header in _value(namespace, name)}
        if headers and standard.lower() not in headers:
            flags.append(
                f"{name} is set without specifying the standard {standard} {kind} - API aggregation will not work"
            )
    return tuple(flags)


def _value(namespace: argparse.Namespace, flag: str) -> Any:
    return getattr(namespace, flag.removeprefix("--").replace("-", "_"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
