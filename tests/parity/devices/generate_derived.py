"""CEL expressions of derived attributes: texts, numbers, booleans, versions, lists, few that fail or do not compile."""

from __future__ import annotations

import random

from tests.parity.devices.words import DRIVERS, TOPOLOGY


def expression(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.02:
        return rng.choice(_BROKEN)
    driver = rng.choice(DRIVERS)
    if kind < 0.1:
        return rng.choice(_FAILING).replace("DRIVER", driver)
    return rng.choice(_PLAIN if kind < 0.75 else _LISTS).replace("DRIVER", driver)


_NUMA = f'device.attributes["{TOPOLOGY}"].?numa'
_RACK = f'device.attributes["{TOPOLOGY}"].?rack'
_INDEX = 'device.attributes["DRIVER"].?index'
_MODEL = 'device.attributes["DRIVER"].?model'
_VERSION = 'device.attributes["DRIVER"].?version'

_PLAIN = (
    "device.driver",
    "device.driver.size()",
    'device.driver.split(".")[0]',
    "device.allowMultipleAllocations",
    f"{_NUMA}.orValue(0)",
    f"{_NUMA}.orValue(-1) + 1",
    f'{_RACK}.orValue("none")',
    f'{_RACK}.orValue("r") + "-" + string({_NUMA}.orValue(7))',
    f"{_INDEX}.orValue(0) % 2",
    f"{_INDEX}.orValue(0) > 1",
    f"{_INDEX}.hasValue()",
    f'{_MODEL}.orValue("").upperAscii()',
    f'{_MODEL}.orValue("other") == "a100"',
    f'{_VERSION}.orValue(semver("0.0.1"))',
    f'{_VERSION}.orValue(semver("1.0.0")).major()',
    f'{_VERSION}.orValue("no version")',
    'semver("v1.2", true)',
    '"DRIVER" in device.attributes',
    'device.attributes["DRIVER"].size()',
    "dyn(type(1))",
    f'{_INDEX}.hasValue() ? dyn(1) : dyn("1")',
)
_LISTS = (
    "[1, 2]",
    "[]",
    "[true]",
    "[device.driver]",
    f"[{_NUMA}.orValue(0), {_INDEX}.orValue(1)]",
    f'[{_RACK}.orValue("r1"), {_MODEL}.orValue("r2")]',
    f'[{_VERSION}.orValue(semver("1.0.0")), semver("2.0.0")]',
    'device.driver.split(".")',
    'device.attributes["DRIVER"].map(name, name)',
    f"{_INDEX}.hasValue() ? [1] : [2]",
    f"{_INDEX}.hasValue() ? dyn([1]) : dyn(1)",
    "[[1, 2], [3]].map(each, each.size())",
)
_FAILING = (
    'device.attributes["DRIVER"].index',
    'device.attributes["DRIVER"].model',
    "1 / (device.driver.size() - 15)",
    "[dyn(1), dyn(true)]",
    "[dyn(1.5)]",
    "dyn(1.5)",
    "dyn(1u)",
    "dyn(null)",
    f"dyn({_INDEX})",
    'dyn(b"bytes")',
    'dyn([dyn("a"), dyn(1)])',
    '[dyn(semver("1.0.0")), dyn(true)]',
)
_BROKEN = (
    "1.5",
    "1u",
    "null",
    "device.attributes",
    'device.capacity["DRIVER"].memory',
    "[1.5]",
    "[[1]]",
    "optional.of(1)",
    'duration("1s")',
    "no_such_name",
    "1 +",
)
