"""The examples in Go, AssemblyScript and Rust do what their twins in C do: the libraries keep to the same ABI."""

from __future__ import annotations

import json
import random
import runpy
from pathlib import Path
from types import SimpleNamespace

import msgpack
import pytest

from kscheduler.command.cli import main
from kscheduler.errors import PluginError
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.batch.answers import read_answers
from kscheduler.wasm.batch.points import Point
from tests.support.skips import package
from tests.wasm.batch.plugins import Made, info, make_table
from tests.wasm.batch.sdks import (
    CASES,
    EXAMPLES,
    PLUGINS,
    SPEED,
    a_node,
    compiled,
    decide_as_in_c,
    keep,
    load,
    sdk_builder,
    wasm_of,
)

package("wasmtime")
package("ziglang")


@pytest.fixture(params=list(sdk_builder.LANGUAGES))
def language(request: pytest.FixtureRequest) -> str:
    """One whose tools are here: a MissingTool is a skip (tests/support/skips.py)."""
    name: str = request.param
    compiled(name, EXAMPLES[0])
    return name


pytestmark = pytest.mark.slow  # compilers run

vectors = SimpleNamespace(**runpy.run_path(str(PLUGINS / "abi" / "make_vectors.py")))


@pytest.mark.parametrize(("name", "config", "points"), CASES)
def test_an_example_decides_as_its_twin_in_c(language: str, name: str, config: str, points: tuple[Point, ...]) -> None:
    decide_as_in_c(language, "wasmtime", name, config, points)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_describes_itself_as_its_twin_in_c(language: str, name: str) -> None:
    made, twin = load(language, name, make_table()), load("c", name, make_table())
    assert made.plugin._asker.described == twin.plugin._asker.described


def test_a_library_hands_on_why_a_configuration_is_refused(language: str) -> None:
    with pytest.raises(PluginError, match=r'refuses its configuration: .*expected \{"reverse":true\}'):
        load(language, "nodenumber", make_table(), "reverse")
    with pytest.raises(PluginError, match=r"refuses its configuration: .*at most 253 bytes"):
        load(language, "team_nodes", make_table(), "x" * 254)


def test_a_guests_memory_does_not_grow_with_the_questions(language: str) -> None:
    chance, table = random.Random(5), make_table(*(make_node(f"node-{number}") for number in range(1000)))
    made = load(language, "nodenumber", table, memory_bytes=8 << 20)
    pod, asker = info(make_pod("pod-1")), made.plugin._asker
    for _ in range(3000):  # 8 kB of scores each
        table.set_node(a_node(chance, f"node-{chance.randrange(1000)}").obj())
        asker.ask_rows(Point.SCORE, asker.question(pod, b"\x01"), None, keep)
    assert made.plugin.pool.instances == 1


class Started:
    """A guest by itself, of which nothing but messages is known."""

    def __init__(self, made: Made) -> None:
        options = made.plugin._version.options
        self.instance = made.module.instantiate(options.functions, options.limits, wasi=options.wasi)
        self.instance.start()
        self.instance.call("ks_configure", 0, 0)
        self.instance.call("ks_describe")

    def ask(self, function: str, message: bytes, *before: int) -> bytes:
        address = self._number("ks_alloc", len(message))
        self.instance.write(address, message)
        packed = self._number(function, *before, address, len(message))
        return self.instance.read(packed >> 32 & 0xFFFFFFFF, packed & 0xFFFFFFFF) if packed else b""

    def _number(self, function: str, *arguments: int) -> int:
        result = self.instance.call(function, *arguments)
        assert isinstance(result, int)
        return result


FROM_HOST = [name for name, vector in vectors.VECTORS.items() if vector[1] == "host to guest"]


@pytest.mark.parametrize("name", FROM_HOST)
def test_a_library_reads_every_message_of_the_page(language: str, name: str) -> None:
    guest = Started(load(language, "gpu_packing", make_table()))
    function = vectors.VECTORS[name][0]
    before = (Point.PERMIT,) if function == "ks_call" else ()  # about which this plugin has nothing to say
    answer = guest.ask(function, bytes.fromhex(vectors.vector(name)["hex"]), *before)
    if function == "ks_call":
        assert read_answers(answer, Point.PERMIT, len(vectors.VECTORS[name][3]["pods"]))
    else:
        assert answer == b""
    guest.instance.close()


def test_a_message_that_does_not_follow_the_last_is_an_error_and_no_fault(language: str) -> None:
    guest = Started(load(language, "label_score", make_table()))
    column = {"n": 7, "v": ["5"], "i": {"i32": [0]}}
    message = {"gen": 1, "full": True, "rows": 1, "alive": {"u8": [1]}, "labels": {SPEED: column}}
    answer = guest.ask("ks_table", msgpack.packb(vectors.to_message(message)))
    assert msgpack.unpackb(answer) == {"error": "an indexed column does not go on where it ended"}
    guest.instance.close()


def test_pods_of_another_number_of_rows_than_the_message_is_about_are_an_error_and_no_fault(language: str) -> None:
    guest = Started(load(language, "rack_licenses", make_table()))
    message = {"gen": 1, "full": True, "rows": 2, "alive": {"u8": [1, 1]}, "pods": [[]]}
    answer = guest.ask("ks_table", msgpack.packb(vectors.to_message(message)))
    assert msgpack.unpackb(answer) == {"error": "a column has the wrong length"}
    guest.instance.close()


def test_the_commands_for_plugins_take_the_examples(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], logging_restored: None
) -> None:
    wasm = str(wasm_of(language, "gpu_packing"))
    assert main(["plugin", "inspect", wasm]) == 0
    assert "kscheduler batch ABI, version 1" in capsys.readouterr().out
    files, arguments = PLUGINS / "gpu_packing", tmp_path / "arguments.yaml"
    arguments.write_text("deadline: 1s\n")
    reported = []
    for guest in (wasm, str(wasm_of("c", "gpu_packing"))):
        where = ["--cluster", str(files / "nodes.yaml"), "--pod", str(files / "pods.yaml"), "--args", str(arguments)]
        assert main(["plugin", "test", guest, *where, "--plugin-cache-dir", "", "--output", "json"]) == 0
        reported.append(json.loads(capsys.readouterr().out))
    assert [pod["nodes"] for pod in reported[0]["pods"]] == [pod["nodes"] for pod in reported[1]["pods"]]


def test_without_its_tools_a_language_is_left_out_except_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setitem(sdk_builder.main.__globals__, "TARGET", tmp_path)
    assert sdk_builder.main(["go"]) == 0
    assert capsys.readouterr().err == "go: left out, no go on the path: Go 1.24 or newer is needed\n"
    monkeypatch.setenv("CI", "true")
    assert sdk_builder.main(["go"]) == 1
