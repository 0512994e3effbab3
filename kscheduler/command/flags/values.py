"""Parses the values of flags, each from its text. A wrong one is an `argparse.ArgumentTypeError`."""

from __future__ import annotations

import argparse
import ipaddress
import math
import urllib.parse
from collections.abc import Callable

from kscheduler.api.quantity import parse_units
from kscheduler.config.duration import Duration
from kscheduler.errors import DecodeError
from kscheduler.explain.options import DEFAULT_SERVER, MAX_TOP_NODES
from kscheduler.input.int32 import MAX_INT32, MIN_INT32
from kscheduler.input.redaction import SecretURL
from kscheduler.serving.options import NamedPair
from kscheduler.serving.tls_policy import VERSIONS


def duration(text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_duration(text: str) -> Duration:
    value = duration(text)
    if value.nanoseconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a duration above zero, got {text}")
    return value


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected an integer from {low} to {high}, got {text!r}")
        return value

    return read


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return value


def named_pair(text: str) -> NamedPair:
    try:
        return NamedPair.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def tls_version(text: str) -> str:
    if text and text not in VERSIONS:
        raise argparse.ArgumentTypeError(f'unknown tls version "{text}"')
    return text


port = _integer(0, 65535)
int32 = _integer(MIN_INT32, MAX_INT32)
verbosity = _integer(0, MAX_INT32)
seed = _integer(0, 2**64 - 1)
positive = _integer(1, 100_000)
count = _integer(0, 10_000_000)
top_nodes = _integer(0, MAX_TOP_NODES)


def byte_count(text: str) -> int:
    try:
        value = parse_units(text, "")
    except DecodeError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"expected an amount of memory, such as 32Mi, got {text!r}")
    return value


def ip_address(text: str) -> str:
    """An empty text stands for all addresses, as with kube-scheduler; a name could stand for several."""
    if text:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected an IP address, got {text!r}") from None
    return text


def url(text: str) -> str:
    try:
        parts = urllib.parse.urlsplit(text)
        is_good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:  # argparse would quote the text
        is_good = False
    if not is_good:
        raise argparse.ArgumentTypeError(f"expected a URL such as {DEFAULT_SERVER}, got {SecretURL(text).quoted}")
    return text


def boolean(text: str) -> bool:
    """Parse a boolean in the spellings that Go's flags accept."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")


def version_flag(text: str) -> str:
    """Parse kube-scheduler's --version: raw, or a boolean. Its third form, vX.Y.Z, has it report another version."""
    if text == "raw":
        return text
    try:
        return str(boolean(text)).lower()
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"expected true, false or raw, got {text!r}") from None


def namespaced_name(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"expected NAMESPACE/NAME, got {text!r}")
    return text
