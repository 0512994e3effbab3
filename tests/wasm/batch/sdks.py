"""The example plugins of each SDK, and the decisions that they have in common."""

from __future__ import annotations

import functools
import random
import runpy
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kscheduler.config.duration import Duration
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.answers import PodAnswer
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import Module
from tests.wasm.batch.fake_guest import pack
from tests.wasm.batch.plugins import URL, Made, info
from tests.wasm.conformance.conftest import made_engine

PLUGINS = Path(__file__).parents[3] / "plugins"
c_builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "build_guests.py")))
sdk_builder = SimpleNamespace(**runpy.run_path(str(PLUGINS / "sdk" / "build_examples.py")))
PATIENCE = Duration.parse("10s")  # for a machine where compilers run beside the tests
GPU = "nvidia.com/gpu"
SPEED = "example.com/performance"
TEAM = "example.com/team"
RACK = "example.com/rack"
LICENSE = "example.com/license"
IMAGES = ("model:1", "model:2", "web:1")
EXAMPLES = ("gpu_packing", "label_score", "namespace_permit", "nodenumber", "rack_licenses", "team_nodes")
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
    ("rack_licenses", "", (Point.FILTER, Point.SCORE)),
    ("rack_licenses", "3", (Point.FILTER, Point.SCORE)),
    ("team_nodes", "", (Point.FILTER,)),
    ("team_nodes", SPEED, (Point.FILTER,)),
]


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
        node = node.label(SPEED, chance.choice(("5", "20", "red", "", "-3", "007", "9" * 18, "9" * 19, "+4", "1_0")))
    if chance.random() < 0.7:
        node = node.label(TEAM, chance.choice(("red", "blue", "7", "ünlü")))
    if chance.random() < 0.8:
        node = node.label(RACK, chance.choice("abc"))
    for image in chance.sample(IMAGES, chance.randrange(3)):
        node = node.image(image, 1 << 30)
    return node


def a_pod(chance: random.Random, name: str) -> PodBuilder:
    pod = make_pod(name, chance.choice(("one", "two", "on", "default"))).req(**{GPU: chance.randrange(4)})
    if chance.random() < 0.7:
        pod = pod.label(TEAM, chance.choice(("red", "blue", "ünlü", "")))
    if chance.random() < 0.3:
        pod = pod.label(SPEED, chance.choice(("5", "20")))
    if chance.random() < 0.5:
        pod = pod.label(LICENSE, "one")
    return pod.image(chance.choice(IMAGES))


def change(table: NodeTable, chance: random.Random, number: int) -> None:
    """A node comes, goes or changes, or a pod comes to it or leaves it."""
    nodes, kind = list(table), chance.random()
    if kind < 0.4 or not nodes:
        table.set_node(a_node(chance, f"node-{number}").obj())
    elif kind < 0.5:
        table.remove_node(chance.choice(nodes).name)
    elif kind < 0.65:
        table.set_node(a_node(chance, chance.choice(nodes).name).obj())
    elif kind < 0.75 and (residents := [(node, pod) for node in nodes for pod in node.pods.values()]):
        table.remove_pod(*chance.choice(residents))
    else:
        table.add_pod(chance.choice(nodes), info(a_pod(chance, f"resident-{number}")))


def answers_of(made: Made, points: tuple[Point, ...], pods: list[PodInfo], rows: bytes | None) -> list[Any]:
    """What the guest says at its points, one after the other, with what it remembers in between."""
    found: list[Any] = []
    states: list[bytes | None] = [None] * len(pods)
    asker = made.plugin._asker
    for point in points:
        if point in (Point.FILTER, Point.SCORE):
            questions = [asker.question(*each) for each in zip(pods, states, strict=True)]
            found.append([asker.ask_rows(point, question, rows, keep) for question in questions])
            continue
        recorded = [asker.ask(point, pod, keep, row=0, node="node-0") for pod in pods]
        states = [answer.state for answer in recorded]
        found.append(recorded)
    return [*found, made.events]


def keep(answer: PodAnswer, count: int) -> PodAnswer:
    return answer


def of_living(answers: list[Any], made: Made, rows: bytes | None) -> list[Any]:
    """The same without what guests say of dead rows, which may be anything."""
    asked = range(made.table.columns.rows) if rows is None else array("i", rows)
    living = {node.row for node in made.table}
    for answer in (answer for recorded in answers for answer in recorded if isinstance(answer, PodAnswer)):
        for field, kind in (("verdicts", "B"), ("scores", "q")):
            column = getattr(answer, field)
            if column is not None:
                entries = zip(asked, array(kind, column), strict=True)
                setattr(answer, field, [entry for row, entry in entries if row in living])
    return answers


def decide_as_in_c(language: str, engine: str, name: str, config: str, points: tuple[Point, ...]) -> None:
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
