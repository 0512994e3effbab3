"""Reads a guest's bytes from its source, compares them with the configured digest, and detects new contents."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.download import DEFAULT_LIMITS, NO_VALIDATORS, DownloadLimits, Validators, download
from kscheduler.wasm.loading.files import FileState, file_state, read_file
from kscheduler.wasm.loading.source import FileSource, Source, SourceError, parse_source

# A file written twice within one tick of its file system's clock has equal times: one this young is read again.
SETTLED_S = 2.0


class LoadError(ConfigError):
    """A guest cannot be loaded. The text is for users and names the guest's URL."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last known state of a guest's source, by which a change is detected.

    It is the state of a file, or the ETag and Last-Modified that a server sent.
    """

    file: FileState | None = None
    validators: Validators = NO_VALIDATORS


@dataclass(frozen=True, slots=True)
class Fetched:
    data: bytes
    sha256: str
    mark: Mark


class Fetcher:
    """Reads a guest from one URL. Every method raises LoadError, worded as in kube-scheduler-wasm-extension."""

    def __init__(
        self,
        url: SecretURL,
        *,
        sha256: str = "",
        allow_insecure: bool = False,
        limits: DownloadLimits = DEFAULT_LIMITS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to read a guest from this URL. `sha256` is the expected digest, or "" to accept any contents.

        Raises LoadError for an invalid URL.
        """
        self._sha256 = sha256
        self._limits = limits
        self._wall = wall
        if not url:
            raise LoadError("wasm: guestURL is required")
        self._url = url
        self._shown = url.shown
        try:
            self.source: Source = parse_source(url, allow_insecure=allow_insecure)
        except SourceError as error:
            raise self._failed(error) from None
        self._shown = self.source.shown

    @property
    def shown(self) -> str:
        """The URL without secrets, for messages."""
        return self._shown

    async def fetch(self) -> Fetched:
        """Return the source's current contents."""
        fetched = await self._fetch(Mark())
        assert fetched is not None  # an empty mark equals no state
        return fetched

    async def fetch_if_changed(self, mark: Mark) -> Fetched | None:
        """Return the contents, or None if the source reports no change since `mark`.

        Returned contents may still be equal.
        """
        return await self._fetch(mark)

    async def _fetch(self, mark: Mark) -> Fetched | None:
        try:
            if isinstance(self.source, FileSource):
                return await asyncio.to_thread(self._read, self.source, mark)
            found = await download(self.source, self._limits, mark.validators)
            if found.data is None:
                return None
            digest = await asyncio.to_thread(_digest, found.data)
            return self._checked(found.data, digest, Mark(validators=found.validators))
        except SourceError as error:
            raise self._failed(error) from None  # the cause's text may contain the URL with its secrets

    def _read(self, source: FileSource, mark: Mark) -> Fetched | None:
        if mark.file is not None and file_state(source.path) == mark.file:
            return None
        data, state = read_file(source.path, self._limits.max_bytes)
        is_settled = self._wall() - state.modified_ns / 1e9 > SETTLED_S
        return self._checked(data, _digest(data), Mark(file=state if is_settled else None))

    def _checked(self, data: bytes, digest: str, mark: Mark) -> Fetched:
        if self._sha256 and digest != self._sha256:
            raise SourceError(f"expected sha256 {self._sha256}, got {digest} ({counted(len(data), 'byte')})")
        return Fetched(data, digest, mark)

    def _failed(self, error: SourceError) -> LoadError:
        return LoadError(f"wasm: error reading guestURL {self._shown}: {self._url.hide_in(str(error))}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
