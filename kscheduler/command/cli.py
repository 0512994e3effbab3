"""The `kscheduler` command: selects the subcommand, and implements the small ones.

Exit codes: 0 done, 1 a failure at run time (such as a lost Lease or an unreachable apiserver), 2 wrong flags or
configuration, 130 interrupted by Ctrl-C. The code of a subcommand is imported only when it is chosen, so that each
starts fast.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TextIO

from kscheduler import __version__
from kscheduler.clock import SystemClock
from kscheduler.command.exit_codes import report
from kscheduler.command.flags.commands import CompletionOptions, parse
from kscheduler.command.flags.config import ShowOptions, ValidateOptions
from kscheduler.command.flags.doctor import DoctorOptions
from kscheduler.command.flags.plugin import InspectOptions, PluginTestOptions
from kscheduler.command.flags.record import RecordOptions
from kscheduler.command.flags.replay import ReplayOptions
from kscheduler.command.flags.run_options import RunOptions
from kscheduler.command.flags.simulations import CompareOptions, SimulateOptions, SweepOptions, WhatIfOptions
from kscheduler.command.flags.ui import UiOptions
from kscheduler.command.flags.version import VersionOptions
from kscheduler.command.interruption import report_interruption
from kscheduler.errors import KSchedulerError
from kscheduler.explain.options import ExplainOptions
from kscheduler.observability import logs

Command = Callable[[], int]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `kscheduler` command and return its exit code."""

    def chosen() -> int:
        with _no_collections():  # imports make many lasting objects, and hardly any garbage
            command = prepare(argv)
        return command()

    _escape_what_stdout_cannot_encode()
    with _errors_kept_from_stdout():
        return exit_code_of(chosen)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def exit_code_of(command: Command) -> int:
    """Run a command and return its exit code.

    An error, Ctrl-C, a full disk and a lack of memory are a line on stderr each.
    """
    code = 0
    try:
        try:
            code = command()
        except KSchedulerError as error:
            code = _on_stderr(partial(report, error))
        except KeyboardInterrupt:
            code = _on_stderr(report_interruption)
        except MemoryError:
            code = _on_stderr(partial(report, KSchedulerError("there is not enough memory for this")))
        finally:
            if sys.stdout is not None:  # it is None if the caller closed it
                sys.stdout.flush()  # the interpreter's own flush at its end would print a traceback
    except BrokenPipeError:
        _discard(sys.stdout)  # the reader closed the pipe: nothing more can be written
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard(sys.stdout)
        lack = KSchedulerError(f"cannot write {error.filename or 'the output'}: {error.strerror}")
        code = _on_stderr(partial(report, lack))
    _on_stderr(_flush_errors)
    return code


def _flush_errors() -> int:
    """Write what is left in the buffer of stderr, since the reader may have gone while the command wrote there."""
    if sys.stderr is not None:
        sys.stderr.flush()
    return 0


def _on_stderr(write: Command) -> int:
    """Return the exit code of what writes to stderr; the text is dropped if there is no space, or no reader."""
    try:
        return write()
    except OSError:
        _discard(sys.stderr)
        return write()


