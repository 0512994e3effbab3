"""Formats results as text: each target's figures for each workload, and how far kscheduler is ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perf.ratios import BARE, BARE_EVENTS, OURS, THEIRS, Ratios, ratios_of, shown, spread
from perf.results import CPU, FIGURES, LATENCY, MEDIAN_LATENCY, MEMORY, THROUGHPUT, Figure, Results

SUMMARY = (THROUGHPUT, CPU, LATENCY, MEMORY)
NO_FIGURE = "-"


def whole_table(results: Results) -> str:
    """Every figure of every workload, then the ratios of all in one table, if both schedulers took part."""
    parts = [workload_table(results, title) for title in results.titles()]
    ratios = ratios_of(results)
    return "\n\n".join([*parts, ratio_table(ratios)] if ratios.workloads else parts)


def workload_table(results: Results, title: str) -> str:
    """Medians of the targets, and ratios taken within a round."""
    targets = list(dict.fromkeys(record.target for record in results.records if record.title == title))
    rounds = max(record.round for record in results.records if record.title == title)
    mark = "PARTIAL, " if rounds < results.facts.rounds or title in results.facts.failures else ""
    lines = [
        f"{mark}{title}; median of {rounds} of {results.facts.rounds} interleaved rounds",
        f"{'':36}" + "".join(f"{target:>16}" for target in targets) + "   ratio (lowest .. highest)",
    ]
    ratios = ratios_of(results).of(title)
    for figure in FIGURES:
        found = [results.values(title, target, figure) for target in targets]
        if any(found):
            medians = "".join(f"{shown(spread(each).median) if each else NO_FIGURE:>16}" for each in found)
            lines.append(f"{figure.title:36}{medians}   {ratios.get(figure.key, NO_FIGURE)}")
    return "\n".join([*lines, *_tail_lines(results, title, targets)])


def _tail_lines(results: Results, title: str, targets: Sequence[str]) -> Iterator[str]:
    """Where the longest waits are from: the 99th percentile beside what nobody there can be below, within a round."""
    for other, figure, words in (
        (BARE, LATENCY, f"p99 beyond that of {BARE}, ms"),
        (BARE_EVENTS, LATENCY, f"p99 beyond that of {BARE_EVENTS}, ms"),
        (THEIRS, MEDIAN_LATENCY, f"p99 in p50s of {THEIRS}"),
    ):
        beside = _by_round(results, title, other, figure)
        if not {BARE, BARE_EVENTS} & {*targets} or not beside:
            continue
        medians = ""
        for target in targets:
            pairs = [
                (tail, beside[number])
                for number, tail in _by_round(results, title, target, LATENCY).items()
                if beside.get(number)
            ]
            found = [tail - base if figure is LATENCY else tail / base for tail, base in pairs]
            medians += f"{shown(spread(found).median) if found else NO_FIGURE:>16}"
        yield f"{words:36}{medians}"


def _by_round(results: Results, title: str, target: str, figure: Figure) -> dict[int, float]:
    chosen = [record for record in results.records if (record.title, record.target) == (title, target)]
    return {record.round: value for record in chosen if (value := record.figure(figure)) is not None}


def ratio_table(ratios: Ratios) -> str:
    """One line a workload; above 1 we are ahead."""
    width = max([len(each.name) for each in ratios.workloads], default=0) + 2
    lines = [f"{OURS} to {THEIRS}: ratio (lowest .. highest); above 1, {OURS} is ahead"]
    lines.append(" " * width + "".join(f"{figure.title:30}" for figure in SUMMARY))
    for each in ratios.workloads:
        found = [str(each.ratios.get(figure.key, NO_FIGURE)) for figure in SUMMARY]
        lines.append(f"{each.name:{width}}" + "".join(f"{text:30}" for text in found).rstrip())
    return "\n".join(lines)
