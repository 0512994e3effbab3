"""Implements `kscheduler sweep`: plans and carries out the runs of a grid, and writes their comparison."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kscheduler import __version__
from kscheduler.clock import Clock
from kscheduler.command.interruption import EXIT_INTERRUPTED
from kscheduler.command.report_files import check_writable, indented_json, save, write
from kscheduler.counted import counted
from kscheduler.errors import APIError, ConfigError
from kscheduler.input.input_files import read_input
from kscheduler.input.yaml_documents import write_yaml
from kscheduler.sweep.cluster import connected
from kscheduler.sweep.comparison import SweepReport, build_report, choose_baseline
from kscheduler.sweep.executing import in_processes
from kscheduler.sweep.grid import read_grid
from kscheduler.sweep.job import INDEX_VARIABLE, job_manifests, read_lines, run_index
from kscheduler.sweep.options import CollectArguments, IndexArguments, SweepArguments
from kscheduler.sweep.packing import pack
from kscheduler.sweep.plan import Plan
from kscheduler.sweep.report_html import to_html
from kscheduler.sweep.report_text import to_text
from kscheduler.sweep.results import Finished, PlanFile, Results
from kscheduler.sweep.runs import Task

EXIT_INCOMPLETE = 1  # runs failed, or are left
JOB_FILE = "job.yaml"
SHOWN_EVERY_S = 2.0


def sweep(arguments: SweepArguments, clock: Clock) -> int:
    """Carry out a sweep, or write its Job, and return the exit code. Raises ConfigError before the first run."""
    # 1. Everything that can be wrong.
    grid = read_grid(arguments.grid)
    plan = Plan(grid, arguments.seeds, max_runs=arguments.max_runs)
    baseline = choose_baseline(arguments.baseline, plan.configs)
    written = PlanFile(__version__, list(grid.metrics), baseline, plan.runs(), plan.warnings)
    plan.check_traces()
    for warning in plan.warnings:
        print(f"kscheduler: {warning}", file=sys.stderr)
    check_writable(arguments.html)
    if arguments.dry_run:
        print(_planned(plan, written))
        return 0
    if arguments.resume and not (Path(arguments.out) / "plan.json").exists():
        raise ConfigError(f"--resume: expected the results of an earlier sweep in {arguments.out}, there are none")
    with Results(arguments.out) as results:
        _print_notes(results)
        results.write_plan(written)
        # 2. The runs that have no result.
        left = _left(plan, results, repeats_failures=arguments.resume)
        if arguments.on == "job":
            return _on_job(arguments, left, clock)
        began_s = clock.now()
        interrupted = _carry_out(arguments, left, len(written.runs), results, clock)
        # 3. The comparison.
        results.put_in_order(written.runs)
        report = _write_reports(results, written, arguments.html)
        print(to_text(report), end="")
        print(f"\nthis call took {clock.now() - began_s:.1f} s; results are in {arguments.out}")
    if interrupted:
        return EXIT_INTERRUPTED
    return 0 if report.finished == report.runs and not report.failed else EXIT_INCOMPLETE


def collect(arguments: CollectArguments, clock: Clock) -> int:
    """Join the lines of pods' logs into the results, and return the exit code: 0 if no run is left or failed."""
    check_writable(arguments.html)
    with Results(arguments.out) as results:
        plan = results.read_plan()
        _print_notes(results)
        wanted = {run.key for run in plan.runs}
        for source, log in _logs(arguments, clock):
            found, others = read_lines(log)
            for finished in found:
                if finished.result.key in wanted:
                    results.add(finished)
            strangers = sum(finished.result.key not in wanted for finished in found)
            notes = [counted(len(found) - strangers, "result")]
            if strangers:
                which = "which is" if strangers == 1 else "which are"
                notes.append(f"{strangers:,} of another sweep, {which} left out")
            if others:
                notes.append(counted(others, "other line"))
            print(f"{source}: {', '.join(notes)}", file=sys.stderr)
        results.put_in_order(plan.runs)
        report = _write_reports(results, plan, arguments.html)
        print(to_text(report), end="")
    return 0 if report.finished == report.runs and not report.failed else EXIT_INCOMPLETE


def index(arguments: IndexArguments) -> int:
    """Carry out one index of a Job, and print a line for each of its runs."""
    text = os.environ.get(INDEX_VARIABLE, "")
    if not (text.isascii() and text.isdecimal()) or int(text) >= arguments.indexes:
        raise ConfigError(f'{INDEX_VARIABLE}: expected a number below {arguments.indexes}, got "{text}"')
    for line in run_index(arguments.plan, int(text), arguments.indexes):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return 0


# --- runs ---------------------------------------------------------------------------------------------------------


def _left(plan: Plan, results: Results, *, repeats_failures: bool) -> list[Task]:
    """Return the tasks without a result, each key once: entries of a grid may be equal in content."""
    left: dict[str, Task] = {}
    for task in plan.tasks():
        found = results.by_key.get(task.run.key)
        if found is None or (repeats_failures and found.error):
            left.setdefault(task.run.key, task)
    return list(left.values())


