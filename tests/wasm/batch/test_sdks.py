"""The examples in Go, AssemblyScript and Rust do what their twins in C do: the libraries keep to the same ABI."""

from __future__ import annotations

import functools
import json
import random
import runpy
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from kscheduler.command.cli import main
from kscheduler.config.duration import Duration
from kscheduler.errors import PluginError
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.answers import PodAnswer, read_answers
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import Module
from tests.support.skips import package
from tests.wasm.batch.fake_guest import pack
from tests.wasm.batch.plugins import URL, Made, info, make_table
from tests.wasm.conformance.conftest import made_engine

package("wasmtime")
package("ziglang")

pytestmark = pytest.mark.slow  # compilers run

PLUGINS = Path(__file__).parents[3] / "plugins"
c_builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "build_guests.py")))
sdk_builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "sdk" / "build_examples.py")))
vectors = SimpleNamespace(**runpy.run_path(str(PLUGINS / "abi" / "make_vectors.py")))

PATIENCE = Duration.parse("10s")  # for a machine where compilers run beside the tests
GPU = "nvidia.com/gpu"
SPEED = "example.com/performance"
TEAM = "example.com/team"
EXAMPLES = ("gpu_packing", "label_score", "namespace_permit", "nodenumber", "team_nodes")
# An example, a configuration of it, and the points it has.
CASES = [
    ("gpu_packing", "", (Point.SCORE,)),
    ("gpu_packing", "example.com/fpga", (Point.SCORE,)),
    ("label_score", "", (Point.SCORE,)),
    ("label_score", TEAM, (Point.SCORE,)),
    ("namespace_permit", "one,two", (Point.PERMIT,)),
    ("namespace_permit", "", (Point.PERMIT,)),
    ("nodenumber", "", (Point.PRE_SCORE, Point.SCORE)),
    ("nodenumber", '{"reverse":true}', (Point.PRE_SCORE, Point.SCORE)),
    ("team_nodes", "", (Point.FILTER,)),
    ("team_nodes", SPEED, (Point.FILTER,)),
]


@pytest.fixture(params=list(sdk_builder.LANGUAGES))
def language(request: pytest.FixtureRequest) -> str:
    """One whose tools are here: a MissingTool is a skip (tests/support/skips.py)."""
    name: str = request.param
    compiled(name, EXAMPLES[0])
    return name


def wasm_of(language: str, name: str) -> Path:
    if language == "c":
        built: Path = c_builder.build(PLUGINS / name / f"{name}.c")
    else:
        built = sdk_builder.LANGUAGES[language].build(name)
    return built


@functools.cache
def compiled(language: str, name: str, engine: str = "wasmtime") -> Module:
    return made_engine(engine).compile(wasm_of(language, name).read_bytes())


def load(
    language: str, name: str, table: NodeTable, config: str = "", *, engine: str = "wasmtime", **more: Any
) -> Made:
    arguments = WasmArguments(guest_url=SecretURL(URL), guest_config=Secret(config), deadline=PATIENCE, **more)
    return Made(compiled(language, name, engine), table, arguments)


def a_node(chance: random.Random, name: str) -> NodeBuilder:
    node = make_node(name).allocatable(**{GPU: chance.choice((0, 1, 4, 8)), "example.com/fpga": chance.randrange(3)})
    if chance.random() < 0.7:
        node.label(SPEED, chance.choice(("5", "20", "red", "", "-3", "007", "9" * 18, "9" * 19, "+4", "1_0")))
    if chance.random() < 0.7:
        node.label(TEAM, chance.choice(("red", "blue", "7", "ünlü")))
    return node


def a_pod(chance: random.Random, name: str) -> PodBuilder:
    pod = make_pod(name, chance.choice(("one", "two", "on", "default"))).req(**{GPU: chance.randrange(4)})
    if chance.random() < 0.7:
        pod.label(TEAM, chance.choice(("red", "blue", "ünlü", "")))
    if chance.random() < 0.3:
        pod.label(SPEED, chance.choice(("5", "20")))
    return pod


