"""Files that are none, and pipes that nobody fills, hold nobody up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kscheduler.api.manifest import load_manifests
from kscheduler.client.kubeconfig import Kubeconfig
from kscheduler.client.tls import load_pair, verifying_context
from kscheduler.config.document import read_document
from kscheduler.config.metric_policy import Endpoint
from kscheduler.errors import ConfigError
from kscheduler.input import input_files
from kscheduler.input.input_files import check_regular, read_file, read_input
from kscheduler.observability.metric_limits import metric_limits
from kscheduler.serving.certificates import load_files
from kscheduler.simulator.csv_rows import read_rows
from kscheduler.telemetry.endpoint import ssl_context
from kscheduler.telemetry.source import SourceError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "PIPE_PATIENCE_S", 0.01)


def load_server_pair(path: Path) -> None:
    load_files(verifying_context(), str(path), str(path))


READERS: dict[str, tuple[Callable[[Path], object], str]] = {  # reader -> how, what it says of a pipe nobody fills
    "configuration": (lambda path: read_document(str(path)), "nobody has written into this pipe"),
    "workload": (load_manifests, "nobody has written into this pipe"),
    "trace": (lambda path: list(read_rows(str(path), ["a"], {})), "nobody has written into this pipe"),
    "label manifest": (lambda path: metric_limits((), (), str(path)), "nobody has written into this pipe"),
    "kubeconfig": (lambda path: Kubeconfig.read(str(path)), "expected a regular file, got a pipe"),
    "authorities": (lambda path: verifying_context(str(path)), "expected a regular file, got a pipe"),
    "client certificate": (lambda path: load_pair(verifying_context(), str(path), None), "got a pipe"),
    "serving certificate": (load_server_pair, "expected a regular file, got a pipe"),
    "metric source": (lambda path: ssl_context(Endpoint(ca_file=str(path))), "got a pipe"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_into_which_nobody_writes_is_refused(reader: str, pipe: Path) -> None:
    read, message = READERS[reader]
    with pytest.raises((ConfigError, SourceError, OSError), match=message):
        read(pipe)


def test_a_pipe_is_read_to_its_end(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "PIPE_PATIENCE_S", 3600.0)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 300_000,))
    writer.start()
    assert read_input(pipe) == b"x" * 300_000
    writer.join()


def test_what_a_shell_substitutes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from kscheduler.input.input_files import read_input; print(read_input(sys.argv[1]))"
    command = f"{sys.executable} -c '{code}' <(printf abc)"
    assert subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout == "b'abc'\n"


def test_a_device_without_end_is_cut() -> None:
    assert read_input("/dev/zero", 1000) == bytes(1000)
    with pytest.raises(OSError, match="a device"):
        read_file("/dev/zero")


def test_a_directory_and_an_impossible_name_are_no_files(tmp_path: Path) -> None:
    for read in (read_file, read_input, check_regular):
        with pytest.raises(IsADirectoryError):
            read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file("a\0b")


def test_a_regular_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    assert (read_file(path), read_file(path, 3), read_input(path, 2)) == (b"abcdef", b"abc", b"ab")
