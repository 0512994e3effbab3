"""Which interface a guest speaks, where it runs, and why it cannot."""

from __future__ import annotations

import pytest

from kscheduler.wasm.loading.abi import Abi, Interface, interface_of
from kscheduler.wasm.loading.sections import read_sections
from tests.wasm.loading.modules import BATCH_EXPORTS, module

NOTHING = [("k8s.io/klog", "severity", ":i")]


def interface(*arguments: object, **fields: object) -> Interface:
    return interface_of(read_sections(module(*arguments, **fields)))  # type: ignore[arg-type]


def test_a_guest_of_the_extension_runs_where_its_exports_say_in_the_order_of_a_cycle() -> None:
    exports = {"score": ":I", "filter": ":i", "prefilter": ":i", "enqueue": ":", "unreserve": ":", "malloc": "i:i"}
    found = interface(exports, NOTHING)
    assert (found.abi, found.faults) == (Abi.EXTENSION, ())
    assert found.points == ("preFilter", "filter", "score", "reserve")


@pytest.mark.parametrize("exports", [{"filter": ":i"}, {"score": ":I"}, {"permit": ":I"}, {"prefilter": ":i"}])
def test_one_main_function_is_enough(exports: dict[str, str]) -> None:
    assert interface(exports).faults == ()


def test_reserve_with_permit_is_taken_which_kube_scheduler_wasm_extension_refuses() -> None:
    assert interface({"reserve": ":i", "permit": ":I"}).faults == ()


@pytest.mark.parametrize(
    ("exports", "fault"),
    [
        ({}, "wasm: guest does not export any plugin functions"),
        ({"malloc": "i:i"}, "wasm: guest does not export any plugin functions"),
        ({"prescore": ":i"}, "wasm: filter, score, reserve, permit or bind must be exported"),
        ({"filter": ":I"}, "wasm: guest exports the wrong signature for func[filter]. should be () -> (i32)"),
        ({"score": ":i"}, "wasm: guest exports the wrong signature for func[score]. should be () -> (i64)"),
        (
            {"filter": ":i", "enqueue": "i:"},
            "wasm: guest exports the wrong signature for func[enqueue]. should be ()",
        ),
        ({"kscheduler_abi_v2": ":i"}, "expected version 1 of the batch ABI, got a guest of version 2"),
        (BATCH_EXPORTS | {"ks_describe": ":i"}, "export ks_describe: expected () -> (i64), got () -> (i32)"),
        (
            {name: kind for name, kind in BATCH_EXPORTS.items() if name != "ks_alloc"},
            "export ks_alloc: expected (i32) -> (i32), got none",
        ),
    ],
)
def test_a_guest_that_cannot_be_loaded_says_why(exports: dict[str, str], fault: str) -> None:
    assert interface(exports).faults == (fault,)


def test_a_guest_without_memory_is_refused() -> None:
    assert interface({"filter": ":i"}, memory=None).faults == ("wasm: guest doesn't export memory[memory]",)


def test_a_batch_guest_is_known_by_its_mark_and_may_leave_out_what_it_does_not_need() -> None:
    needed = {name: kind for name, kind in BATCH_EXPORTS.items() if name not in ("ks_table", "ks_call")}
    for exports in (BATCH_EXPORTS, needed, BATCH_EXPORTS | {"filter": ":i"}):
        found = interface(exports, [("kscheduler", "now", ":I"), ("wasi_snapshot_preview1", "fd_write", "iiii:i")])
        assert found == Interface(Abi.BATCH, (), (), ())


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (("env", "exit", "i:"), "import env.exit (i32) -> (): no host function of this name"),
        (("env", "abort", "i:"), "import env.abort (i32) -> (): expected (i32, i32, i32, i32) -> ()"),
        (("k8s.io/klog", "severity", ":I"), "import k8s.io/klog.severity () -> (i64): expected () -> (i32)"),
        (
            ("kscheduler", "now", ":I"),
            "import kscheduler.now () -> (i64): it belongs to kscheduler batch ABI, version 1, which this guest does "
            "not speak",
        ),
        (
            ("wasi_snapshot_preview1", "x", ":"),
            "import wasi_snapshot_preview1.x () -> (): no host function of this name",
        ),
    ],
)
def test_an_import_that_nobody_answers_is_named(entry: tuple[str, str, str], fault: str) -> None:
    found = interface({"filter": ":i"}, [entry])
    assert found.faults == (fault,)
    assert [(each.module, each.name) for each in found.unknown_imports] == [entry[:2]]


def test_of_many_unknown_imports_a_few_are_named() -> None:
    faults = interface({"filter": ":i"}, [("env", f"f{n}", ":") for n in range(1000)]).faults
    assert len(faults) == 11
    assert faults[-1] == "and 990 more unknown imports"
