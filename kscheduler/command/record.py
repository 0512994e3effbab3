"""Implements `kscheduler record --out FILE`: records a cluster until Ctrl-C, or for a given time."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from functools import partial
from pathlib import Path

import uvloop

from kscheduler.client.kube import KubeClient
from kscheduler.clock import Clock
from kscheduler.command.emulation import Emulations, choose, releases_of
from kscheduler.command.flags.record import RecordOptions
from kscheduler.config.dump import to_yaml
from kscheduler.config.load import config_reader
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.record.recorder import Recorder, RecorderOptions
from kscheduler.wasm.plugins import GuestPlugins

PRINTED_AFTER_S = 5.0  # if some kinds are not listed after this time, they are printed


def record(options: RecordOptions, clock: Clock) -> int:
    """Record a cluster, print a summary, and return the exit code.

    Raises ConfigError for wrong options or unusable files, APIError if the apiserver refuses a request.
    """
    path = Path(options.out)
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: expected a directory {path.parent}, there is none")
    guests = GuestPlugins(cache_dir=None, reloads=False)
    read = config_reader(options.config, partial(find_plugins, guests=guests))
    emulations = Emulations(read, {}, releases_of(options.emulated_version))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_record(options, emulations, clock))


async def _record(options: RecordOptions, emulations: Emulations, clock: Clock) -> int:
    client = await KubeClient.connect(clock, kubeconfig=options.kubeconfig)
    loop = asyncio.get_running_loop()
    try:
        if options.emulated_version is None:
            config = (await choose(emulations, client, clock, random.Random())).emulation.config
        else:
            config = emulations.first.config
        settings = RecorderOptions(
            Path(options.out),
            to_yaml(config) if options.config else "",
            options.part_bytes,
            options.keep_parts,
            config.release,
        )
        recorder = Recorder(client, clock, random.Random(), settings)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, recorder.stop)
        slow = loop.call_later(PRINTED_AFTER_S, _print_unlisted, recorder)
        began_s = clock.now()
        await recorder.run(partial(_begun, recorder, options.duration_s))
        slow.cancel()
    finally:
        await client.close()
    if not recorder.parts:
        print("kscheduler: stopped before everything was listed; nothing is recorded", file=sys.stderr)
        return 1
    objects = ", ".join(f"{count:,} {plural}" for plural, count in recorder.objects.items())
    files = ", ".join(str(part) for part in recorder.parts)
    print(f"recorded {recorder.changes:,} changes in {clock.now() - began_s:.1f} s: {objects or 'an empty cluster'}")
    print(f"wrote {files} ({recorder.bytes / 1024:,.0f} KiB)")
    return 0


def _begun(recorder: Recorder, duration_s: float | None) -> None:
    print(f"recording to {recorder.parts[-1]}; Ctrl-C ends it", file=sys.stderr)
    if duration_s is not None:
        asyncio.get_running_loop().call_later(duration_s, recorder.stop)


def _print_unlisted(recorder: Recorder) -> None:
    for plural, error in recorder.unlisted.items():
        print(f"kscheduler: waiting for the list of {plural}: {error or 'no answer yet'}", file=sys.stderr)
