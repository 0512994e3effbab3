"""Identifies input files by their content, and brings them to where a run is carried out.

A run on this machine reads the file at its path, after a check that it still has the content that was planned with. For
another machine the content itself is sent, and is written to a temporary directory there.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.input.input_files import check_regular

MAX_BYTES = 128 << 20  # of one file: some two million rows of a trace, of which each process keeps all
_BLOCK = 1 << 20


class InputFile(msgspec.Struct, frozen=True):
    """One file that runs read: its path as given, its SHA-256 digest, and its compressed content if that is sent."""

    path: str
    digest: str
    content: bytes = b""

    @property
    def identity(self) -> str:
        """The content's digest, and the suffix, which decides how the content is read."""
        return self.digest + Path(self.path).suffix.lower()


def input_file(path: str) -> InputFile:
    """Return the file at a path, without its content. Raises ConfigError if it cannot be read, or is too large."""
    return InputFile(path, _digest(path))


def with_content(file: InputFile) -> InputFile:
    """Return the file with its content. Raises ConfigError if it cannot be read or has changed."""
    try:
        data = Path(file.path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file.path}: cannot be read: {error.strerror or error}") from error
    _check_same(file, hashlib.sha256(data).hexdigest())
    return msgspec.structs.replace(file, content=zlib.compress(data, 9))


class LocalFiles:
    """Finds the files of runs on this machine, in this process."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._checked: dict[InputFile, tuple[int, int]] = {}  # -> time of change and size when it was checked
        self._written: dict[str, str] = {}  # identity -> path in the temporary directory

    def path(self, file: InputFile) -> str:
        """Return a path at which the file has its content. Raises ConfigError if it cannot be read or has changed."""
        if file.content:
            return self._written.get(file.identity) or self._write(file)
        try:
            status = os.stat(file.path)
        except OSError as error:
            raise ConfigError(f"{file.path}: cannot be read: {error.strerror or error}") from error
        state = (status.st_mtime_ns, status.st_size)
        if self._checked.get(file) != state:
            _check_same(file, _digest(file.path))
            self._checked[file] = state
        return file.path

    def shown(self, text: str, files: Iterable[InputFile]) -> str:
        """Return a message with the paths that the user gave in place of those in the temporary directory."""
        for file in files:
            if file.content and (path := self._written.get(file.identity)) is not None:
                text = text.replace(path, file.path)
        return text

    def _write(self, file: InputFile) -> str:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="kscheduler-sweep-")
        path = os.path.join(self._directory.name, file.identity)
        Path(path).write_bytes(zlib.decompress(file.content))
        self._written[file.identity] = path
        return path


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    try:
        check_regular(path)
        with open(path, "rb") as data:
            size = os.fstat(data.fileno()).st_size
            if size > MAX_BYTES:
                raise ConfigError(
                    f"{path}: expected a file of at most {MAX_BYTES >> 20} MiB, got {size >> 20} MiB: "
                    "every process keeps its whole content; take a part of it"
                )
            while block := data.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


def _check_same(file: InputFile, digest: str) -> None:
    if digest != file.digest:
        raise ConfigError(f"{file.path}: expected the content that the sweep began with, it has changed since")
