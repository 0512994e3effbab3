"""Generates expressions and devices: mostly expressions of the right types, some that are wrong at one place.

An expression is built from the top down by the type that is wanted. Devices have few names and few values, so that
selectors match about as often as not.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

DOMAINS = ("gpu.example.com", "dra.example.com", "x")
IDS = ("model", "memory", "index", "version", "healthy", "vendor")
TEXTS = ("", "a", "A100", "gpu.example.com", "1.2.3", "10Gi", "übung", "a b,c", "10.0.0.1", "x-y_z")
NUMBERS = (0, 1, -1, 2, 7, 40, 9223372036854775807, -9223372036854775808)
QUANTITIES = ("0", "1", "10Gi", "40Gi", "1500m", "1.5Gi", "1e3", "1k", "9Ei", "-5", "100n", "5.0001Ki", "0.1n")
BAD_QUANTITIES = ("1x", "", "1e", "Gi", "1.2.3")
VERSIONS = ("1.2.3", "0.1.0-alpha.1", "1.2.3-rc.1+build.5", "10.20.30", "1.2.3-alpha", "2.0.0")
BAD_VERSIONS = ("1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.x", "")
PATTERNS = ("a", "^a.*", "[0-9]+", "(a|A)1", "\\\\d{2}", "(?i)GPU", "", "x*", "b(", "[", "a**", "(?<=a)b")
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "labelValue", "uuid",
    "byte", "date", "datetime", "uri",
)  # fmt: skip
IPS = (
    "10.0.0.1",
    "127.0.0.1",
    "::1",
    "fe80::1",
    "2001:db8::1",
    "0.0.0.0",
    "224.0.0.1",
    "1.2.3",
    "1.2.3.400",
    "x",
    "1.2.3.04",
)
CIDRS = ("10.0.0.0/8", "10.1.2.3/24", "::/0", "2001:db8::/32", "10.0.0.0/33", "10.0.0.0", "1.2.3.4/08")
URLS = (
    "https://a.example.com:80/p/q?x=1&y=2&x=3",
    "/path",
    "http://[::1]:8080/",
    "x",
    "",
    "ftp://h/a%20b",
    "http://a:b/",
)
DURATIONS = ("1h", "90m", "-1.5s", "100ms", "1h1m1s", "0", "1d", "")
TIMESTAMPS = ("2023-07-14T10:30:45.123Z", "2000-02-29T23:59:59+05:30", "1969-12-31T00:00:00Z", "2023-13-01T00:00:00Z")
ZONES = ("UTC", "America/Los_Angeles", "+05:30", "-08:00", "Nowhere/Atall")

_TEXT_TESTS = ("startsWith", "endsWith", "contains")
_ORDERS = ("isGreaterThan", "isLessThan")
_IP_TESTS = ("isLoopback", "isGlobalUnicast", "isUnspecified", "isLinkLocalUnicast", "isLinkLocalMulticast")
_SET_TESTS = ("contains", "intersects", "equivalent")
_TIME_PARTS = ("getFullYear", "getMonth", "getDate", "getDayOfWeek", "getDayOfYear", "getHours", "getMilliseconds")
_PRINTED = ("int", "uint", "double", "bool", "duration", "timestamp", "bytes", "ip", "cidr", "string")
_VERBS = ("%s", "%d", "%f", "%x", "%b", "%.2f", "%e", "%o", "%X", "100%%", "%q", "%s %s")
_FORMATTED = ("string", "int", "double", "bool", "list_int", "map", "uint", "duration")

Expression = str


class Generator:
    """Draws expressions. The same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._variables: list[tuple[str, str]] = []  # (name, type) of loops around
        self._names = 0

    # --- devices ----------------------------------------------------------------------------------------------------

    def device(self) -> dict[str, Any]:
        """Return a device as it is served, with its driver."""
        draw = self._random
        driver = draw.choice(DOMAINS)
        device: dict[str, Any] = {"driver": driver, "attributes": {}, "capacity": {}}
        for identifier in IDS:
            if draw.random() < 0.7:
                device["attributes"][self._name(driver, identifier)] = self._attribute(identifier)
        for identifier in ("memory", "cores"):
            if draw.random() < 0.7:
                device["capacity"][self._name(driver, identifier)] = {"value": draw.choice(QUANTITIES)}
        if draw.random() < 0.3:
            device["allowMultipleAllocations"] = draw.random() < 0.7
        if draw.random() < 0.02:
            device["attributes"]["broken"] = {"version": draw.choice(BAD_VERSIONS[:-1])}
        return device

    def _name(self, driver: str, identifier: str) -> str:
        domain = self._random.choice(["", driver, *DOMAINS])
        return f"{domain}/{identifier}" if domain else identifier

    def _attribute(self, identifier: str) -> dict[str, Any]:
        draw = self._random
        usual = {"index": "int", "memory": "int", "healthy": "bool", "version": "version"}.get(identifier, "string")
        kind = usual if draw.random() < 0.9 else draw.choice(["int", "bool", "version", "string"])
        values: dict[str, Any] = {
            "int": draw.choice(NUMBERS),
            "bool": draw.random() < 0.5,
            "version": draw.choice(VERSIONS),
            "string": draw.choice(TEXTS),
        }
        return {kind: values[kind]}

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        """Return an expression that should evaluate to a boolean."""
        self._variables, self._names = [], 0
        return self._bool(self._random.choice((1, 2, 2, 3, 3, 4)))

    def _any_of(self, *makers: Callable[[], Expression]) -> Expression:
        return self._random.choice(makers)()

    def _of(self, type_: str, depth: int) -> Expression:
        """Return an expression of a type; now and then one of another, or one whose type is not known."""
        draw = self._random.random()
        if draw < 0.01:
            type_ = self._random.choice(["bool", "int", "string", "double", "quantity", "semver", "list_int"])
        elif draw < 0.08 and type_ in ("bool", "int", "string", "semver"):
            return self._attribute_path()
        elif draw < 0.1:
            return f"dyn({self._of(type_, depth - 1)})" if depth > 0 else self._attribute_path()
        named = [name for name, known in self._variables if known == type_]
        if named and self._random.random() < 0.5:
            return self._random.choice(named)
        maker: Callable[[int], Expression] = getattr(self, f"_{type_}")
        return maker(depth)

    def _attribute_path(self) -> Expression:
        draw = self._random
        domain, identifier = draw.choice([*DOMAINS, "nowhere"]), draw.choice(IDS)
        base = f'device.attributes["{domain}"]'
        return self._any_of(
            lambda: f"{base}.{identifier}",
            lambda: f"{base}.{identifier}",
            lambda: f'{base}["{identifier}"]',
            lambda: f"device.attributes[device.driver].{identifier}",
            lambda: f'{base}.?{identifier}.orValue("{draw.choice(TEXTS)}")',
            lambda: f'{base}[?"{identifier}"].orValue({draw.choice(NUMBERS)})',
            lambda: f"device.attributes.x.{identifier}",
        )

    def _has(self) -> Expression:
        draw = self._random
        domain, identifier = draw.choice(DOMAINS), draw.choice([*IDS, "nothing"])
        return self._any_of(
            lambda: f'has(device.attributes["{domain}"].{identifier})',
            lambda: f"has(device.attributes.{draw.choice(['x', 'nowhere'])})",
            lambda: f'"{identifier}" in device.attributes["{domain}"]',
            lambda: f'"{domain}" in device.attributes',
            lambda: f'device.attributes["{domain}"].?{identifier}.hasValue()',
            lambda: f'has(device.capacity["{domain}"].memory)',
        )

    def _bool(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return self._any_of(lambda: draw.choice(("true", "false")), self._has, self._attribute_path)
        below = depth - 1
        b = functools.partial(self._of, "bool", below)
        compared = draw.choice(
            ("int", "string", "double", "uint", "bytes", "duration", "timestamp", "bool", "int", "string")
        )
        equals = draw.choice(
            (compared, "quantity", "semver", "list_int", "map", "ip", "cidr", "url", "type", "null", "optional")
        )
        makers: list[Callable[[], Expression]] = [
            lambda: f"{b()} && {b()}",
            lambda: f"{b()} || {b()}",
            lambda: f"({b()} && {b()}) || {b()}",
            lambda: f"!({b()})",
            lambda: f"({b()} ? {b()} : {b()})",
            self._has,
            lambda: f'device.driver {draw.choice(("==", "!="))} "{draw.choice(DOMAINS)}"',
            lambda: "device.allowMultipleAllocations",
            lambda: self._compare(compared, below, ("<", "<=", ">", ">=")),
            lambda: self._compare(equals, below, ("==", "!=")),
            lambda: self._compare("string", below, ("==", "!=")),
            lambda: f"{self._attribute_path()} == {self._of(draw.choice(('int', 'string', 'bool')), below)}",
            lambda: f"{self._attribute_path()} {draw.choice(('<', '>='))} {self._of('int', below)}",
            lambda: f"{self._string(below)}.{draw.choice(_TEXT_TESTS)}({self._of('string', below)})",
            lambda: f'{self._of("string", below)}.matches("{draw.choice(PATTERNS)}")',
            lambda: f"{self._of('string', below)}.matches({self._of('string', below)})",
            lambda: f"{self._of('int', below)} in {self._of('list_int', below)}",
            lambda: f"{self._attribute_path()} in {self._of(draw.choice(('list_string', 'list_int')), below)}",
            lambda: f"{self._of('string', below)} in {self._of('list_string', below)}",
            lambda: f"{self._of('string', below)} in {self._of('map', below)}",
            lambda: self._quantifier(below),
            lambda: (
                f"{self._quantity(below)}.{draw.choice(('isGreaterThan', 'isLessThan'))}({self._of('quantity', below)})"
            ),
            lambda: f"{self._of('quantity', below)}.isInteger()",
            lambda: f"isQuantity({self._of('string', below)})",
            lambda: f"{self._of('semver', below)}.{draw.choice(_ORDERS)}({self._of('semver', below)})",
            lambda: f"isSemver({self._of('string', below)}{draw.choice(('', ', true', ', false'))})",
            lambda: f'isIP("{draw.choice(IPS)}")',
            lambda: f'isCIDR("{draw.choice(CIDRS)}")',
            lambda: f'isURL("{draw.choice(URLS)}")',
            lambda: f"{self._of('ip', below)}.{draw.choice(_IP_TESTS)}()",
            lambda: f'ip.isCanonical("{draw.choice(IPS)}")',
            lambda: f"{self._of('cidr', below)}.containsIP({self._of(draw.choice(('ip', 'string')), below)})",
            lambda: f"{self._of('cidr', below)}.containsCIDR({self._of(draw.choice(('cidr', 'string')), below)})",
            lambda: f"sets.{draw.choice(_SET_TESTS)}({self._of('list_int', below)}, {self._of('list_int', below)})",
            lambda: f"{self._of(draw.choice(('list_int', 'list_string')), below)}.isSorted()",
            lambda: f"{self._of('optional', below)}.hasValue()",
            lambda: f"format.{draw.choice(FORMATS)}().validate({self._of('string', below)}).hasValue()",
            lambda: f"{self._of('optional', below)}.optMap(v, v + 1).orValue(0) == {self._of('int', below)}",
            lambda: self._bind(below),
            lambda: f"bool({self._of(draw.choice(('string', 'bool')), below)})",
            lambda: f"{self._attribute_path()}.includes({self._of(draw.choice(('string', 'int')), below)})",
            lambda: f"{self._of('list_int', below)}.includes({self._of('int', below)})",
        ]
        return draw.choice(makers)()

    def _compare(self, type_: str, depth: int, operators: tuple[str, ...]) -> Expression:
        other = type_
        if type_ in ("int", "uint", "double") and self._random.random() < 0.2:
            other = self._random.choice(("int", "uint", "double"))
        return f"{self._of(type_, depth)} {self._random.choice(operators)} {self._of(other, depth)}"

    def _new_name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _within(self, variables: list[tuple[str, str]], make: Callable[[], Expression]) -> Expression:
        self._variables += variables
        made = make()
        del self._variables[len(self._variables) - len(variables) :]
        return made

    def _bind(self, depth: int) -> Expression:
        type_ = self._random.choice(("int", "string", "bool", "list_int"))
        value, name = self._of(type_, depth), self._new_name()
        body = self._within([(name, type_)], lambda: self._of("bool", depth))
        return f"cel.bind({name}, {value}, {body})"

    def _quantifier(self, depth: int) -> Expression:
        draw = self._random
        macro = draw.choice(("all", "exists", "exists_one", "existsOne"))
        element = draw.choice(("int", "string"))
        source = self._of(f"list_{element}", depth)
        if draw.random() < 0.3:
            source, element = self._of("map", depth), "string"
        name = self._new_name()
        if draw.random() < 0.25 and element == "int":
            second = self._new_name()
            body = self._within([(name, "int"), (second, element)], lambda: self._of("bool", depth))
            return f"{source}.{macro}({name}, {second}, {body})"
        body = self._within([(name, element)], lambda: self._of("bool", depth))
        return f"{source}.{macro}({name}, {body})"

    def _int(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return str(draw.choice(NUMBERS))
        below = depth - 1
        of = functools.partial(self._of, depth=below)
        return self._any_of(
            lambda: str(draw.choice(NUMBERS)),
            lambda: f"({of('int')} {draw.choice('+-*/%')} {of('int')})",
            lambda: f"-({of('int')})",
            lambda: f"{of(draw.choice(('string', 'list_int', 'list_string', 'map', 'bytes')))}.size()",
            lambda: f"size({of(draw.choice(('string', 'list_int', 'bytes')))})",
            lambda: f"int({of(draw.choice(('double', 'uint', 'string', 'duration', 'timestamp')))})",
            lambda: f"{of('quantity')}.compareTo({of('quantity')})",
            lambda: f"{of('semver')}.compareTo({of('semver')})",
            lambda: f"{of('semver')}.{draw.choice(('major', 'minor', 'patch'))}()",
            lambda: f"{of('quantity')}.asInteger()",
            lambda: f"sign({of('quantity')})",
            lambda: f"{of('string')}.{draw.choice(('indexOf', 'lastIndexOf'))}({of('string')})",
            lambda: f"{of('string')}.{draw.choice(('indexOf', 'lastIndexOf'))}({of('string')}, {draw.randint(-1, 6)})",
            lambda: f"{of('list_int')}.{draw.choice(('indexOf', 'lastIndexOf'))}({of('int')})",
            lambda: f"{of('list_int')}.{draw.choice(('max', 'min', 'sum'))}()",
            lambda: f"{of('list_int')}[{draw.randint(0, 3)}]",
            lambda: f'{of("map")}["{draw.choice(("a", "b", "c"))}"]',
            lambda: f"{of('map')}.{draw.choice('abc')}",
            lambda: f"{of('optional')}.orValue({of('int')})",
            lambda: f"{of('optional')}.value()",
            lambda: f"{of('timestamp')}.{draw.choice(_TIME_PARTS)}()",
            lambda: (
                f'{of("timestamp")}.{draw.choice(("getHours", "getMinutes", "getDayOfMonth"))}("{draw.choice(ZONES)}")'
            ),
            lambda: f"{of('duration')}.{draw.choice(('getHours', 'getMinutes', 'getSeconds', 'getMilliseconds'))}()",
            lambda: f"{of('ip')}.family()",
            lambda: f"{of('cidr')}.prefixLength()",
            lambda: f"({of('bool')} ? {of('int')} : {of('int')})",
        )

    def _uint(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return draw.choice(("0u", "1u", "7u", "18446744073709551615u", "0x10u"))
        return self._any_of(
            lambda: f"uint({self._of(draw.choice(('int', 'double', 'string')), depth - 1)})",
            lambda: f"({self._of('uint', depth - 1)} {draw.choice('+-*/%')} {self._of('uint', depth - 1)})",
        )

    def _double(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return draw.choice(("0.0", "1.5", "-2.25", "1e3", ".5", "1e300", "7.0"))
        return self._any_of(
            lambda: f"double({self._of(draw.choice(('int', 'uint', 'string')), depth - 1)})",
            lambda: f"({self._of('double', depth - 1)} {draw.choice('+-*/')} {self._of('double', depth - 1)})",
            lambda: f"{self._of('quantity', depth - 1)}.asApproximateFloat()",
        )

    def _string(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return self._any_of(
                lambda: f'"{draw.choice(TEXTS)}"',
                lambda: f"'{draw.choice(TEXTS)}'",
                lambda: "device.driver",
                lambda: draw.choice(('r"a\\d"', '"\\n\\x41\\u00e9"', '"""a"b"""')),
            )
        below = depth - 1
        of = functools.partial(self._of, depth=below)
        return self._any_of(
            lambda: f"({of('string')} + {of('string')})",
            lambda: f"{of('string')}.{draw.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda: f'{of("string")}.replace("a", {of("string")})',
            lambda: f'{of("string")}.replace("a", "bb", {draw.randint(-1, 2)})',
            lambda: f"{of('string')}.substring({draw.randint(-1, 4)})",
            lambda: f"{of('string')}.substring({draw.randint(-1, 3)}, {draw.randint(0, 5)})",
            lambda: f"{of('string')}.charAt({draw.randint(-1, 4)})",
            lambda: f'{of("list_string")}.join("{draw.choice(("", ",", "--"))}")',
            lambda: f"{of('list_string')}.join()",
            lambda: f"string({of(draw.choice(_PRINTED))})",
            lambda: f'{of("string")}.find("{draw.choice(PATTERNS)}")',
            lambda: f"strings.quote({of('string')})",
            lambda: f'"{draw.choice(_VERBS)}".format([{of(draw.choice(_FORMATTED))}])',
            lambda: (
                f"{of('url')}.{draw.choice(('getScheme', 'getHost', 'getHostname', 'getPort', 'getEscapedPath'))}()"
            ),
            lambda: f"({of('bool')} ? {of('string')} : {of('string')})",
            lambda: f"{of('list_string')}[{draw.randint(0, 2)}]",
            lambda: f'"{draw.choice(TEXTS)}"',
        )

    def _bytes(self, depth: int) -> Expression:
        if depth <= 0:
            return self._random.choice(('b"abc"', "b'\\x00\\377'", 'b"ü"', 'b""'))
        return self._any_of(
            lambda: f"bytes({self._of('string', depth - 1)})",
            lambda: f"({self._of('bytes', depth - 1)} + {self._of('bytes', depth - 1)})",
        )

    def _quantity(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0 or draw.random() < 0.5:
            return self._any_of(
                lambda: f'quantity("{draw.choice(QUANTITIES)}")',
                lambda: f'device.capacity["{draw.choice(DOMAINS)}"].{draw.choice(("memory", "cores"))}',
                lambda: f'quantity("{draw.choice(BAD_QUANTITIES)}")',
            )
        other = draw.choice(("quantity", "int"))
        return self._any_of(
            lambda: f"{self._of('quantity', depth - 1)}.{draw.choice(('add', 'sub'))}({self._of(other, depth - 1)})",
            lambda: f"quantity({self._of('string', depth - 1)})",
        )

    def _semver(self, depth: int) -> Expression:
        draw = self._random
        return self._any_of(
            lambda: f'semver("{draw.choice(VERSIONS)}")',
            lambda: f'semver("{draw.choice(BAD_VERSIONS)}")',
            lambda: f'semver("{draw.choice(BAD_VERSIONS)}", true)',
            lambda: f'device.attributes["{draw.choice(DOMAINS)}"].version',
            lambda: f"semver({self._of('string', depth - 1)})" if depth > 0 else 'semver("1.0.0")',
        )

    def _list_int(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return draw.choice(("[1, 2, 3]", "[]", "[7]", "[3, 1, 2, 1]", "[1, 2,]"))
        below = depth - 1
        of = functools.partial(self._of, depth=below)
        name = self._new_name()
        one = [(name, "int")]
        return self._any_of(
            lambda: f"[{of('int')}, {of('int')}]",
            lambda: f"({of('list_int')} + {of('list_int')})",
            lambda: f"{of('list_int')}.map({name}, {self._within([(name, 'int')], lambda: of('int'))})",
            lambda: f"{of('list_int')}.filter({name}, {self._within([(name, 'int')], lambda: of('bool'))})",
            lambda: f"{of('list_int')}.map({name}, {self._within(one, lambda: ', '.join(map(of, ('bool', 'int'))))})",
            lambda: f"{of('list_int')}.{draw.choice(('sort', 'reverse', 'distinct'))}()",
            lambda: f"{of('list_int')}.sortBy({name}, {self._within([(name, 'int')], lambda: of('int'))})",
            lambda: f"{of('list_int')}.slice({draw.randint(-1, 2)}, {draw.randint(0, 3)})",
            lambda: f"[{of('list_int')}, [1]].flatten()",
            lambda: f"lists.range({draw.randint(0, 5)})",
            lambda: f"[?{of('optional')}, 5]",
            lambda: (
                f"{of('list_int')}.transformList(i, {name}, {self._within([('i', 'int'), *one], lambda: of('int'))})"
            ),
        )

    def _list_string(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return draw.choice(('["a", "b"]', "[]", '["A100", "H100", "a"]', "[device.driver]"))
        below = depth - 1
        return self._any_of(
            lambda: f"[{self._of('string', below)}, {self._of('string', below)}]",
            lambda: f'{self._of("string", below)}.split("{draw.choice(("", ",", " ", "-"))}")',
            lambda: f'{self._of("string", below)}.split(",", {draw.randint(-1, 2)})',
            lambda: f'{self._of("string", below)}.findAll("{draw.choice(PATTERNS)}")',
            lambda: f'{self._of("string", below)}.findAll("{draw.choice(PATTERNS)}", {draw.randint(-1, 2)})',
            lambda: f"{self._of('list_int', below)}.map(e, string(e))",
            lambda: f"{self._of('list_string', below)}.sort()",
        )

    def _map(self, depth: int) -> Expression:
        if depth <= 0:
            return self._random.choice(('{"a": 1, "b": 2}', "{}", '{"c": 3}'))
        below = depth - 1
        return self._any_of(
            lambda: f'{{"a": {self._of("int", below)}, {self._of("string", below)}: 2}}',
            lambda: f'{{?"a": {self._of("optional", below)}, "b": 7}}',
            lambda: f"{self._of('map', below)}.transformMap(k, w, w + 1)",
            lambda: f"{self._of('map', below)}.transformMap(k, w, w > 1, w)",
            lambda: f"{self._of('list_string', below)}.transformMapEntry(i, w, {{w: i}})",
        )

    def _optional(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0:
            return draw.choice(("optional.of(1)", "optional.none()", "optional.ofNonZeroValue(0)"))
        below = depth - 1
        return self._any_of(
            lambda: f"optional.of({self._of('int', below)})",
            lambda: f"{self._of('list_int', below)}.{draw.choice(('first', 'last'))}()",
            lambda: f"{self._of('list_int', below)}[?{draw.randint(0, 3)}]",
            lambda: f"{self._of('map', below)}.?{draw.choice('abc')}",
            lambda: f'{self._of("map", below)}[?"{draw.choice("abc")}"]',
            lambda: f"{self._of('optional', below)}.or({self._of('optional', below)})",
            lambda: f"{self._of('optional', below)}.optMap(o, o * 2)",
            lambda: f"{self._of('optional', below)}.optFlatMap(o, optional.of(o))",
        )

    def _duration(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0 or draw.random() < 0.6:
            return f'duration("{draw.choice(DURATIONS[:-2] if draw.random() < 0.95 else DURATIONS)}")'
        return self._any_of(
            lambda: f"({self._of('duration', depth - 1)} {draw.choice('+-')} {self._of('duration', depth - 1)})",
            lambda: f"({self._of('timestamp', depth - 1)} - {self._of('timestamp', depth - 1)})",
            lambda: f"duration({self._of('string', depth - 1)})",
        )

    def _timestamp(self, depth: int) -> Expression:
        draw = self._random
        if depth <= 0 or draw.random() < 0.6:
            return f'timestamp("{draw.choice(TIMESTAMPS[:-1] if draw.random() < 0.95 else TIMESTAMPS)}")'
        return self._any_of(
            lambda: f"({self._of('timestamp', depth - 1)} {draw.choice('+-')} {self._of('duration', depth - 1)})",
            lambda: f"timestamp({self._of(draw.choice(('string', 'int')), depth - 1)})",
        )

    def _ip(self, depth: int) -> Expression:
        draw = self._random
        return self._any_of(
            lambda: f'ip("{draw.choice(IPS)}")',
            lambda: f"{self._of('cidr', depth - 1)}.ip()" if depth > 0 else 'ip("::1")',
        )

    def _cidr(self, depth: int) -> Expression:
        draw = self._random
        return self._any_of(
            lambda: f'cidr("{draw.choice(CIDRS)}")',
            lambda: f"{self._of('cidr', depth - 1)}.masked()" if depth > 0 else 'cidr("10.0.0.0/8")',
        )

    def _url(self, _depth: int) -> Expression:
        return f'url("{self._random.choice(URLS)}")'

    def _type(self, depth: int) -> Expression:
        return self._any_of(
            lambda: self._random.choice(("int", "string", "bool", "double", "list", "map", "type", "null_type")),
            lambda: f"type({self._of(self._random.choice(('int', 'string', 'list_int', 'map')), max(depth - 1, 0))})",
            lambda: f"type({self._attribute_path()})",
        )

    def _null(self, _depth: int) -> Expression:
        return "null"
