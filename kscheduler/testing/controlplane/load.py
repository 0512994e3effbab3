"""Creates many objects fast, from another process, so that it takes no time from the program that is measured.

    created = create(control_plane.credentials, nodes(5000))
    created = create(control_plane.credentials, pods(10_000, "default"))

Each body is encoded once, and `{index}` in the encoded text is replaced for each object; requests use a fixed number of
persistent connections. Run as a program, it reads from stdin what `Loading` writes to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import msgspec
import uvloop

from kscheduler.testing.controlplane import workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials, from_fields, to_fields
from kscheduler.testing.controlplane.patience import POLL_S, Patience

IN_FLIGHT = 64
ROOT = Path(__file__).resolve().parents[3]  # the folder that contains the package kscheduler
TIMEOUT_S = 600.0


class Batch(msgspec.Struct, frozen=True):
    """Objects to create: `count` of them, numbered from `first`, made from the templates in turn."""

    path: str  # path of the collection
    templates: Sequence[Object]  # `{index}` in any string becomes the object's number
    count: int
    first: int = 0
    rate_per_s: float | None = None  # objects per second, evenly spaced; None: as fast as possible


class Created(msgspec.Struct, frozen=True):
    """The outcome of creating a batch: how many objects, in how many seconds."""

    count: int
    seconds: float  # from the first request to the last answer
    started_unix_s: float

    @property
    def per_second(self) -> float:
        """The number of objects created per second."""
        return self.count / self.seconds if self.seconds else 0.0


def nodes(count: int, *, first: int = 0, templates: Sequence[Object] | None = None) -> Batch:
    """Return a batch of nodes of the default shape, or made from templates in turn."""
    return Batch("/api/v1/nodes", list(templates or [workload.node()]), count, first)


def pods(
    count: int,
    namespace: str = "default",
    *,
    first: int = 0,
    templates: Sequence[Object] | None = None,
    rate_per_s: float | None = None,
) -> Batch:
    """Return a batch of pods of the default shape, or made from templates in turn."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return Batch(path, list(templates or [workload.pod()]), count, first, rate_per_s=rate_per_s)


class Loading:
    """A batch that another process is creating."""

    def __init__(self, credentials: Credentials, batch: Batch) -> None:
        with tempfile.TemporaryFile() as request:
            request.write(msgspec.json.encode({"credentials": to_fields(credentials), "batch": batch}))
            request.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=ROOT,
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def wait(self) -> Created:
        """Wait until all objects are created. Raises HarnessError if a request failed, or there is no more progress."""
        try:
            output, errors = self._outputs()
        except BaseException:
            self.stop()
            raise
        if self._process.returncode != 0:
            raise HarnessError(f"the load generator failed: {errors.decode(errors='replace').strip()[-2000:]}")
        return msgspec.json.decode(output, type=Created)

    def _outputs(self) -> tuple[bytes, bytes]:
        patience = Patience("the load is created")
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.communicate(timeout=POLL_S)
            patience.waited(POLL_S)

    def stop(self) -> None:
        """Stop creating objects."""
        self._process.kill()
        self._process.communicate()


def create(credentials: Credentials, batch: Batch) -> Created:
    """Create a batch from another process, and wait until it is created."""
    return Loading(credentials, batch).wait()


async def create_here(credentials: Credentials, batch: Batch) -> Created:
    """Create a batch from this process's event loop."""
    bodies = _bodies(batch)
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT, ssl=credentials.ssl_context())
    headers = {**credentials.headers(), "Content-Type": "application/json"}
    async with aiohttp.ClientSession(credentials.server, connector=connector, headers=headers) as session:
        began, started_unix_s = time.monotonic(), time.time()
        tasks = [
            asyncio.ensure_future(_post_all(session, batch, bodies, began)) for _ in range(min(IN_FLIGHT, batch.count))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return Created(batch.count, time.monotonic() - began, started_unix_s)


async def _post_all(
    session: aiohttp.ClientSession, batch: Batch, bodies: Iterator[tuple[int, bytes]], began: float
) -> None:
    """POST bodies one after the other, until there are none left; run once for each connection."""
    for sequence, body in bodies:
        if batch.rate_per_s is not None:
            await asyncio.sleep(began + sequence / batch.rate_per_s - time.monotonic())
        async with session.post(batch.path, data=body) as response:
            answer = await response.read()
            if response.status >= 300:
                text = answer[:500].decode(errors="replace")
                raise HarnessError(f"POST {batch.path}: HTTP {response.status}: {text}")


def _bodies(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Yield each object's position in the batch, and its encoded body."""
    encoded = [msgspec.json.encode(template) for template in batch.templates]
    for sequence in range(batch.count):
        index = str(batch.first + sequence).encode()
        yield sequence, encoded[sequence % len(encoded)].replace(b"{index}", index)


def _main() -> int:
    request = msgspec.json.decode(sys.stdin.buffer.read())
    batch = msgspec.convert(request["batch"], Batch)
    try:
        created = uvloop.run(create_here(from_fields(request["credentials"]), batch))
    except (HarnessError, aiohttp.ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(created))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