def change(table: NodeTable, chance: random.Random, number: int) -> None:
    """A node comes, goes or changes, or a pod comes to it."""
    nodes, kind = list(table), chance.random()
    if kind < 0.4 or not nodes:
        table.set_node(a_node(chance, f"node-{number}").obj())
    elif kind < 0.5:
        table.remove_node(chance.choice(nodes).name)
    elif kind < 0.7:
        table.set_node(a_node(chance, chance.choice(nodes).name).obj())
    else:
        table.add_pod(chance.choice(nodes), info(a_pod(chance, f"resident-{number}")))


def answers_of(made: Made, points: tuple[Point, ...], pods: list[PodInfo], rows: bytes | None) -> list[Any]:
    """What the guest says at its points, one after the other, with what it remembers in between."""
    found: list[Any] = []
    states: list[bytes | None] = [None] * len(pods)
    asker = made.plugin._asker
    for point in points:
        if point in (Point.FILTER, Point.SCORE):
            found.append(asker.ask_many(point, pods, states, rows))
            continue
        said = [asker.ask(point, pod, keep, row=0, node="node-0") for pod in pods]
        states = [answer.state for answer in said]
        found.append(said)
    return [*found, made.events]


def keep(answer: PodAnswer, count: int) -> PodAnswer:
    return answer


def of_living(answers: list[Any], made: Made, rows: bytes | None) -> list[Any]:
    """The same without what guests say of dead rows, which may be anything."""
    asked = range(made.table.columns.rows) if rows is None else array("i", rows)
    living = {node.row for node in made.table}
    for answer in (answer for said in answers for answer in said if isinstance(answer, PodAnswer)):
        for field, kind in (("verdicts", "B"), ("scores", "q")):
            column = getattr(answer, field)
            if column is not None:
                entries = zip(asked, array(kind, column), strict=True)
                setattr(answer, field, [entry for row, entry in entries if row in living])
    return answers


@pytest.mark.parametrize(("name", "config", "points"), CASES)
def test_an_example_decides_as_its_twin_in_c(language: str, name: str, config: str, points: tuple[Point, ...]) -> None:
    decide_alike(language, "wasmtime", name, config, points)


def decide_alike(language: str, engine: str, name: str, config: str, points: tuple[Point, ...]) -> None:
    chance, table = random.Random(f"{name} {config}"), NodeTable()
    made, twin = load(language, name, table, config, engine=engine), load("c", name, table, config)
    for number in range(120):
        change(table, chance, number)
        if chance.random() < 0.5:
            continue
        pods = [info(a_pod(chance, f"pod-{chance.choice('0123456789x')}")) for _ in range(3)]
        some = sorted(chance.sample(range(table.columns.rows), min(3, table.columns.rows)))
        for rows in (None, pack("i", *some)):
            found = of_living(answers_of(made, points, pods, rows), made, rows)
            assert found == of_living(answers_of(twin, points, pods, rows), twin, rows)
    assert made.plugin.pool.instances == 1


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
    pods = [info(make_pod("pod-1"))]
    for _ in range(3000):  # 8 kB of scores each
        table.set_node(a_node(chance, f"node-{chance.randrange(1000)}").obj())
        made.plugin._asker.ask_many(Point.SCORE, pods, [b"\x01"])
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


def test_the_commands_for_plugins_take_the_examples(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], logging_restored: None
) -> None:
    wasm = str(wasm_of(language, "gpu_packing"))
    assert main(["plugin", "inspect", wasm]) == 0
    assert "kscheduler batch ABI, version 1" in capsys.readouterr().out
    files, arguments = PLUGINS / "gpu_packing", tmp_path / "arguments.yaml"
    arguments.write_text("deadline: 1s\n")
    told = []
    for guest in (wasm, str(wasm_of("c", "gpu_packing"))):
        where = ["--cluster", str(files / "nodes.yaml"), "--pod", str(files / "pods.yaml"), "--args", str(arguments)]
        assert main(["plugin", "test", guest, *where, "--plugin-cache-dir", "", "--output", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [pod["nodes"] for pod in told[0]["pods"]] == [pod["nodes"] for pod in told[1]["pods"]]


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
