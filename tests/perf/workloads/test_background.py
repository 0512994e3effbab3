"""What goes on beside the measured pods: which objects a step creates and deletes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

from kscheduler.testing.controlplane import RequestFailed
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.patience import eventually
from perf.workloads.background import Background, Churning, Deleting, Updating
from perf.workloads.operations import Churn
from perf.workloads.site import Connection

PODS, NODES = "/api/v1/namespaces/n/pods", "/api/v1/nodes"


@dataclass
class FakeApi:
    """Objects by path, with names in order; what is not there cannot be deleted."""

    alive: list[str] = field(default_factory=list)
    made: int = 0
    replaced: list[str] = field(default_factory=list)

    def close(self) -> None:
        pass

    def create(self, path: str, body: Object) -> Any:
        name = f"{body['metadata']['generateName']}{self.made}"
        self.made += 1
        self.alive.append(f"{path}/{name}")
        return {"metadata": {"name": name}}

    def replace(self, path: str, body: Object) -> None:
        self.replaced.append(path)

    def request(self, method: str, path: str) -> None:
        assert method == "DELETE"
        if path not in self.alive:
            raise RequestFailed(404, "NotFound", path)
        self.alive.remove(path)


def connect() -> Connection:
    return cast(Connection, FakeApi())


def churning(mode: str, number: int = 0) -> Churning:
    operation = Churn(mode=mode, number=number, template_paths=("a", "b"))  # type: ignore[arg-type]
    return Churning(
        operation,
        [(PODS, {"metadata": {"generateName": "p-"}}), (NODES, {"metadata": {"generateName": "n-"}})],
    )


def steps(churn: Churning | Deleting | Updating, api: FakeApi, count: int) -> list[bool]:
    return [churn.step(cast(Connection, api)) for _ in range(count)]


def test_recreated_objects_come_and_go_in_turn() -> None:
    api, churn = FakeApi(), churning("recreate", number=1)
    alive = []
    for _ in range(3):
        steps(churn, api, 1)
        alive.append(list(api.alive))
    assert alive == [[f"{PODS}/p-0", f"{NODES}/n-1"], [], [f"{PODS}/p-2", f"{NODES}/n-3"]]


def test_so_many_recreated_objects_are_alive_at_most() -> None:
    api, churn = FakeApi(), churning("recreate", number=2)
    alive = []
    for _ in range(6):
        steps(churn, api, 1)
        alive.append(len(api.alive) // 2)
    assert alive == [1, 2, 1, 0, 1, 2]


def test_steps_are_repeated_until_there_is_no_more() -> None:
    taken = []
    with Background(connect) as background:
        done = threading.Event()

        def step(api: Connection) -> bool:
            taken.append(api)
            if len(taken) == 3:
                done.set()
            return len(taken) < 3

        background.repeat("three", step, 0.0)
        eventually(done.is_set, "it is done")
        background.end()
        background.check()
    assert len(taken) == 3
