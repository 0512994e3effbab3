"""Says in words what is changed in a what-if, and formats its answer for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kscheduler.compare.landings import PodCounts
from kscheduler.compare.text import to_text as comparison_text
from kscheduler.config.gate_flag import gates_in_words
from kscheduler.counted import counted
from kscheduler.simulator.report_text import aligned_table
from kscheduler.simulator.units import seconds
from kscheduler.whatif.answer import Answer
from kscheduler.whatif.capacity import Needed, Trial
from kscheduler.whatif.options import WhatIfArguments

TOP_REASONS = 8
EXAMPLES = 3
_WIDEST = 110


def changes_in_words(arguments: WhatIfArguments, needed: int | None) -> Iterator[str]:
    """Yield one sentence for each change. `needed`: the number of nodes that was found."""
    nodes, configuration = arguments.nodes, arguments.configuration
    for selection in nodes.remove:
        yield f"without the nodes {selection.text}"
    for addition in nodes.add:
        count = needed if addition.count is None else addition.count
        yield f"with {nodes_in_words(count or 0, addition.shape)}"
    yield from (f"with {selection.text} cordoned" for selection in nodes.cordon)
    yield from (f"with {selection.text} uncordoned" for selection in nodes.uncordon)
    for each in nodes.taints:
        value = f"={each.taint.value}" if each.taint.value else ""
        word = "without" if each.removes else "with"
        yield f"{word} the taint {each.taint.key}{value}:{each.taint.effect} on {each.nodes.text}"
    if arguments.new_config is not None:
        yield f"with the configuration {arguments.new_config}"
    if arguments.new_emulated_version is not None:
        yield f"with the kube-scheduler of release {arguments.new_emulated_version}"
    if arguments.new_feature_gates:
        yield f"with the feature gates {gates_in_words(dict(arguments.new_feature_gates))}"
    yield from (f"with plugin {name}" for name in configuration.enabled)
    yield from (f"without plugin {name}" for name in configuration.disabled)
    yield from (f"with weight {weight} of {plugin}" for plugin, weight in configuration.weights)
    yield from (f"with {path} = {value}" for path, value in configuration.values)


def nodes_in_words(count: int, shape: str) -> str:
    return f"{counted(count, 'more node')} ({shape})"


def trial_in_words(trial: Trial) -> str:
    return f"{trial.nodes:,} more: {', '.join(trial.figures)}: {'met' if trial.met else 'not met'}"


def to_text(answer: Answer) -> str:
    """Return what would have been, then the comparison with the scenario as it is."""
    blocks = [
        list(_needed(answer.needed)),
        [f"what if: {', '.join(answer.changes)}"],
        list(_pods(answer)),
        aligned_table([["waited, of all pods", "as it is", "changed"], *_waiting(answer)]),
        list(_pending(answer)),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return f"{text}\n\n{comparison_text(answer.comparison)}"


def _needed(needed: Needed | None) -> Iterator[str]:
    if needed is None:
        return
    objectives = " and ".join(each.text for each in needed.objectives)
    yield f"{nodes_in_words(needed.nodes, needed.shape)} {'is' if needed.nodes == 1 else 'are'} needed for {objectives}"
    yield from (f"  {trial_in_words(trial)}" for trial in sorted(needed.trials, key=lambda trial: trial.nodes))


def _pods(answer: Answer) -> Iterator[str]:
    pods = answer.comparison.pods
    now = counted(pods.only_placed_in_b, "pod is scheduled that was not", "pods are scheduled that were not")
    yield now + _examples(answer.scheduled)
    no_longer = counted(pods.only_placed_in_a, "pod no longer is", "pods no longer are")
    yield no_longer + _examples(answer.no_longer_scheduled)
    yield f"{counted(pods.placed_in_neither, 'pod stays', 'pods stay')} pending"
    elsewhere = counted(pods.moved, "lands on another node", "land on another node")
    yield f"{elsewhere}, {pods.same_node:,} on the same one{_chance(answer.by_chance)}"
    if answer.on_added_nodes:
        yield f"{counted(answer.on_added_nodes, 'is on an added node', 'are on added nodes')}"


def _examples(pods: Sequence[str]) -> str:
    return f" (e.g. {', '.join(pods[:EXAMPLES])})" if pods else ""


def _chance(pods: PodCounts | None) -> str:
    return "" if pods is None else f" ({counted(pods.moved, 'lands', 'land')} on another node if only the seed changes)"


def _waiting(answer: Answer) -> Iterable[list[str]]:
    return ([each.share, _wait(each.before_s), _wait(each.after_s)] for each in answer.waiting)


def _wait(value: float | None) -> str:
    return "for ever" if value is None else seconds(value)


def _pending(answer: Answer) -> Iterator[str]:
    if not answer.pending:
        return
    yield "pods without a node in the changed scenario, by reason:"
    for reason in answer.pending[:TOP_REASONS]:
        kind = reason.kind if len(reason.kind) <= _WIDEST else f"{reason.kind[: _WIDEST - 3]}..."
        yield f"{reason.pods:>7,}  {kind}  (e.g. {reason.examples[0]})"
    if len(answer.pending) > TOP_REASONS:
        yield f"         and {counted(len(answer.pending) - TOP_REASONS, 'other reason')}; all are in the JSON"
