"""Generated selectors of generated devices: Kubernetes' own code and this program agree, in verdicts, errors and costs.

KSCHEDULER_CEL_CASES says how many seeds are tried, of ten expressions and three devices each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kscheduler.api.exact_quantity import Quantity, QuantityError
from tests.cel.generate import BAD_QUANTITIES, QUANTITIES, Generator
from tests.cel.oracle import Computed, Oracle
from tests.cel.trial import differences
from tests.support.seeds import kept_seeds, search_seeds

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

SEEDS = search_seeds("KSCHEDULER_CEL_CASES", 280)
EXPRESSIONS, DEVICES = 10, 3  # of one seed
ENOUGH_FOR_COVERAGE = 50  # seeds
ORDERS = 40  # how often a case that differs is asked again

Case = tuple[str, list[dict[str, Any]]]  # an expression, and devices

# What a generator is unlikely to write.
CORNERS = (
    "device.driver",
    "device",
    "1",
    "dyn(true)",
    "null",
    "'a' == \"a\" // comment",
    "1 in [1, 2] ? true : false",
    "-1.0 < - 1",
    "--1 == 1",
    "!!true",
    "0x7F == 127 && 0xffu == 255u",
    "9223372036854775808 == 0",
    "-9223372036854775808 < 0",
    "1.5e400 > 0.0",
    r"'\u00e9\x41\101\n' == 'éAA\n'",
    r"'\ud800' == ''",
    r"b'\u00e9' == b''",
    r"r'\n'.size() == 2",
    "'''a\nb'''.size() == 3",
    "[1, 2, 3,].size() == 3",
    "[,].size() == 0",
    "{,}.size() == 0",
    "{'a': 1,}.a == 1",
    "device.attributes.x.`a-b` == 1",
    "for == 1",
    "as",
    "device.attributes.x.for == 1",
    "device.attributes.x.in == 1",
    "a.b.c",
    "google.protobuf.Duration == type(duration('1s'))",
    ".device.driver == 'x'",
    "cel.bind(device, 1, device == 1)",
    "[1].all(@result, true)",
    "[1].all(__result__, true)",
    "[1].all(a.b, true)",
    "[1].map(x)",
    "has(device)",
    "has(device.attributes['x'])",
    "has(has(device.attributes.x))",
    "cel.bind(a.b, 1, true)",
    "device.attributes['x']['y'].z.w == 1",
    "device.attributes.all(d, device.attributes[d].size() >= 0)",
    "device.attributes.exists(d, k, k.size() > 1)",
    "device.capacity['x'].map(c, c).size() < 9",
    "device.attributes == device.attributes",
    "device.attributes == {}",
    "device.attributes.size() > 0",
    "device.attributes['x'] == {}",
    "device.attributes[1] == {}",
    "device.attributes[dyn(1)].size() == 0",
    "1 / 0 == 1 || true",
    "true || 1 / 0 == 1",
    "false && 1 / 0 == 1",
    "1 / 0 == 1",
    "1 % 0 == 1",
    "0.0 / 0.0 == 0.0 / 0.0",
    "1.0 / 0.0 > 0.0",
    "[1, 2][2] == 1",
    "[1, 2][dyn('a')] == 1",
    "{'a': 1}.b == 1",
    "{1: 'a'}[1.0] == 'a'",
    "{true: 'a'}[1] == 'a'",
    "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != '1'",
    "dyn([1]) == [1.0]",
    "dyn(1) < 1.5 && 2u > 1 && 1.5 >= 1u",
    "[1, 'a'].size() == 2",
    "[1, device.driver].size() == 2",
    "'%s and %d'.format(['a', 1]) == 'a and 1'",
    "'%d'.format(['a']) == ''",
    "'%d %d'.format([1]) == ''",
    "'%d'.format([1, 2]) == ''",
    "'%'.format([1]) == ''",
    "'%.e'.format([1.0]) == ''",
    "'%.3f|%.3e|%x|%X|%o|%b|%s'.format([1.0, 2.5, 'é', 255, 8, true, [1.5, {'a': b'x'}]]) == ''",
    "duration('1x') == duration('1s')",
    "timestamp('x') == timestamp('y')",
    "timestamp(99999999999999) == timestamp(0)",
    "'a'.matches('(')",
    "'a'.matches(device.driver + '(')",
    "'a'.find('(') == ''",
    "int('x') == 1",
    "int(device.driver) == 1",
    "string(1.0) == '1' && string(1e21) == '1e+21' && string(0.1) == '0.1'",
    "string(duration('1.5s')) == '1.5s'",
    "string(timestamp('2023-07-14T10:30:45.120Z')) == '2023-07-14T10:30:45.12Z'",
    "type(device.attributes) == map",
    "type(device) == map",
    "quantity('1') == quantity('1000m')",
    "quantity('1') == quantity('1').add(0)",
    "quantity('1').add(0) == quantity('1')",
    "quantity('1') != quantity('1').add(0)",
    "quantity('9Ei').add(quantity('9Ei')).isInteger()",
    "quantity('1e19').asInteger() == 1",
    "semver('1.0.0') == '1.0.0'",
    "'1.0.0' == dyn(semver('1.0.0'))",
    "dyn(semver('1.0.0')) == '1.0.0'",
    "semver('1.0.0+a') == semver('1.0.0+b')",
    "semver('1.0.0') in [semver('1.0.0')]",
    "dyn(semver('1.0.0')) in ['1.0.0']",
    "dyn(semver('1.0.0')) in {'a': 1}",
    "ip('10.0.0.1') in [ip('10.0.0.1')]",
    "url('https://a/b') == url('https://a/b')",
    "format.named('uuid').value() == format.uuid()",
    "format.named('x').hasValue()",
    "lists.range(3) == [0, 1, 2]",
    "lists.range(-1) == []",
    "lists.range(200).map(x, lists.range(200)).size() == 200",
    "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
    "lists.range(100000).size() == 100000",
    "['b', 'a'].sortBy(x, x) == ['a', 'b']",
    "[[1, [2]], [3]].flatten() == [1, [2], 3]",
    "optional.of(1).optMap(x, x + 1).value() == 2",
    "optional.none().value() == 1",
    "optional.of(1) == optional.of(1)",
    "optional.of({'a': 1}).a.value() == 1",
    "optional.of([1])[0].value() == 1",
    "{'a': {'b': 1}}.?a.b.value() == 1",
    "{'a': {'b': 1}}.?a.c.hasValue()",
    "[?optional.of(1), ?optional.none()] == [1]",
    "{'a': 1}.transformMap(k, v, v > 0, k) == {'a': 'a'}",
    "['a', 'a'].transformMapEntry(i, v, {v: i}).size() == 1",
    "cel.bind(t, int, type(1) == t)",
    "undefined(1)",
    "'a'.undefined()",
    "strings.undefined('a')",
    "device.undefined == 1",
    "device.driver.undefined == 1",
    "sets.contains([1], ['a'])",
    "1 + true",
    "1 < 'a'",
    "true ? 1 : 'a'",
    "(true ? device.driver : 'a') == 'x'",
    "!1",
    "-'a' == 1",
    "size(1) == 1",
    "size(dyn(1)) == 1",
    "dyn('a') - 'b' == 'a'",
    "dyn(true) + true",
    "dyn([1]) - [1] == []",
    "dyn(true) && dyn(1)",
    "dyn(1) || true",
    "dyn(1) ? true : false",
    "'a' < dyn(1)",
    "dyn(null) < 1",
    "null == dyn(1)",
    "dyn(1).startsWith('a')",
    "dyn(1).lowerAscii() == ''",
    "dyn('a').compareTo(quantity('1')) == 0",
    "dyn(1).all(x, true)",
    "dyn(1).all(x, y, true)",
    "'a'.all(x, true)",
    "dyn([1, 0]).exists(x, 1 / x == 1)",
    "[0, 1].exists(x, 1 / x == 1)",
    "[0, 2].all(x, 1 / x == 1)",
    "[0].exists_one(x, 1 / x == 1)",
    "(" * 200 + "true" + ")" * 200,
    "(" * 300 + "true" + ")" * 300,
    "[" * 249 + "]" * 249 + " == []",
    "1" + "+1" * 240 + " > 0",
    "1" + "+1" * 260 + " > 0",
    "true" + " && true" * 1000,
    "!" * 999 + "false",
    "true ? true : " * 248 + "true",
    "true ? true : " * 255 + "true",
    "device" + ".a" * 260,
    "1 +",
    "1 1",
    "'a",
    "#",
    "",
    "a b",
    "(1",
    "[1",
    "{'a'}",
    "x.y(",
)


def test_corners_of_the_language_are_as_in_kubernetes(oracle: Oracle) -> None:
    devices = [Generator(1).device()]
    cases: list[Case] = [(expression, devices) for expression in CORNERS]
    assert all_differences(oracle, cases, Counter()) == []


def test_fixed_seeds_agree(oracle: Oracle) -> None:
    compare(oracle, [*range(20), *kept_seeds("cel")])


@pytest.mark.search
def test_searched_seeds_agree(oracle: Oracle) -> None:
    seen = compare(oracle, SEEDS)
    if len(SEEDS) >= ENOUGH_FOR_COVERAGE:
        assert min(seen[outcome] for outcome in ("refused", "error", "match", "no match")) > 0, f"from {SEEDS.start}"


def compare(oracle: Oracle, seeds: Iterable[int]) -> Counter[str]:
    cases: list[Case] = []
    for seed in seeds:
        generator = Generator(seed)
        cases += [(generator.expression(), [generator.device() for _ in range(DEVICES)]) for _ in range(EXPRESSIONS)]
    seen: Counter[str] = Counter()
    assert all_differences(oracle, cases, seen) == []
    return seen


def all_differences(oracle: Oracle, cases: list[Case], seen: Counter[str]) -> list[str]:
    """Return what differs. Go walks over maps in any order, so what differs is asked again: one answer is enough."""
    found = []
    for case, answer in zip(cases, oracle.judge(cases), strict=True):
        differing = differences(*case, answer, seen)
        if differing and all(differences(*case, again, Counter()) for again in oracle.judge([case] * ORDERS)):
            found += differing
    return found


MORE_QUANTITIES = (
    *QUANTITIES, *BAD_QUANTITIES, "+1", "01", "1.500", "1.123k", "1E", "1E3", ".5", "5.", ".", "m", "-", "0.1Ki",
    "123456789012345678901234567890", "0.0000000001", "1e-10", "-1.5Gi", "1024Ki", "1000e3", "1e21", "1e19", "7Ei",
    "9223372036854775807", "-9223372036854775808", "1.000000000000000000001", "1e+2", "1mm", "1_0", "0x10", " 1",
    "1e400",
)  # fmt: skip


def test_quantities_are_computed_as_in_kubernetes(oracle: Oracle) -> None:
    pairs = [(first, second) for first in MORE_QUANTITIES for second in MORE_QUANTITIES]
    differing = [
        (pair, expected, got)
        for pair, expected in zip(pairs, oracle.compute(pairs), strict=True)
        if (got := computed(*pair, like=expected)) != expected
    ]
    assert differing == []


def computed(first: str, second: str, like: Computed) -> Computed:
    try:
        a, b = Quantity.parse(first), Quantity.parse(second)
    except QuantityError as error:
        return Computed(error=str(error))
    is_same_float = float(like.float_.replace("Inf", "inf")) == a.approximate()
    return Computed(
        first=str(a),
        sum=str(a.add(b)),
        diff=str(a.subtract(b)),
        cmp=a.compare(b),
        value=a.value(),
        int_=a.as_int64(),
        float_=like.float_ if is_same_float else str(a.approximate()),
    )
