"""Guests that hand every host function whatever numbers they like: a status at worst, and never anything else."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.wasm.loading.abi import EXTENSION_IMPORTS
from tests.wasm.extension.kit import Room, info, wasm

_MEMORY = 1 << 17
_PARTS = {"i": "i32", "I": "i64"}
_EXPORTS = {"i32": ("prefilter", "filter", "normalizescore", "reserve"), "i64": ("score", "postfilter", "permit")}

# Around the edges of the guest's memory, and of what 32 bits hold.
_numbers = st.one_of(
    st.sampled_from([0, 1, 15, 16, 4095, 4096, _MEMORY - 1, _MEMORY, _MEMORY + 1, 2**31 - 1, -(2**31), -1]),
    st.integers(-(2**31), 2**31 - 1),
)
_calls = st.lists(
    st.sampled_from(sorted(EXTENSION_IMPORTS)).flatmap(
        lambda which: st.tuples(
            st.just(which), st.lists(_numbers, min_size=5, max_size=5).map(lambda found: found[: _params(which)])
        )
    ),
    min_size=1,
    max_size=4,
)
_texts = st.one_of(
    st.sampled_from(["", "n1", "n1\0n2\0", "null", '{"n1":1}', '{"n1":', '{"n1":99999999999999999999999}', "[" * 2000]),
    st.just(json.dumps({"RegardingReference": {"Kind": "Pod"}, "Note": "x"})),
    st.binary(max_size=64).map(lambda data: data.decode("latin-1")),
)


def _params(which: tuple[str, str]) -> int:
    return len(EXTENSION_IMPORTS[which].params)


def hostile(calls: list[tuple[tuple[str, str], list[int]]], text: str) -> bytes:
    """All exports make the same calls; the text stands at 16."""
    names = {which: f"$f{number}" for number, which in enumerate(sorted({which for which, _ in calls}))}
    lines = ["(module"]
    for (where, function), name in names.items():
        kind = EXTENSION_IMPORTS[where, function]
        params = "".join(f"(param {_PARTS[letter]})" for letter in kind.params)
        result = f"(result {_PARTS[kind.results]})" if kind.results else ""
        lines.append(f'(import "{where}" "{function}" (func {name} {params}{result}))')
    data = "".join(f"\\{byte:02x}" for byte in text.encode())
    lines.append(f'(memory (export "memory") 2) (data (i32.const 16) "{data}")')
    body = ""
    for which, numbers in calls:
        call = f"(call {names[which]} {' '.join(f'(i32.const {number})' for number in numbers)})"
        body += f"(drop {call})" if EXTENSION_IMPORTS[which].results else call
    lines += [
        f'(func (export "{export}") (result {result}) {body} ({result}.const 0))'
        for result, exports in _EXPORTS.items()
        for export in exports
    ]
    return wasm("\n".join([*lines, ")"]))


@settings(max_examples=150, deadline=None)
@given(_calls, _texts)
def test_no_numbers_do_the_scheduler_any_harm(calls: list[tuple[tuple[str, str], list[int]]], text: str) -> None:
    room = Room(hostile(calls, text))
    state, pod, plugin = CycleState(), info(), room.plugin
    scores = {"n1": 5, "n2": 6, "n3": 7}
    statuses = [
        plugin.pre_filter(state, pod)[1],
        plugin.filter(state, pod, room.node()),
        plugin.post_filter(state, pod, {})[1],
        plugin.score(state, pod, room.node())[1],
        plugin.normalize_score(state, pod, scores),
        plugin.reserve(state, pod, "n1"),
        plugin.permit(state, pod, "n1")[0],
    ]
    assert all(status is None or status.code is Code.ERROR for status in statuses)
    assert scores.keys() == {"n1", "n2", "n3"}
    assert room.pool.instances <= 1
