"""Compiled guests on disk, so that a start costs milliseconds where compiling costs seconds.

    DIRECTORY/<sha256 of guest, engine, version, machine>.module  =  magic, SHA-256 of the blob, blob

A blob is native code that an engine runs without checks. So it is only read from a directory that only this user can
write to, and only used if it has the digest it was written with: the digest finds damage, the permissions keep out
other users. Files are written atomically. The least recently used ones are removed when the directory exceeds its
limit. The cache is optional: every failure is a warning, and the guest is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kscheduler.wasm.engine import Engine

log = logging.getLogger(__name__)

MAGIC = b"kscheduler module 1\n"
DIGEST_BYTES = 32
SUFFIX = ".module"
_UNFINISHED = ".unfinished-"  # prefix of files being written
_UNFINISHED_S = 3600.0  # an older one was left by a process that ended while it wrote
DEFAULT_MAX_BYTES = 256 * 1024 * 1024  # a large guest compiles to some 3 MB
PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    size_bytes: int
    used_at: float


class CompiledCache:
    """A cache directory of compiled guests; several threads and processes may use it at once."""

    def __init__(self, directory: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES, is_wanted: bool = True) -> None:
        """Use this directory. `is_wanted`: the user named it, so that a warning is logged if it cannot be used."""
        self.directory = Path(directory)
        self._max_bytes = max_bytes
        self._level = logging.WARNING if is_wanted else logging.DEBUG
        self._is_usable: bool | None = None  # None: not tried yet

    def get(self, key: str) -> bytes | None:
        """Return the compiled code stored under this key, or None. A damaged file is removed."""
        if not self._prepare():
            return None
        path = self._path(key)
        try:
            content = _read_private(path, self._max_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain("compiled guest cannot be read; it is compiled again", path, error)
            return None
        start = len(MAGIC) + DIGEST_BYTES
        blob = content[start:]
        if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : start] != hashlib.sha256(blob).digest():
            log.warning("compiled guest is damaged; it is compiled again", extra={"path": str(path)})
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # mark as used now
        return blob

    def put(self, key: str, blob: bytes) -> None:
        """Store compiled code, and remove older files if necessary. Code larger than the whole limit is not stored."""
        size = len(MAGIC) + DIGEST_BYTES + len(blob)
        if size > self._max_bytes or not self._prepare():
            return
        path = self._path(key)
        try:
            self._write(path, MAGIC + hashlib.sha256(blob).digest() + blob)
            self._make_room(path)
        except OSError as error:
            self._complain("compiled guest cannot be kept", path, error)

    def remove(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{SUFFIX}"

    # --- the directory ---

    def _prepare(self) -> bool:
        """Create the directory if needed; return whether it exists and is private. Checked once."""
        if self._is_usable is None:
            try:
                self.directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
                _check_ours(self.directory)
                self._is_usable = True
            except OSError as error:
                self._complain("no directory for compiled guests; they are compiled at each start", None, error)
                self._is_usable = False
        return self._is_usable

    def _complain(self, sentence: str, path: Path | None, error: OSError) -> None:
        log.log(
            self._level,
            sentence,
            extra={"path": str(path or self.directory), "err": error.strerror or str(error)},
        )

    def _write(self, path: Path, content: bytes) -> None:
        descriptor, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=self.directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    # --- room ---

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used files, except the one just written, until the size limit is met."""
        entries = sorted(self._entries(), key=lambda entry: entry.used_at)
        excess = sum(entry.size_bytes for entry in entries) - self._max_bytes
        for entry in entries:
            if excess <= 0:
                break
            if entry.path != str(newest):
                with contextlib.suppress(FileNotFoundError):  # another process had the same idea
                    os.unlink(entry.path)
                excess -= entry.size_bytes

    def _entries(self) -> Iterator[_Entry]:
        """Yield the cache's files, and remove leftovers of interrupted writes.

        Other files are neither counted nor removed.
        """
        with os.scandir(self.directory) as found:
            for item in found:
                try:
                    state = item.stat(follow_symlinks=False)
                    if item.name.startswith(_UNFINISHED) and time.time() - state.st_mtime > _UNFINISHED_S:
                        os.unlink(item.path)
                    elif item.name.endswith(SUFFIX):
                        yield _Entry(item.path, state.st_size, state.st_mtime)
                except FileNotFoundError:
                    continue


def cache_key(guest_sha256: str, engine: Engine) -> str:
    """Return a digest of everything that the compiled code depends on."""
    parts = (guest_sha256, engine.name, engine.version, platform.machine())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def default_directory(environment: Mapping[str, str] | None) -> Path | None:
    """Return the cache directory by the XDG rules; None if the user has no home directory, as in a container."""
    given = os.environ if environment is None else environment
    base = given.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the rules say to ignore a relative one
        return Path(base) / "kscheduler" / "plugins"
    home = given.get("HOME", "")
    return Path(home) / ".cache" / "kscheduler" / "plugins" if os.path.isabs(home) and home != "/" else None


def open_cache(directory: str | None, *, environment: Mapping[str, str] | None = None) -> CompiledCache | None:
    """Open the cache for a value of `--plugin-cache-dir`.

    None means the default place, if there is one; "" means no cache.
    """
    if directory is not None:
        return CompiledCache(directory) if directory else None
    default = default_directory(environment)
    return None if default is None else CompiledCache(default, is_wanted=False)


# --- permissions ----------------------------------------------------------------------------------------------------


def _check_ours(directory: Path) -> None:
    """Raise PermissionError for a directory that other users can write to, or that this user cannot."""
    state = directory.stat()
    if state.st_uid != os.geteuid():
        raise PermissionError(f"expected a directory of user {os.geteuid()}, got one of user {state.st_uid}")
    if stat.S_IMODE(state.st_mode) & 0o022:
        mode = stat.S_IMODE(state.st_mode)
        raise PermissionError(f"expected a directory only its owner writes to (0700), got {mode:04o}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError("expected a directory that can be written to")


def _read_private(path: Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file that belongs to this user; links are not followed. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid():
            raise PermissionError("expected a file of this user's own")
        return file.read(max_bytes)  # a longer file is cut short, so its digest does not match
