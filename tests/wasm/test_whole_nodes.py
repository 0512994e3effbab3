"""Guests of the extension interface see nodes whole in a running scheduler, if they ask for nodes at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from kscheduler.api.documents import NodeDocument
from kscheduler.api.objects import NodeCondition
from kscheduler.testing import make_pod
from kscheduler.testing.controlplane.patience import until
from kscheduler.wasm.extension.encoding import objects
from kscheduler.wasm.plugins import GuestPlugins
from tests.wasm.extension.kit import module
from tests.wasm.hostile_guests import HOSTILE, config_with
from tests.wasm.loading.running import scheduling

ASKS = "(drop (call $node (i32.const 16) (i32.const 2) (i32.const 64) (i32.const 60000)))"  # for n1


@pytest.mark.parametrize("asks", [True, False])
async def test_a_guest_that_asks_for_a_node_gets_what_the_watch_of_whole_nodes_keeps(
    asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    encode = objects._document

    def noted(source: object) -> dict[str, object]:
        seen.append(source)
        return encode(source)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "_document", noted)
    guest = module("node", text="n1", filter=f"{ASKS} (i32.const 0)") if asks else module(filter="(i32.const 0)")
    guests = GuestPlugins()
    config = config_with(guest, tmp_path, guests, deadline="1s")
    async with scheduling(config, guests) as (scheduler, cluster, _):
        await scheduler.wait_for_sync()
        cluster.create_pod(make_pod("p").scheduler_name(HOSTILE).obj())
        await until(lambda: bool(cluster.pods["default/p"].spec.node_name))
        assert guests.needs_nodes is asks
        assert bool(scheduler._node_documents.nodes) is asks
    assert [type(source) for source in seen] == [NodeDocument] * asks


async def test_a_pure_guest_is_asked_again_about_a_node_that_changed_in_what_only_guests_see(tmp_path: Path) -> None:
    guests = GuestPlugins()
    guest = module("node", text="n1", filter=f"{ASKS} (i32.const 0)")
    config = config_with(guest, tmp_path, guests, deadline="1s", pure=True)
    async with scheduling(config, guests) as (scheduler, cluster, _):
        await scheduler.wait_for_sync()
        await until(lambda: bool(scheduler._node_documents.nodes))
        changes = scheduler.cache.table.node_changes
        before = changes.count
        node = cluster.nodes["n1"]
        unready = structs.replace(node.status, conditions=[NodeCondition("Ready", "False")])
        cluster.update_node(structs.replace(node, status=unready))
        await until(lambda: changes.count > before)
        assert guests.keep_answers
