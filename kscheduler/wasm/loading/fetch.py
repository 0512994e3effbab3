"""A guest's bytes from its source, held against its digest; and whether the source has something new."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.download import DEFAULT_LIMITS, NO_VALIDATORS, DownloadLimits, Validators, download
from kscheduler.wasm.loading.files import FileState, file_state, read_file
from kscheduler.wasm.loading.source import FileSource, Source, SourceError, parse_source

# A file written twice within one tick of its file system's clock looks the same: what is this young is read again.
SETTLED_S = 2.0


class LoadError(ConfigError):
    """A guest cannot be had; the text is fit for a user and names the URL."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What to compare the source with next time: a file's state, or what a server said."""

    file: FileState | None = None
    validators: Validators = NO_VALIDATORS


@dataclass(frozen=True, slots=True)
class Fetched:
    data: bytes
    sha256: str
    mark: Mark


class Fetcher:
    """Asks one source. Every method raises LoadError in kube-scheduler-wasm-extension's form."""

    def __init__(
        self,
        url: SecretURL,
        *,
        sha256: str = "",
        allow_insecure: bool = False,
        limits: DownloadLimits = DEFAULT_LIMITS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`sha256` "": any contents are taken. Raises LoadError for a URL that can never work."""
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
        """The URL, for messages."""
        return self._shown

    async def fetch(self) -> Fetched:
        """What the source has now."""
        fetched = await self._fetch(Mark())
        assert fetched is not None  # nothing to compare with
        return fetched

    async def fetch_if_changed(self, mark: Mark) -> Fetched | None:
        """None: as far as the source says, it has what it had at `mark`. The digest is for the caller to compare."""
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
            raise self._failed(error) from None  # whose text may repeat the URL

    def _read(self, source: FileSource, mark: Mark) -> Fetched | None:
        if mark.file is not None and file_state(source.path) == mark.file:
            return None
        data, state = read_file(source.path, self._limits.max_bytes)
        is_settled = self._wall() - state.modified_ns / 1e9 > SETTLED_S
        return self._checked(data, _digest(data), Mark(file=state if is_settled else None))

    def _checked(self, data: bytes, digest: str, mark: Mark) -> Fetched:
        if self._sha256 and digest != self._sha256:
            raise SourceError(f"expected sha256 {self._sha256}, got {digest} ({len(data)} bytes)")
        return Fetched(data, digest, mark)

    def _failed(self, error: SourceError) -> LoadError:
        return LoadError(f"wasm: error reading guestURL {self._shown}: {self._url.hide_in(str(error))}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
