"""The arguments of a wasm plugin: each field's values, and the errors for wrong ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.duration import Duration
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.wasm.arguments import KNOWN_KEYS, WasmArguments, is_wasm, read_arguments

URL = {"guestURL": "file://g.wasm"}
PATH = "profiles[0].pluginConfig[1].args"


def read(**fields: Any) -> WasmArguments:
    return read_arguments({**URL, **fields}, PATH)


def fault(**fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**fields)
    return str(caught.value)


def test_the_url_is_enough() -> None:
    found = read()
    assert found == WasmArguments(guest_url=SecretURL("file://g.wasm"))
    assert (found.deadline_s, found.memory_bytes, found.failure_policy, found.engine) == (
        0.02,
        64 * 1024**2,
        "fail",
        "wasmtime",
    )
    assert not found.is_reloaded


def test_every_field_is_read() -> None:
    found = read(
        guestConfig="reverse",
        logSeverity=2,
        args=["test", "filter"],
        sha256="SHA256:" + "AB" * 32,
        failurePolicy="ignore",
        deadline="5ms",
        memory="128Mi",
        engine="wasmer",
        reloadInterval="30s",
        allowInsecure=True,
        pure=True,
    )
    assert found == WasmArguments(
        guest_url=SecretURL("file://g.wasm"),
        guest_config=Secret("reverse"),
        log_severity=2,
        args=(Secret("test"), Secret("filter")),
        sha256="ab" * 32,
        failure_policy="ignore",
        deadline=Duration.parse("5ms"),
        memory_bytes=128 * 1024**2,
        engine="wasmer",
        reload_interval=Duration.parse("30s"),
        allow_insecure=True,
        pure=True,
    )
    assert set(KNOWN_KEYS) == {msgspec_name(name) for name in WasmArguments.__struct_fields__}


def msgspec_name(field: str) -> str:
    special = {"guest_url": "guestURL", "memory_bytes": "memory"}
    first, *rest = field.split("_")
    return special.get(field, first + "".join(word.capitalize() for word in rest))


def test_the_spelling_of_kube_scheduler_wasm_extension_is_known_and_a_kind_is_left_out() -> None:
    assert read(Args=["a"], apiVersion="v1", kind="X").args == (Secret("a"),)
    assert "expected one of args and Args, got both" in fault(Args=["a"], args=["b"])


def test_null_means_absent() -> None:
    assert read(guestConfig=None, memory=None) == read()


@pytest.mark.parametrize("url", [None, ""])
def test_a_url_is_required(url: str | None) -> None:
    assert fault(guestURL=url) == f"{PATH}: wasm: guestURL is required"


def test_an_object_as_configuration_is_handed_on_as_json() -> None:
    assert read(guestConfig={"b": [1, "ä"], "a": None}).guest_config == Secret('{"b":[1,"ä"],"a":null}')
    assert read(guestConfig=[1]).guest_config == Secret("[1]")


def test_with_a_digest_nobody_looks_for_new_versions() -> None:
    assert read(reloadInterval="1s").is_reloaded
    assert not read(reloadInterval="1s", sha256="0" * 64).is_reloaded
    assert not read(reloadInterval=0).is_reloaded
    assert not read(reloadInterval="0s").is_reloaded


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("guestURL", 7, "expected a string, got a number"),
        ("guestConfig", 7, "expected a string, a mapping or a list, got a number"),
        ("guestConfig", {"a": float("nan")}, "expected what can be written as JSON"),
        ("logSeverity", 4, "expected an integer from 0 (info) to 3 (fatal), got the integer 4"),
        ("logSeverity", True, "expected an integer from 0 (info) to 3 (fatal), got true"),
        ("args", "a b", "expected a list of strings, got a string"),
        ("args", ["a", 1], "item 1: expected a string without NUL, got a number"),
        ("sha256", "abc", 'expected 64 hexadecimal digits, got the string "abc" (3 characters)'),
        ("sha256", "g" * 64, "expected 64 hexadecimal digits, got"),
        ("failurePolicy", "Fail", 'expected fail or ignore, got the string "Fail"'),
        ("deadline", 20, 'expected a duration such as "20ms", got the integer 20'),
        ("deadline", "20", 'expected a duration such as "15s" or "1m30s", got "20"'),
        ("deadline", "0", 'expected 1ms to 10s, got the string "0"'),
        ("deadline", "11s", 'expected 1ms to 10s, got the string "11s"'),
        ("memory", "lots", 'expected an amount of memory such as "64Mi", got the string "lots"'),
        ("memory", "1Ki", 'expected 64Ki to 4Gi, got the string "1Ki"'),
        ("memory", "5Gi", 'expected 64Ki to 4Gi, got the string "5Gi"'),
        ("engine", "v8", 'expected wasmtime or wasmer, got the string "v8"'),
        ("reloadInterval", "50ms", 'expected 0, or at least 100ms, got the string "50ms"'),
        ("reloadInterval", "-1s", 'expected 0, or at least 100ms, got the string "-1s"'),
        ("reloadInterval", False, 'expected a duration such as "20ms", got false'),
        ("allowInsecure", "yes", 'expected true or false, got the string "yes"'),
        ("pure", 1, "expected true or false, got the integer 1"),
    ],
)
def test_a_wrong_value_is_reported_with_field_expectation_and_value(key: str, value: Any, message: str) -> None:
    assert fault(**{key: value}).startswith(f"{PATH}.{key}: {message}")


def test_an_unknown_key_is_reported_with_the_known_ones() -> None:
    text = fault(guestUrl="x", foo=1)
    assert 'unknown argument "guestUrl" (did you mean guestURL?); a wasm plugin knows guestURL, guestConfig' in text
    assert 'unknown argument "foo"; a wasm plugin knows' in text


def test_all_faults_are_reported_at_once() -> None:
    text = fault(deadline="x", memory="y", pure="z")
    assert all(f"{PATH}.{key}: " in text for key in ("deadline", "memory", "pure"))


def test_arguments_are_a_mapping() -> None:
    with pytest.raises(ConfigError, match="expected a mapping, got a list"):
        read_arguments([], PATH)


@given(
    st.dictionaries(
        st.sampled_from([*KNOWN_KEYS, "Args", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_any_document_is_read_or_refused_and_nothing_else(document: dict[str, Any]) -> None:
    try:
        found = read_arguments(document, PATH)
    except ConfigError:
        return
    assert msgspec.to_builtins(found.guest_url) == document["guestURL"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (URL, True),
        ({"guesturl": "x"}, True),
        ({"costLabel": "x"}, False),
        ({}, False),
        (None, False),
        ("guestURL", False),
    ],
)
def test_a_plugin_is_a_wasm_plugin_by_its_arguments(document: Any, expected: bool) -> None:
    assert is_wasm(document) is expected
