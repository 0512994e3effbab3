"""Guests of the extension interface see pods whole in a running scheduler, if they ask for pods at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import Pod
from kscheduler.testing import make_pod
from kscheduler.testing.controlplane.patience import until
from kscheduler.wasm.extension.encoding import objects
from kscheduler.wasm.plugins import GuestPlugins
from tests.wasm.extension.kit import module
from tests.wasm.hostile_guests import HOSTILE, PEACEFUL, config_with
from tests.wasm.loading.running import scheduling

ASKS = "(drop (call $pod (i32.const 64) (i32.const 60000)))"


@pytest.mark.parametrize("asks", [True, False])
async def test_a_guest_that_asks_for_the_pod_gets_what_is_kept_of_those_that_wait(
    asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    encode = objects._document

    def noted(source: Pod | PodDocument) -> dict[str, object]:
        seen.append(source)
        return encode(source)

    monkeypatch.setattr(objects, "_document", noted)
    guest = module("pod", filter=f"{ASKS} (i32.const 0)") if asks else module(filter="(i32.const 0)")
    guests = GuestPlugins()
    config = config_with(guest, tmp_path, guests, deadline="1s")
    async with scheduling(config, guests) as (scheduler, cluster, _):
        await scheduler.wait_for_sync()
        for number, profile in enumerate((HOSTILE, PEACEFUL, "another")):
            cluster.create_pod(make_pod(f"p{number}").scheduler_name(profile).obj())
        await until(lambda: all(cluster.pods[f"default/p{number}"].spec.node_name for number in (0, 1)))
        await until(lambda: all(scheduler.pods.store[f"default/p{number}"].spec.node_name for number in (0, 1)))
        assert guests.needs_pods is asks
        assert scheduler.pods.resource.type is (PodDocument if asks else Pod)
        assert scheduler._pod_documents.pods == {}  # none of ours waits
        assert scheduler._pod_documents.bytes == 0
    assert [type(source) for source in seen] == [PodDocument] * asks


async def test_a_guest_sees_the_pod_whole_to_the_end_of_its_binding(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch may have reported the binding by then: no other part keeps the object, but its attempt still has it."""
    holds = "(global.set $size (call $pod (i32.const 64) (i32.const 60000))) (i32.const 0)"
    compares = """
      (if (i32.eq (global.get $size) (call $pod (i32.const 64) (i32.const 60000)))
        (then (call $log (i32.const 2) (i32.const 16) (i32.const 4)))
        (else unreachable))"""
    globals_ = "(global $size (mut i32) (i32.const 0))"
    guest = module("pod", "log", text="same", globals_=globals_, reserve=holds, postbind=compares)
    guests = GuestPlugins()
    config = config_with(guest, tmp_path, guests, deadline="1s")

    def logged() -> list[str]:
        """What the guest has logged; a slow machine has the scheduler log that a plugin takes long."""
        return [record.getMessage() for record in caplog.records if record.name == "kscheduler.wasm.guest"]

    async with scheduling(config, guests) as (scheduler, cluster, _):
        await scheduler.wait_for_sync()
        for number in range(20):
            cluster.create_pod(make_pod(f"p{number}").scheduler_name(HOSTILE).obj())
        await until(lambda: len(logged()) == 20)
    assert set(logged()) == {"same"}
