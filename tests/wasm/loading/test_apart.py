"""Work in a thread of its own: its result or error comes back, and an interrupt does not wait for it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from kscheduler.errors import ConfigError
from kscheduler.wasm.loading.apart import begin_apart, run_apart


def test_what_is_raised_apart_is_raised_here() -> None:
    async def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match=r"^no$"):
        run_apart(fail())


def test_an_interrupt_does_not_wait_for_a_download_that_hangs() -> None:
    hanging: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def hang() -> None:
        hanging.append((asyncio.get_running_loop(), asyncio.Event()))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await hanging[0][1].wait()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_apart(hang())
    finally:
        signal.signal(signal.SIGINT, before)
    loop, release = hanging[0]
    loop.call_soon_threadsafe(release.set)


async def test_what_runs_apart_may_raise_or_return_within_a_running_loop() -> None:
    async def fail() -> None:
        raise ConfigError("no")

    async def find() -> int:
        return 3

    assert run_apart(find()) == 3
    with pytest.raises(ConfigError, match="no"):
        run_apart(fail())


def test_the_end_of_the_program_does_not_wait_for_it() -> None:
    program = """
import threading
from kscheduler.wasm.loading.apart import begin_apart
begin_apart(threading.Event().wait, "for-ever")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_the_result_is_kept_for_others_when_one_that_waits_is_cancelled() -> None:
    release = threading.Event()
    found = begin_apart(release.wait, "cancelled")
    waiting = asyncio.wrap_future(found)
    waiting.cancel()
    release.set()
    assert found.result()
