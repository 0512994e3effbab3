"""Formats a comparison as plain text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kscheduler.compare.comparing import Comparison
from kscheduler.compare.differences import PodDifference
from kscheduler.compare.domains import DomainDifference, DomainDifferences
from kscheduler.compare.figures import Figure, Histogram
from kscheduler.compare.landings import NOT_KNOWN
from kscheduler.compare.paired_wait import PairedWait
from kscheduler.compare.reasons import Why
from kscheduler.counted import counted
from kscheduler.simulator.report_text import aligned_table
from kscheduler.simulator.units import percent, seconds
from kscheduler.sweep.metrics import unit_of

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
BAR = 24  # characters of the longest bar
_WIDEST = 160


def to_text(comparison: Comparison) -> str:
    """Return the pods that landed elsewhere and why, then the figures side by side, and pending time as bars."""
    blocks = [
        list(_headline(comparison)),
        list(_pods(comparison)),
        _causes(comparison),
        _figures(comparison.figures),
        *map(_domains, comparison.domains),
        [*_histogram(comparison.pending), *_paired(comparison.paired)],
        list(_notes(comparison)),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
    # Names come from files of others: what a terminal would take for a command is shown as a mark.
    return "".join(each if each.isprintable() or each == "\n" else REPLACEMENT for each in text)


def _headline(comparison: Comparison) -> Iterator[str]:
    for letter, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{letter}: {side.name} ({side.kind})"
    for name, in_a, in_b in comparison.parameters:
        yield f"  {name}: {in_a} | {in_b}"
    yield ""
    pods = comparison.pods
    if not pods.are_nodes_known:
        yield f"{counted(pods.only_placed_in_a, 'pod')} placed only in A, {pods.only_placed_in_b:,} only in B"
        return
    yield (
        f"{counted(pods.common, 'pod')} in both: {pods.moved:,} on another node, "
        f"{pods.only_placed_in_a:,} placed only in A, "
        f"{pods.only_placed_in_b:,} only in B; {pods.same_node:,} on the same node, "
        f"{pods.placed_in_neither:,} without a node in both"
    )


# --- pods ---------------------------------------------------------------------------------------------------------


def _pods(comparison: Comparison) -> Iterator[str]:
    if not comparison.differences:
        if comparison.not_listed:
            yield f"{counted(comparison.not_listed, 'pod')} landed elsewhere, none is listed (--limit)"
        elif comparison.pods.common:
            yield "every pod landed equally in both"
        return
    yield "pods that landed elsewhere, in the order of decisions:"
    rows = [[each.pod, *_nodes(each), _shortened(each.because), each.given] for each in comparison.differences]
    yield from _left([["pod", "in A", "in B", "why", ""], *rows])
    if comparison.not_listed:
        yield f"and {comparison.not_listed:,} more (--limit)"


def _nodes(each: PodDifference) -> Iterator[str]:
    for node in (each.node_a, each.node_b):
        yield "a node" if node == NOT_KNOWN else node or "no node"


def _causes(comparison: Comparison) -> list[str]:
    """Return how often each plugin is the first that says why, of the listed pods."""
    counts = Counter(_cause(each.why) for each in comparison.differences)
    if len(comparison.differences) < 2:
        return []
    listed = ", ".join(f"{count:,} {cause}" for cause, count in counts.most_common())
    return [f"why, of the {len(comparison.differences):,} listed: {listed}"]


def _cause(why: Why) -> str:
    if why.kind in ("filter", "score"):
        return f"{why.plugin} ({why.kind})"
    return "outside the gang's domain" if why.kind == "outside" else why.kind


# --- figures ------------------------------------------------------------------------------------------------------


def _figures(figures: Sequence[Figure]) -> list[str]:
    rows = [[_title(each), _value(each, each.a), _value(each, each.b), _change(each)] for each in figures]
    return aligned_table([["", "A", "B", "B - A"], *rows])


def _title(figure: Figure) -> str:
    resource = figure.name.partition(":")[2]
    return f"{resource}: {figure.text}" if resource else figure.text


def _value(figure: Figure, value: float | None) -> str:
    if value is None:
        return "-"
    unit = unit_of(figure.name)
    if unit:
        return percent(value, 2) if unit == "share" else seconds(value)
    return f"{value:,.3f}" if figure.name.startswith("imbalance") else f"{value:,.0f}"


def _change(figure: Figure) -> str:
    if figure.a is None or figure.b is None:
        return "-"
    change = figure.b - figure.a
    size = _value(figure, abs(change))
    if size == _value(figure, 0.0):  # as far as it is shown; what one cannot see is neither better nor worse
        return "="
    text = f"{'+' if change > 0 else '-'}{size}"
    if figure.is_measured:
        return text
    return f"{text} {'better' if (change > 0) is figure.is_more_better else 'worse'}"


def _domains(differences: DomainDifferences) -> list[str]:
    """Return how the domains of one label differ, the largest differences first; nothing if none does."""
    domains = differences.domains
    if not domains:
        return []
    resources = list(dict.fromkeys(name for each in domains for name in (*each.used_a, *each.used_b)))
    head = ["", "nodes in A", "in B", "pods placed in A", "in B", "B - A"]
    for name in resources:
        head += [f"{name} requested in A", "in B"]
    rows = [[each.name, *_counts(each), *_shares(each, resources)] for each in domains]
    lines = [f"by {differences.label}, the largest differences first:", *aligned_table([head, *rows])]
    if differences.not_listed:
        lines.append(f"and {counted(differences.not_listed, 'more that differs', 'more that differ')}, each less")
    if differences.equal:
        lines.append(f"and {counted(differences.equal, 'that is', 'that are')} equal in both")
    return lines


def _counts(domain: DomainDifference) -> Iterator[str]:
    a, b = domain.pods_a, domain.pods_b
    yield f"{domain.nodes_a:,}"
    yield f"{domain.nodes_b:,}"
    yield from ("-" if pods is None else f"{pods:,}" for pods in (a, b))
    yield "-" if a is None or b is None else f"{b - a:+,}" if b != a else "="


def _shares(domain: DomainDifference, resources: Iterable[str]) -> Iterator[str]:
    for name in resources:
        for used in (domain.used_a, domain.used_b):
            yield percent(used[name]) if name in used else "-"


def _histogram(histogram: Histogram) -> Iterator[str]:
    if not histogram.bounds_s:
        return
    yield "from creation to binding, share of the placed pods:"
    largest = max((*histogram.a, *histogram.b), default=0.0) or 1.0
    rows = []
    for bound, in_a, in_b in zip(histogram.bounds_s, histogram.a, histogram.b, strict=True):
        bars = [f"{percent(share, 1):>7} {'█' * round(share / largest * BAR)}" for share in (in_a, in_b)]
        rows.append([f"up to {seconds(bound)}", *bars])
    yield from _left([["", "A", "B"], *rows])


def _paired(paired: PairedWait | None) -> Iterator[str]:
    if paired is not None:
        change = f"{'-' if paired.mean_s < 0 else '+'}{seconds(abs(paired.mean_s))}"
        yield (
            f"pod by pod, of {paired.pods:,} placed in both: {paired.sooner:,} bound sooner in B, "
            f"{paired.later:,} later, {paired.equal:,} equally soon; B - A on average {change}"
        )


def _notes(comparison: Comparison) -> Iterator[str]:
    yield from (f"note: {note}" for note in comparison.notes)
    of_a, of_b = (list(side.report.notes) for side in (comparison.a, comparison.b))
    yield from (f"note: {note}" for note in of_a if note in of_b)
    yield from (f"note on A: {note}" for note in of_a if note not in of_b)
    yield from (f"note on B: {note}" for note in of_b if note not in of_a)


# --- layout -------------------------------------------------------------------------------------------------------


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _left(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield table rows as lines with all columns to the left."""
    listed = [[" ".join(cell.split("\n")) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for row in listed:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
