"""CEL selectors of devices: ones that hold for some devices, some that fail at run time, few that do not compile."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.parity.devices.words import ATTRIBUTES, DRIVERS, TOPOLOGY, Attribute

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def selector(rng: random.Random, driver: str) -> str:
    """An expression of devices of a driver; it is true for many of them."""
    kind = rng.random()
    if kind < 0.008:
        return rng.choice(_BROKEN)
    if kind < 0.03:
        return _failing(rng, driver)
    if kind < 0.35:
        return _of_driver(rng, driver)
    if kind < 0.8:
        return _condition(rng, driver)
    return _compound(rng, driver, 2)


def _compound(rng: random.Random, driver: str, depth: int) -> str:
    if depth == 0 or rng.random() < 0.3:
        return _condition(rng, driver)
    left, right = _compound(rng, driver, depth - 1), _compound(rng, driver, depth - 1)
    shape = rng.randrange(6)
    if shape < 2:
        return f"({left}) && ({right})"
    if shape < 4:
        return f"({left}) || ({right})"
    if shape == 4:
        return f"!({left})"
    return f"({_of_driver(rng, driver)}) ? ({left}) : ({right})"


def _condition(rng: random.Random, driver: str) -> str:
    make = rng.choice(
        (_of_driver, _of_attribute, _of_attribute, _of_attribute, _of_attribute, _of_capacity, _of_sharing)
    )
    return make(rng, driver)


def _of_driver(rng: random.Random, driver: str) -> str:
    other = rng.choice(DRIVERS)
    return rng.choice(
        (
            f'device.driver == "{driver}"',
            f'device.driver == "{driver}"',
            f'device.driver != "{other}"',
            f'device.driver in ["{driver}", "{other}"]',
            f'device.driver.startsWith("{driver[:3]}")',
            "device.driver.endsWith('.example.com')",
            f'device.driver.matches("^{driver[:3]}[.a-z]+$")',
            f'["{driver}", "{other}"].exists(name, name == device.driver)',
            f'device.driver.split(".")[0] == "{driver[:3]}" || device.driver.size() > 20',
            f'"{driver}".contains(device.driver)',
        )
    )


def _of_sharing(rng: random.Random, driver: str) -> str:
    return rng.choice(
        (
            "device.allowMultipleAllocations",
            "!device.allowMultipleAllocations",
            "device.allowMultipleAllocations == true || device.driver.size() > 3",
        )
    )


def _of_attribute(rng: random.Random, driver: str) -> str:
    attribute = rng.choice(ATTRIBUTES)
    domain, _, name = attribute.name.rpartition("/")
    domain = domain or driver
    holder, test = f'device.attributes["{domain}"]', _TESTS[attribute.type]
    path = f"{holder}.{name}" if rng.random() < 0.7 else f'{holder}["{name}"]'
    access = rng.random()
    if access < 0.02:  # unguarded: fails for a device without it
        return test(rng, attribute, path)
    if access < 0.25:
        return f'"{name}" in {holder} && {test(rng, attribute, path)}'
    if access < 0.45:
        return f"has({holder}.{name}) && {test(rng, attribute, path)}"
    if access < 0.65:
        optional = rng.choice((f"{holder}.?{name}", f'{holder}[?"{name}"]', f'device.attributes[?"{domain}"].?{name}'))
        return _optional(rng, attribute, optional)
    if access < 0.8:
        return f'cel.bind(own, {holder}, "{name}" in own && {test(rng, attribute, f"own.{name}")})'
    if access < 0.9:
        return f'device.driver == "{driver}" && "{name}" in {holder} && {test(rng, attribute, path)}'
    return rng.choice((f'"{domain}" in device.attributes', f"{holder}.size() > 2", f'!("{name}" in {holder})'))


def _optional(rng: random.Random, attribute: Attribute, optional: str) -> str:
    value = _literal(rng, attribute)
    fallback = _literal(rng, attribute)
    return rng.choice(
        (
            f"{optional}.hasValue()",
            f"{optional}.orValue({fallback}) == {value}",
            f"{optional}.optMap(found, found == {value}).orValue(false)",
            f"{optional} == optional.of({value})",
            f"{optional} != optional.none()",
        )
    )


def _literal(rng: random.Random, attribute: Attribute) -> str:
    value = rng.choice(attribute.values)
    if attribute.type == "version":
        return f'semver("{value}")'
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _of_string(rng: random.Random, attribute: Attribute, path: str) -> str:
    value = _literal(rng, attribute)
    return rng.choice(
        (
            f"{path} == {value}",
            f"{path} != {value}",
            f'{path} in [{value}, "h100"]',
            f'{path}.startsWith("h")',
            f'{path}.endsWith("0")',
            f"{path}.contains({value})",
            f'{path}.matches("[ahr][0-9]+")',
            f'{path}.lowerAscii() == "l4"',
            f"size({path}) > 2",
            f'{path} + "x" == "h100x"',
            f"{path} < {value}",
            f'{path}.find("[0-9]+") == "100"',
            f'{path}.replace("1", "2") == "a200"',
            f'["a100", "h100", "r1"].indexOf({path}) >= 0',
        )
    )


def _of_int(rng: random.Random, attribute: Attribute, path: str) -> str:
    compare, value = rng.choice(_COMPARISONS), _literal(rng, attribute)
    return rng.choice(
        (
            f"{path} {compare} {value}",
            f"{path} {compare} {value}",
            f"{path} % 2 == 0",
            f"{path} in [0, 1, 2]",
            f"{path} + 1 {compare} {value}",
            f"{path} * 2 - 1 {compare} {value}",
            f"-{path} {compare} {value}",
            f"{path} {compare} {value}.5" if "-" not in value else f"{path} > -2",
            f"string({path}) == '1'",
            f"type({path}) == int",
            f"[1, 2, 3].all(other, other != {path})",
            f"[0, 1, 2].filter(other, other > {path}).size() == 1",
            f"[1, 2].map(other, other + {path}).sum() > 3",
        )
    )


def _of_bool(rng: random.Random, attribute: Attribute, path: str) -> str:
    return rng.choice((path, f"!{path}", f"{path} == true", f"({path} ? 1 : 2) == 1", f"{path} || device.driver == ''"))


def _of_version(rng: random.Random, attribute: Attribute, path: str) -> str:
    value = _literal(rng, attribute)
    return rng.choice(
        (
            f"{path}.compareTo({value}) {rng.choice(_COMPARISONS)} 0",
            f"{path}.isGreaterThan({value})",
            f"{path}.isLessThan({value})",
            f"{path} == {value}",
            f"{path}.major() == 1",
            f"{path}.minor() >= 2 && {path}.patch() > 0",
        )
    )


_TESTS: dict[str, Callable[[random.Random, Attribute, str], str]] = {
    "string": _of_string,
    "int": _of_int,
    "bool": _of_bool,
    "version": _of_version,
}


def _of_capacity(rng: random.Random, driver: str) -> str:
    domain, name, amounts = rng.choice(
        (
            (driver, "memory", ("16Gi", "40Gi", "1Gi", "40000M")),
            (driver, "cores", ("8", "3500m", "2")),
            (TOPOLOGY, "slots", ("2", "4")),
        )
    )
    holder = f'device.capacity["{domain}"]'
    amount = f'quantity("{rng.choice(amounts)}")'
    path = f"{holder}.{name}"
    test = rng.choice(
        (
            f"{path}.compareTo({amount}) {rng.choice(_COMPARISONS)} 0",
            f"{path}.compareTo({amount}) {rng.choice(_COMPARISONS)} 0",
            f"{path}.isGreaterThan({amount})",
            f"{path}.isLessThan({amount})",
            f"{path} == {amount}",
            f"sign({path}.sub({amount})) >= 0",
            f"{path}.add({amount}).compareTo(quantity('50Gi')) > 0",
            f"{path}.isInteger() && {path}.asInteger() > 7",
            f"{path}.asApproximateFloat() > 3.0",
        )
    )
    guard = rng.random()
    if guard < 0.03:
        return test
    if guard < 0.6:
        return f'"{name}" in {holder} && {test}'
    return f"has({holder}.{name}) && {test}"


def _failing(rng: random.Random, driver: str) -> str:
    """Fails at run time, at least for some devices."""
    own = f'device.attributes["{driver}"]'
    return rng.choice(
        (
            f"{own}.unknown == 1",
            f'{own}["no such"] == "x"',
            f"{own}.model > 3",
            f"{own}.index / 0 == 1",
            f"{own}.index % 0 == 1",
            f"{own}.index + 9223372036854775807 > 0",
            f"{own}.model",
            f"{own}.index",
            f"{own}.version",
            "dyn(device.driver)",
            "dyn(1)",
            f"{own}.?model.value() == 'a100'",
            f'device.capacity["{driver}"].unknown.isInteger()',
            f"[1, 2][{own}.index] == 1",
            f"int({own}.model) == 1",
            f"semver({own}.model).major() == 1",
            f"quantity({own}.model).isInteger()",
            f"{own}.healthy && {own}.index",
            f'"a".matches({own}.model + "(")',
            "device.driver.split('.')[7] == 'x'",
            "device.driver.substring(3, 200) == ''",
            f'device.attributes["{TOPOLOGY}"].numa == 0',
        )
    )


_BROKEN = (
    "device.nothing == 1",
    "unknown",
    "device.driver == 1",
    "device.driver",
    "1 + 1",
    'device.driver == "',
    "device.driver ==",
    'quantity("1") + 1 == 2',
    "device.driver.nothing()",
)
