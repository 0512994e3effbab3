"""Kubernetes' libraries of IP addresses and CIDRs."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from typing import TypeAlias

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.gofmt import quote
from kscheduler.cel.types import BOOL, CIDR, INT, IP, STRING
from kscheduler.cel.values import Opaque, Value

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class IPValue(Opaque):
    """An IP address."""

    __slots__ = ("address",)
    cel_type = IP
    go_type = "cel.IP"

    def __init__(self, address: Address) -> None:
        self.address = address

    @property
    def size(self) -> int:
        return self.address.max_prefixlen // 8

    def same(self, other: Value) -> bool:
        if not isinstance(other, IPValue):
            raise no_such_overload()
        return self.address == other.address

    def __str__(self) -> str:
        return str(self.address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IPValue) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)


class CIDRValue(Opaque):
    """An address with the length of its prefix. Bits behind the prefix are kept."""

    __slots__ = ("address", "bits")
    cel_type = CIDR
    go_type = "cel.CIDR"

    def __init__(self, address: Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    @property
    def size(self) -> int:
        return math.ceil(self.bits / 8)

    def same(self, other: Value) -> bool:
        if not isinstance(other, CIDRValue):
            raise no_such_overload()
        return self == other

    def covers(self, address: Address) -> bool:
        """Return whether an address has this prefix."""
        host_bits = self.address.max_prefixlen - self.bits
        return address.version == self.address.version and int(address) >> host_bits == int(self.address) >> host_bits

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDRValue) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))


# --- parsing --------------------------------------------------------------------------------------------------------


def _parse_address(text: str) -> tuple[Address, str]:
    """Return an address and its zone. Raises ValueError with the words of net/netip."""
    for character in text:
        if character == ".":
            return _parse_v4(text), ""
        if character == ":":
            body, _, zone = text.partition("%")
            try:
                return ipaddress.IPv6Address(body), zone
            except ValueError:
                raise ValueError(f"ParseAddr({quote(text)}): unable to parse IP") from None
        if character == "%":
            raise ValueError(f"ParseAddr({quote(text)}): missing IPv6 address")
    raise ValueError(f"ParseAddr({quote(text)}): unable to parse IP")


def _parse_v4(text: str) -> ipaddress.IPv4Address:
    fields, value, digits = [], 0, 0
    for index, character in enumerate(text):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise ValueError(f"ParseAddr({quote(text)}): IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise ValueError(f"ParseAddr({quote(text)}): IPv4 field has value >255")
        elif character == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                raise ValueError(
                    f"ParseAddr({quote(text)}): IPv4 field must have at least one digit (at {quote(text[index:])})"
                )
            if len(fields) == 3:
                raise ValueError(f"ParseAddr({quote(text)}): IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise ValueError(f"ParseAddr({quote(text)}): unexpected character (at {quote(text[index:])})")
    if len(fields) < 3:
        raise ValueError(f"ParseAddr({quote(text)}): IPv4 address too short")
    return ipaddress.IPv4Address(bytes([*fields, value]))


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> IPValue:
    try:
        address, zone = _parse_address(text)
    except ValueError as error:
        raise EvaluationError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IPValue(address)


_PREFIX_FAULT = "network address parse error during conversion from string: "


def _cidr(text: str) -> CIDRValue:
    try:
        address, bits = _parse_prefix(text)
    except ValueError as error:
        raise EvaluationError(f"{_PREFIX_FAULT * 2}netip.ParsePrefix({quote(text)}): {error}") from None
    if _is_mapped(address):
        raise EvaluationError(f"{_PREFIX_FAULT}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDRValue(address, bits)


def _parse_prefix(text: str) -> tuple[Address, int]:
    before, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError("no '/'")
    address, zone = _parse_address(before)
    if zone:
        raise ValueError("IPv6 zones cannot be present in a prefix")
    if not bits.isascii() or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0") or len(bits) > 18:
        raise ValueError(f"bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise ValueError("prefix length out of range")
    return address, int(bits)


def _succeeds(parse: Callable[[str], Value]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return test


# --- questions ------------------------------------------------------------------------------------------------------


def _is_link_local_multicast(value: IPValue) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv4Address):
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(value: IPValue) -> bool:
    address = value.address
    return not (
        address.is_unspecified
        or int(address) == 0xFFFFFFFF
        and address.version == 4
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _contains_ip(network: CIDRValue, other: IPValue | str) -> bool:
    return network.covers((_ip(other) if isinstance(other, str) else other).address)


def _contains_cidr(network: CIDRValue, other: CIDRValue | str) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    return network.covers(inner.address) and network.bits <= inner.bits


def _masked(network: CIDRValue) -> CIDRValue:
    host_bits = network.address.max_prefixlen - network.bits
    return CIDRValue(type(network.address)(int(network.address) >> host_bits << host_bits), network.bits)


def _question(name: str, id_: str, answer: Callable[[IPValue], bool]) -> Function:
    return Function(name, (method(id_, (IP,), BOOL, answer),))


FUNCTIONS = (
    Function(
        "ip",
        (overload("string_to_ip", (STRING,), IP, _ip), method("cidr_ip", (CIDR,), IP, lambda c: IPValue(c.address))),
    ),
    Function("family", (method("ip_family", (IP,), INT, lambda value: value.address.version),)),
    Function("ip.isCanonical", (overload("ip_is_canonical", (STRING,), BOOL, lambda text: str(_ip(text)) == text),)),
    _question("isUnspecified", "ip_is_unspecified", lambda value: value.address.is_unspecified),
    _question("isLoopback", "ip_is_loopback", lambda value: value.address.is_loopback),
    _question("isLinkLocalMulticast", "ip_is_link_local_multicast", _is_link_local_multicast),
    _question("isLinkLocalUnicast", "ip_is_link_local_unicast", lambda value: value.address.is_link_local),
    _question("isGlobalUnicast", "ip_is_global_unicast", _is_global_unicast),
    Function("isIP", (overload("is_ip", (STRING,), BOOL, _succeeds(_ip)),)),
    Function(
        "string", (overload("ip_to_string", (IP,), STRING, str), overload("cidr_to_string", (CIDR,), STRING, str))
    ),
    Function("cidr", (overload("string_to_cidr", (STRING,), CIDR, _cidr),)),
    Function(
        "containsIP",
        (
            method("cidr_contains_ip_string", (CIDR, STRING), BOOL, _contains_ip),
            method("cidr_contains_ip_ip", (CIDR, IP), BOOL, _contains_ip),
        ),
    ),
    Function(
        "containsCIDR",
        (
            method("cidr_contains_cidr_string", (CIDR, STRING), BOOL, _contains_cidr),
            method("cidr_contains_cidr", (CIDR, CIDR), BOOL, _contains_cidr),
        ),
    ),
    Function("prefixLength", (method("cidr_prefix_length", (CIDR,), INT, lambda value: value.bits),)),
    Function("masked", (method("cidr_masked", (CIDR,), CIDR, _masked),)),
    Function("isCIDR", (overload("is_cidr", (STRING,), BOOL, _succeeds(_cidr)),)),
)
