"""`kscheduler plugin inspect`: what is printed of guests of all kinds, and of what is none."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from kscheduler.command.cli import main
from tests.wasm.loading.modules import BATCH_EXPORTS, FILTER, module


@pytest.fixture(autouse=True)
def _logging(logging_restored: None) -> None: ...


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    return tmp_path / "g.wasm"


def inspect(path: object, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, str]:
    code = main(["plugin", "inspect", str(path), *flags])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_guest_of_the_extension_is_described(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wasm = module({"filter": ":i", "score": ":I"}, [("k8s.io/klog", "severity", ":i")], memory=(2, 256))
    guest.write_bytes(wasm)
    code, out, _ = inspect(guest, capsys)
    assert code == 0
    assert out.splitlines() == [
        f"guest      {guest}",
        f"size       {len(wasm)} bytes",
        f"sha256     {hashlib.sha256(wasm).hexdigest()}",
        "speaks     kube-scheduler-wasm-extension",
        "runs at    filter, score",
        "memory     128 KiB at first, at most 16 MiB",
        "",
        "exports:",
        "  filter  () -> (i32)",
        "  score   () -> (i64)",
        "  memory  memory of 2..256 pages",
        "",
        "imports:",
        "  k8s.io/klog severity  () -> (i32)  kube-scheduler-wasm-extension",
    ]


def test_a_batch_guest_says_at_run_time_where_it_runs(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest.write_bytes(module(BATCH_EXPORTS))
    code, out, _ = inspect(guest, capsys)
    assert code == 0
    assert "speaks     kscheduler batch ABI, version 1" in out
    assert "runs at    what the guest says when it is asked" in out
    assert "imports: none" in out


def test_what_is_wrong_is_also_printed_as_json(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest.write_bytes(module(BATCH_EXPORTS, [("env", "exit", "i:")], custom=b"x"))
    code, out, _ = inspect(guest, capsys, "--output", "json")
    found = json.loads(out)
    assert code == 1
    assert found["abi"] == "kscheduler"
    assert found["extensionPoints"] is None
    assert found["memory"] == {"minimumBytes": 65536, "maximumBytes": None}
    assert found["imports"] == [{"module": "env", "name": "exit", "type": "(i32) -> ()", "of": None, "isKnown": False}]
    assert {"name": "ks_describe", "type": "() -> (i64)"} in found["exports"]
    assert found["customSections"] == ["note"]
    assert found["faults"] == ["import env.exit (i32) -> (): no host function of this name"]


def test_a_module_that_is_no_plugin_is_described_with_the_reason(
    guest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guest.write_bytes(module({"add": "ii:i"}, memory=None))
    code, out, _ = inspect(guest, capsys)
    assert code == 1
    assert "speaks     neither ABI of a plugin" in out
    assert "memory     none is exported" in out
    assert out.endswith(
        "It cannot be loaded:\n"
        "  - wasm: guest does not export any plugin functions\n"
        "  - wasm: guest doesn't export memory[memory]\n"
    )


def test_names_cannot_play_with_the_terminal(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest.write_bytes(module({"filter": ":i", "\x1b[2J": ":"}, [("\x1b]0;x\7", "\x1b[1m", ":")]))
    _, out, _ = inspect(guest, capsys)
    assert "\x1b" not in out
    assert "\\u001b[2J" in out


def test_what_is_no_module_is_an_error_that_says_what_it_is(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest.write_bytes(b"<!DOCTYPE html><title>404")
    code, out, err = inspect(guest, capsys)
    assert (code, out) == (2, "")
    assert err == (
        f"kscheduler: error: {guest}: expected WebAssembly, which starts with the bytes 00 61 73 6d, got a page of "
        "HTML or XML\n"
    )


def test_a_url_is_taken_too(guest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest.write_bytes(FILTER)
    assert inspect(f"file://{guest}", capsys)[0] == 0
    code, _, err = inspect("http://a.example/g.wasm", capsys)
    assert code == 2
    assert "expected https, got plain http from a.example" in err
    assert "--allow-insecure of `kscheduler plugin`" in err
    code, _, err = inspect(guest.with_name("absent"), capsys)
    assert code == 2
    assert "no such file or directory" in err
