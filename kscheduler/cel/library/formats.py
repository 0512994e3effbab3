"""Kubernetes' library of named formats: what is wrong with a text as a label, a name, a UUID, ..."""

from __future__ import annotations

import re
from collections.abc import Callable

from kscheduler.cel.faults import no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.library.times import parse_timestamp
from kscheduler.cel.library.urls import is_request_uri
from kscheduler.cel.types import FORMAT, STRING, list_of, optional_of
from kscheduler.cel.values import NONE, Opaque, Optional, Value

_Check = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character"
)
_LABEL_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character"
)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_UUID_SIZE = len(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_CLOCK_SIZE = len(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class FormatValue(Opaque):
    """A named format."""

    __slots__ = ("check", "name", "pattern_size")
    cel_type = FORMAT
    go_type = "cel.Format"
    hashable = False

    def __init__(self, name: str, check: _Check, pattern_size: int) -> None:
        self.name = name
        self.check = check
        self.pattern_size = pattern_size  # what validation costs by

    def same(self, other: Value) -> bool:
        if not isinstance(other, FormatValue):
            raise no_such_overload()
        return self.name == other.name


def _mismatch(words: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, most: int, unit: str) -> list[str]:
    return [f"must be no more than {most} {unit}"] if len(text.encode()) > most else []


def _check_label(text: str) -> list[str]:
    faults = _too_long(text, 63, "characters")
    if re.fullmatch(_LABEL, text) is None:
        is_subdomain = re.fullmatch(_SUBDOMAIN, text) is not None
        faults.append(
            "must not contain dots" if is_subdomain else _mismatch(_LABEL_WORDS, _LABEL, "my-name", "123-abc")
        )
    return faults


def _check_subdomain(text: str, unit: str = "characters") -> list[str]:
    faults = _too_long(text, 253, unit)
    if re.fullmatch(_SUBDOMAIN, text) is None:
        faults.append(_mismatch(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return faults


def _check_label_1035(text: str) -> list[str]:
    faults = _too_long(text, 63, "characters")
    if re.fullmatch(_LABEL_1035, text) is None:
        faults.append(_mismatch(_LABEL_1035_WORDS, _LABEL_1035, "my-name", "abc-123"))
    return faults


def _as_prefix(check: _Check) -> _Check:
    def check_prefix(text: str) -> list[str]:
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return check_prefix


def _check_qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    words = _mismatch(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {words}{suffix}"]
    faults = []
    if len(parts) == 2:
        prefix = _check_subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        faults += [f"prefix part {fault}" for fault in prefix]
    name = parts[-1]
    faults += [f"name part {fault}" for fault in (_too_long(name, 63, "bytes") if name else ["must be non-empty"])]
    if re.fullmatch(_KEY, name) is None:
        faults.append(f"name part {words}")
    return faults


def _check_label_value(text: str) -> list[str]:
    faults = _too_long(text, 63, "bytes")
    if text and re.fullmatch(_KEY, text) is None:
        faults.append(_mismatch(_VALUE_WORDS, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return faults


def _check_uri(text: str) -> list[str]:
    fault = is_request_uri(text)
    return [] if fault is None else [fault]


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and parse_timestamp(f"{text}T00:00:00Z") is not None


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _CLOCK.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _unless(holds: Callable[[str], bool], fault: str) -> _Check:
    return lambda text: [] if holds(text) else [fault]


_FORMATS = {
    "dns1123Label": FormatValue("DNS1123Label", _check_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", _check_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", _check_label_1035, 30),
    "qualifiedName": FormatValue("QualifiedName", _check_qualified_name, 60),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _as_prefix(_check_label), 30),
    "dns1123SubdomainPrefix": FormatValue("DNS1123SubdomainPrefix", _as_prefix(_check_subdomain), 60),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _as_prefix(_check_label_1035), 30),
    "labelValue": FormatValue("LabelValue", _check_label_value, 40),
    "uri": FormatValue("URI", _check_uri, 1103),
    "uuid": FormatValue(
        "uuid", _unless(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"), _UUID_SIZE
    ),
    "byte": FormatValue("byte", _unless(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"), 84),
    "date": FormatValue("date", _unless(_is_date, "invalid date"), _CLOCK_SIZE),
    "datetime": FormatValue("datetime", _unless(_is_datetime, "invalid datetime"), _CLOCK_SIZE),
}


def _validate(format_: FormatValue, text: str) -> Optional:
    faults = format_.check(text)
    return Optional(faults) if faults else NONE


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(value: FormatValue) -> Callable[[], FormatValue]:
    return lambda: value


FUNCTIONS = (
    Function("validate", (method("format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate),)),
    Function("format.named", (overload("format-named", (STRING,), optional_of(FORMAT), _named),)),
    *(
        Function(f"format.{name}", (overload(f"format.{name}", (), FORMAT, _constant(value)),))
        for name, value in _FORMATS.items()
    ),
)