def _escape_what_stdout_cannot_encode() -> None:
    """Let stdout write escapes, as stderr does, for characters that the locale's encoding lacks, such as "µ" in ASCII.

    In what is read by programs they are an error there, where another character would go unnoticed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _errors_kept_from_stdout() -> Iterator[None]:
    """Drop what is written to stderr if the caller closed it; `print` would write it to stdout instead."""
    if sys.stderr is not None:
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _discard(stream: TextIO | None) -> None:
    """Drop what could not be written to stdout or stderr, and what will be.

    The interpreter would try it again at its end, and then exit with 120. None: the caller closed it.
    """
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prepare(argv: Sequence[str] | None) -> Command:
    """Parse the arguments and return the chosen subcommand, its code imported, ready to be run. Raises ConfigError."""
    options = parse(argv)
    if isinstance(options, RunOptions):
        from kscheduler.command.running import run

        return lambda: run(options, SystemClock())
    if isinstance(options, ValidateOptions):
        return lambda: validate(options)
    if isinstance(options, ShowOptions):
        return lambda: show(options)
    if isinstance(options, SimulateOptions):
        return lambda: simulate(options)
    if isinstance(options, SweepOptions):
        return lambda: sweep(options)
    if isinstance(options, CompareOptions):
        return lambda: compare(options)
    if isinstance(options, WhatIfOptions):
        return lambda: whatif(options)
    if isinstance(options, RecordOptions):
        return lambda: record(options)
    if isinstance(options, ReplayOptions):
        return lambda: replay(options)
    if isinstance(options, UiOptions):
        return lambda: ui(options)
    if isinstance(options, ExplainOptions):
        return lambda: explain(options)
    if isinstance(options, (InspectOptions, PluginTestOptions)):
        return lambda: plugin(options)
    if isinstance(options, CompletionOptions):
        return lambda: completion(options)
    if isinstance(options, DoctorOptions):
        return lambda: doctor(options)
    return lambda: version(options)


# --- small commands ---


def validate(options: ValidateOptions) -> int:
    from kscheduler.command.unsupported import refuse_unsupported
    from kscheduler.config.document import read_document
    from kscheduler.config.gate_flag import with_gates
    from kscheduler.config.ineffective import idle_arguments, ineffective_fields
    from kscheduler.config.load import config_of
    from kscheduler.config.profiles import unimplemented_plugins, unreached_binders
    from kscheduler.config.releases import DEFAULT_RELEASE, release_of
    from kscheduler.config.routing import KIND as ROUTING
    from kscheduler.config.routing import routing_of
    from kscheduler.framework.out_of_tree import find_plugins
    from kscheduler.framework.plugins.registry import known_plugins
    from kscheduler.wasm.plugins import GuestPlugins

    document = read_document(options.file)
    if document.get("kind") == ROUTING:
        # That `planB` names a profile is checked when the scheduler starts.
        routing = routing_of(document, options.file)
        print(f"{options.file}: valid, rules: {', '.join(rule.name for rule in routing.rules)}")
        return 0
    guests = GuestPlugins()
    release, warnings = with_gates(
        release_of(options.emulated_version or DEFAULT_RELEASE.version), options.feature_gates
    )
    config = config_of(document, options.file, partial(find_plugins, guests=guests), release)
    refuse_unsupported(config, options.file, guests)
    print(f"{options.file}: valid, profiles: {', '.join(profile.scheduler_name for profile in config.profiles)}")
    for scheduler_name, plugin in idle_arguments(config):
        print(
            f"{options.file}: profile {scheduler_name} has arguments of {plugin}, but does not enable it: "
            f"to run it, write `- name: {plugin}` under plugins.multiPoint.enabled"
        )
    for text in ineffective_fields(config):
        print(f"{options.file}: {text}")
    for text in warnings:
        print(text)
    known = known_plugins(config, guests)
    for scheduler_name, plugin in unreached_binders(config, known):
        print(
            f"{options.file}: profile {scheduler_name} never asks {plugin} to bind: DefaultBinder comes before it and "
            "binds every pod; to leave that to the plugin, write `- name: DefaultBinder` under plugins.bind.disabled"
        )
    missing = unimplemented_plugins(config, known)
    if missing:
        print(f"{options.file}: not implemented, without effect: {', '.join(missing)}")
    return 0


def show(options: ShowOptions) -> int:
    from kscheduler.config.dump import to_yaml
    from kscheduler.config.extension_points import ExtensionPoint
    from kscheduler.config.gate_flag import with_gates
    from kscheduler.config.load import load_config
    from kscheduler.config.profiles import effective_plugins
    from kscheduler.config.releases import DEFAULT_RELEASE, release_of
    from kscheduler.framework.out_of_tree import find_plugins
    from kscheduler.framework.plugins.registry import known_plugins
    from kscheduler.wasm.plugins import GuestPlugins

    guests = GuestPlugins()
    release, _ = with_gates(release_of(options.emulated_version or DEFAULT_RELEASE.version), options.feature_gates)
    config = load_config(options.file, find_plugins=partial(find_plugins, guests=guests), release=release)
    print(to_yaml(config, with_secrets=options.secrets), end="")
    if options.expanded:
        known = known_plugins(config, guests)
        for profile in config.profiles:
            print(f"---\n# plugins of profile {profile.scheduler_name} that run, in order (weight)")
            for point, entries in effective_plugins(profile, known, config.release).items():
                weighted = point is ExtensionPoint.SCORE
                names = [f"{name} ({weight})" if weighted else name for name, weight in entries]
                print(f"{point.value}: [{', '.join(names)}]")
    return 0


def version(options: VersionOptions) -> int:
    if options.output == "short":
        print(f"kscheduler {__version__}")
        return 0
    from kscheduler._fast import COMPILED

    facts = {"version": __version__, "python": platform.python_version(), "compiled": COMPILED}
    if options.output == "json":
        print(json.dumps(facts))
    else:
        kernels = "compiled" if COMPILED else "plain Python"
        print(f"kscheduler {__version__} (CPython {platform.python_version()}, {kernels} kernels)")
    return 0


def simulate(options: SimulateOptions) -> int:
    from kscheduler.command.simulate import simulate as run_simulation

    logs.configure(verbosity=logs.QUIET)  # only the report and warnings are printed
    return run_simulation(options.arguments)


def sweep(options: SweepOptions) -> int:
    from kscheduler.command import sweep as sweeping
    from kscheduler.sweep.options import read_arguments, read_collect_arguments, read_index_arguments

    logs.configure(verbosity=logs.QUIET)
    if options.part == "collect":
        return sweeping.collect(read_collect_arguments(options.arguments), SystemClock())
    if options.part == "index":
        return sweeping.index(read_index_arguments(options.arguments))
    return sweeping.sweep(read_arguments(options.arguments), SystemClock())


def compare(options: CompareOptions) -> int:
    from kscheduler.command.compare import compare_runs
    from kscheduler.compare.options import read_arguments

    logs.configure(verbosity=logs.QUIET)
    return compare_runs(read_arguments(options.arguments))


def whatif(options: WhatIfOptions) -> int:
    from kscheduler.command.whatif import whatif as answer
    from kscheduler.whatif.options import read_arguments

    logs.configure(verbosity=logs.QUIET)
    return answer(read_arguments(options.arguments))


def record(options: RecordOptions) -> int:
    logs.configure(verbosity=logs.QUIET)
    if options.server:
        from kscheduler.command.record_download import download

        return download(options, SystemClock())
    from kscheduler.command.record import record as record_cluster

    return record_cluster(options, SystemClock())


def replay(options: ReplayOptions) -> int:
    from kscheduler.command.replay import replay as replay_record

    logs.configure(verbosity=logs.QUIET)
    text, code = replay_record(options)
    print(text, end="")
    return code


def ui(options: UiOptions) -> int:
    from kscheduler.command.ui import ui as show_page

    logs.configure(verbosity=logs.QUIET)
    return show_page(options)


def explain(options: ExplainOptions) -> int:
    from kscheduler.command.explain import explain as ask

    logs.configure(verbosity=logs.QUIET)
    print(ask(options, SystemClock()), end="")
    return 0


def plugin(options: InspectOptions | PluginTestOptions) -> int:
    logs.configure(verbosity=logs.QUIET)
    if isinstance(options, InspectOptions):
        from kscheduler.command.plugin_inspect import inspect

        text, code = inspect(options)
    else:
        from kscheduler.command.plugin_trial import try_plugin

        text, code = try_plugin(options)
    print(text, end="")
    return code


def completion(options: CompletionOptions) -> int:
    from kscheduler.command.completion import script
    from kscheduler.command.flags.commands import words_of_commands

    print(script(options.shell, words_of_commands()), end="")
    return 0


def doctor(options: DoctorOptions) -> int:
    from kscheduler.command.doctor import doctor as examine

    logs.configure(verbosity=logs.QUIET)
    return examine(options, SystemClock())


if __name__ == "__main__":
    sys.exit(main())
