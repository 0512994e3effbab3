"""Packs all runs of a sweep with the content of their files into bytes, for machines that have only these."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import msgspec

from kscheduler import __version__
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.sweep.files import with_content
from kscheduler.sweep.runs import Inputs, Run, Task

MAX_BYTES = 1 << 30  # of an unpacked plan


class _Version(msgspec.Struct, frozen=True):
    """The one field that a plan of every version has."""

    version: str


class _Packed(msgspec.Struct, frozen=True):
    """All runs, with each distinct input and each file's content once."""

    version: str
    contents: dict[str, bytes]  # a file's digest -> its compressed content
    inputs: list[Inputs]  # their files have no content here
    runs: list[tuple[Run, int]]  # and the index of the run's inputs


_decode_version = msgpack_decoder(_Version)
_decode = msgpack_decoder(_Packed)


def pack(tasks: Iterable[Task]) -> bytes:
    """Return the tasks and their files, compressed. Raises ConfigError if a file cannot be read or has changed."""
    contents: dict[str, bytes] = {}
    inputs: dict[Inputs, int] = {}
    runs = []
    for task in tasks:
        for file in task.inputs.files:
            if file.digest not in contents:
                contents[file.digest] = with_content(file).content
        runs.append((task.run, inputs.setdefault(task.inputs, len(inputs))))
    return zlib.compress(msgspec.msgpack.encode(_Packed(__version__, contents, list(inputs), runs)), 9)


def unpack(data: bytes, source: str) -> Iterator[Task]:
    """Yield the packed tasks. Raises ConfigError if they are damaged, or of another version than this program."""
    opened = zlib.decompressobj()
    try:
        plain = opened.decompress(data, MAX_BYTES)
        if not opened.eof:
            raise DecodeError("it is cut off, or too large")
        version = _decode_version(plain).version
        if version != __version__:
            raise ConfigError(f"{source}: expected a plan of kscheduler {__version__}, got one of {version[:40]}")
        packed = _decode(plain)
    except (zlib.error, DecodeError) as error:
        raise ConfigError(f"{source}: expected the plan of a sweep: {error}") from None
    inputs = [
        msgspec.structs.replace(
            each,
            files=tuple(
                msgspec.structs.replace(file, content=packed.contents.get(file.digest, b"")) for file in each.files
            ),
        )
        for each in packed.inputs
    ]
    for run, index in packed.runs:
        yield Task(run, inputs[index])
