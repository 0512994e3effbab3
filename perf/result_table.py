"""Results as text: for each workload, what each target came to, and how far ahead ours is."""

from __future__ import annotations

from perf.ratios import OURS, THEIRS, Ratios, ratios_of, shown, spread
from perf.results import CPU, FIGURES, LATENCY, MEMORY, THROUGHPUT, Results

SUMMARY = (THROUGHPUT, CPU, LATENCY, MEMORY)
NO_FIGURE = "-"


def whole_table(results: Results) -> str:
    """Every figure of every workload, then the ratios of all in one table."""
    parts = [workload_table(results, title) for title in results.titles()]
    return "\n\n".join([*parts, ratio_table(ratios_of(results))])


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
    return "\n".join(lines)


def ratio_table(ratios: Ratios) -> str:
    """One line a workload; above 1 we are ahead."""
    width = max([len(each.name) for each in ratios.workloads], default=0) + 2
    lines = [f"{OURS} to {THEIRS}: ratio (lowest .. highest); above 1, {OURS} is ahead"]
    lines.append(" " * width + "".join(f"{figure.title:30}" for figure in SUMMARY))
    for each in ratios.workloads:
        found = [str(each.ratios.get(figure.key, NO_FIGURE)) for figure in SUMMARY]
        lines.append(f"{each.name:{width}}" + "".join(f"{text:30}" for text in found).rstrip())
    return "\n".join(lines)
