"""Selects nodes by a text on the command line: a name, a shape, a label selector, or all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kscheduler.api.labels import compile_node_selector_term
from kscheduler.api.objects import Node, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.selector_text import requirements, selector_text_fault
from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.whatif.shapes import shape_of

ALL = "all"
_COUNTED = re.compile(r"(?P<count>\d{1,7}):(?P<what>.+)", re.ASCII)
_SELECTOR = re.compile(r"[=!<>(/]")  # none of which is in the name of a node or the value of a label


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes that a flag's value names: all of them, or only the first `count` in order of creation."""

    flag: str
    text: str
    what: str
    count: int | None = None

    @classmethod
    def parse(cls, flag: str, text: str) -> NodeSelection:
        """Parse `[N:]WHAT`. Raises ConfigError for an invalid label selector."""
        counted = _COUNTED.fullmatch(text)
        what = text if counted is None else counted["what"]
        fault = selector_text_fault(what) if _SELECTOR.search(what) else "" if what.strip() else "it is empty"
        if fault:
            raise ConfigError(f'{flag}: expected a node, a shape, a label selector or "{ALL}", got "{text}": {fault}')
        return cls(flag, text, what, None if counted is None else int(counted["count"]))

    def names(self, nodes: Sequence[Node]) -> list[str]:
        """Return the names of the selected nodes. Raises ConfigError if there are none, or fewer than `count`."""
        fits = self._condition(nodes)
        found = [node.metadata.name for node in nodes if fits(node)]
        if not found:
            there = counted(len(nodes), "node")
            raise ConfigError(f'{self.flag}: "{self.what}" is no node, shape or label of the {there}')
        if self.count is not None and len(found) < self.count:
            wanted, are = counted(self.count, "node"), "is" if len(found) == 1 else "are"
            raise ConfigError(f'{self.flag}: expected {wanted} "{self.what}", there {are} {len(found):,}')
        return found if self.count is None else found[: self.count]

    def _condition(self, nodes: Sequence[Node]) -> Callable[[Node], bool]:
        if self.what == ALL:
            return lambda node: True
        if _SELECTOR.search(self.what):
            expressions = [SelectorRequirement(*each) for each in requirements(self.what)]
            term = compile_node_selector_term(NodeSelectorTerm(expressions), self.flag)
            return lambda node: term.matches(node.metadata.labels or {}, node.metadata.name)
        wanted = {name.strip() for name in self.what.split(",")}
        known = {node.metadata.name for node in nodes} | {shape_of(node) for node in nodes}
        unknown = sorted(wanted - known)
        if unknown and wanted & known:  # else there is none at all
            there = counted(len(nodes), "node")
            raise ConfigError(f'{self.flag}: "{unknown[0]}" is no node and no shape of the {there}')
        return lambda node: node.metadata.name in wanted or shape_of(node) in wanted