def _carry_out(arguments: SweepArguments, tasks: list[Task], runs: int, results: Results, clock: Clock) -> bool:
    """Carry out the tasks and keep their results. Return True if the user interrupted it."""
    if not tasks:
        return False
    until_s = None if arguments.max_time_s is None else clock.now() + arguments.max_time_s
    finished = in_processes(tasks, min(arguments.jobs, len(tasks)), lambda: until_s is None or clock.now() < until_s)
    try:
        for one in _shown(finished, runs - len(tasks), runs, clock):
            results.add(one)
    except KeyboardInterrupt:
        print("kscheduler: interrupted; the same command goes on from here", file=sys.stderr)
        return True
    return False


def _shown(finished: Iterable[Finished], done: int, runs: int, clock: Clock) -> Iterator[Finished]:
    """Yield the finished runs, and print how many there are every few seconds."""
    shown_s = clock.now()
    for one in finished:
        yield one
        done += 1
        if one.result.error:
            print(f"kscheduler: {_run_name(one)}: {one.result.error}", file=sys.stderr)
        if clock.now() - shown_s >= SHOWN_EVERY_S:
            shown_s = clock.now()
            print(f"sweeping: {done:,} of {runs:,} runs finished", file=sys.stderr)


def _run_name(finished: Finished) -> str:
    result = finished.result
    return f"{result.trace}, {result.cluster}, {result.config}, seed {result.seed}"


def _planned(plan: Plan, written: PlanFile) -> str:
    runs = written.runs
    names = [
        f"{kind}: {len(names):,} ({', '.join(names[:12])}{', ...' if len(names) > 12 else ''})"
        for kind, names in (
            ("traces", list(dict.fromkeys(run.trace for run in runs))),
            ("clusters", list(dict.fromkeys(run.cluster for run in runs))),
            ("configurations", plan.configs),
            ("seeds", [str(seed) for seed in plan.seeds]),
        )
    ]
    files = [f"reads {file.path} (sha256 {file.digest[:12]})" for file in plan.files]
    return "\n".join([f"{len(runs):,} runs", *names, *files, f"baseline: {written.baseline or 'none'}"])


# --- a Job --------------------------------------------------------------------------------------------------------


def _on_job(arguments: SweepArguments, tasks: list[Task], clock: Clock) -> int:
    """Write the Job for the runs that are left, and create it if that is asked for."""
    if not tasks:
        print("every run has a result: there is no Job to write")
        return 0
    indexes = min(arguments.jobs, len(tasks))
    manifests = job_manifests(arguments.job_name, arguments.namespace, arguments.image, indexes, pack(tasks))
    path = Path(arguments.out) / JOB_FILE
    write(path, "---\n".join(map(write_yaml, manifests)).encode())
    print(f"wrote {path}: {len(tasks):,} runs in {indexes:,} indexes, {len(manifests) - 1} ConfigMaps")
    collecting = (
        f"kscheduler sweep collect --out {arguments.out} --job-name {arguments.job_name} -n {arguments.namespace}"
    )
    if arguments.apply:
        asyncio.run(_create(arguments, manifests, clock))
        print(f"created job.batch/{arguments.job_name} in namespace {arguments.namespace}; when it is complete:")
    else:
        print(f"kubectl create -f {path}, and when the Job is complete:")
    print(f"  {collecting}")
    return 0


async def _create(arguments: SweepArguments, manifests: list[dict[str, object]], clock: Clock) -> None:
    async with connected(clock, arguments.kubeconfig) as cluster:
        await cluster.create(manifests)


def _logs(arguments: CollectArguments, clock: Clock) -> Iterator[tuple[str, bytes]]:
    """Yield (where it is from, content) of each log."""
    for path in arguments.logs:
        if path == "-":
            yield "standard input", sys.stdin.buffer.read()
            continue
        try:
            yield path, read_input(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if arguments.job_name:
        yield from asyncio.run(_pod_logs(arguments, clock))


async def _pod_logs(arguments: CollectArguments, clock: Clock) -> list[tuple[str, bytes]]:
    logs = []
    async with connected(clock, arguments.kubeconfig) as cluster:
        pods = await cluster.pods(arguments.namespace, arguments.job_name)
        if not pods:
            raise APIError(f"job {arguments.namespace}/{arguments.job_name}: expected pods of it, there are none")
        for name, phase in pods:
            try:
                logs.append((f"pod {name}", await cluster.log(arguments.namespace, name)))
            except APIError as error:
                print(f"kscheduler: pod {name} ({phase or 'no phase'}): {error}", file=sys.stderr)
    return logs


# --- reports ------------------------------------------------------------------------------------------------------


def _write_reports(results: Results, plan: PlanFile, html: str | None) -> SweepReport:
    report = build_report(plan, results)
    write(results.directory / "report.json", indented_json(report).encode())
    if html is not None:
        save(html, to_html(report).encode())
    return report


def _print_notes(results: Results) -> None:
    for note in results.notes:
        print(f"kscheduler: {note}", file=sys.stderr)
