"""A new version of a guest in a running scheduler: answers of its predecessor are dropped, by both lanes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.controlplane.patience import until
from kscheduler.wasm.loading.reload import Outcome, Reloader
from kscheduler.wasm.plugins import GuestPlugins
from tests.support.skips import package
from tests.wasm.hostile_guests import batch_guest, config_with, scores
from tests.wasm.loading.running import scheduling

package("wasmtime")


class Scene:
    """A scheduler with nodes n1 to n3, and pods of one look."""

    def __init__(self, cluster: Cluster, path: Path, reloader: Reloader) -> None:
        self._cluster = cluster
        self._path = path
        self._reloader = reloader
        self._pods = 0

    async def change_to(self, guest: bytes) -> None:
        self._path.write_bytes(guest)
        assert await self._reloader.look() is Outcome.REPLACED

    async def places(self, number: int = 4) -> set[str]:
        """Nodes of so many more pods."""
        names = [f"p{number}" for number in range(self._pods, self._pods + number)]
        self._pods += number
        for name in names:
            self._cluster.create_pod(make_pod(name).scheduler_name("hostile").obj())

        def nodes() -> Sequence[str]:
            return [self._cluster.pods[f"default/{name}"].spec.node_name for name in names]

        await until(lambda: all(nodes()))
        return set(nodes())


def preferring(row: int, depends: str) -> bytes:
    return batch_guest(scores(*(100 * (place == row) for place in range(3))), depends=depends)


@pytest.mark.parametrize("depends", ["pod", "other"])
async def test_pods_after_the_swap_are_decided_by_the_new_version(depends: str, tmp_path: Path) -> None:
    """Pods of a guest that goes by the pod alone are decided in the compiled lane, without a call."""
    guests: Any = GuestPlugins()
    config = config_with(preferring(0, depends), tmp_path, guests)
    async with scheduling(config, guests) as (scheduler, cluster, metrics):
        for number in (2, 3):
            cluster.create_node(make_node(f"n{number}").capacity(cpu="64", memory="256Gi", pods=500).obj())
        await until(lambda: scheduler.cache.table.get("n3") is not None)
        scene = Scene(cluster, tmp_path / "guest.wasm", Reloader(guests.guests[0], scheduler))
        assert await scene.places() == {"n1"}
        calls = metrics.wasm_calls_total.labels("Guest")
        assert (calls.value == 1) is (depends == "pod")
        await scene.change_to(preferring(2, depends))
        assert await scene.places() == {"n3"}
        await scene.change_to(preferring(1, depends))
        assert await scene.places() == {"n2"}
