"""Pod classes: pods that are filtered and scored equally.

Here every row (node) is judged again for each pod; nothing is cached.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from kscheduler._fast.codes import MAX_CLASS_WEIGHT, MAX_RAW, MAX_SCORED_RESOURCES, MAX_WEIGHT
from kscheduler._fast.reference.answers import RowAnswers
from kscheduler._fast.reference.checks import index, within
from kscheduler._fast.reference.columns import NodeColumns, PodRequest
from kscheduler._fast.reference.filtering import filter_fit, filter_node_classes
from kscheduler._fast.reference.metric_rules import MetricRules
from kscheduler._fast.reference.scoring import (
    Scores,
    _shape_table,
    accumulate,
    normalize,
    score_balanced,
    score_least_allocated,
    score_most_allocated,
    score_node_classes,
    score_requested_to_capacity_ratio,
)
from kscheduler._fast.reference.verdicts import Verdicts

if TYPE_CHECKING:
    from kscheduler._fast.reference.placement import Placer
    from kscheduler._fast.reference.spread_affinity import JoinTerms

_Weighted = Sequence[tuple[int, int]]
_Score = Callable[[Verdicts, Scores], None]  # leaves 0..100 as the raw score of each feasible row


@final
class PodClass:
    """Pods that are equal in request, in the node classes that they may go to, and in how rows (nodes) are scored.

    All scores must be added before the first placement; weights and normalisation are those of the plugins. When any of
    these changes, or there is a new node class, make a new pod class. (A node class has the nodes with equal labels and
    taints.)
    """

    def __init__(
        self, columns: NodeColumns, request: PodRequest, verdict_by_node_class: bytes | bytearray | array[int]
    ) -> None:
        columns._check_resources(request)
        self._columns = columns
        self._request = request
        self._verdicts = bytes(verdict_by_node_class)
        for node_class, verdict in enumerate(self._verdicts):
            within(f"verdict of node class {node_class}", verdict, 0, 127)
        self._scores: list[tuple[_Score, int]] = []  # with their weights
        self._kinds: set[str] = set()  # of scores that there is at most one of
        self._answers: list[RowAnswers] = []
        self._filtering: list[MetricRules] = []
        self._weights = 0
        self._owner: Placer | None = None
        self._is_used = False

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    @property
    def request(self) -> PodRequest:
        return self._request

    # --- how rows are scored ---

    # `request`: what the pods are scored by, if it is not what they are counted with.

    def score_least_allocated(self, resources: _Weighted, weight: int, request: PodRequest | None = None) -> None:
        own = self._scored_by(request)
        self._score_fit(
            resources,
            weight,
            lambda verdicts, scores: score_least_allocated(self._columns, verdicts, scores, own, resources),
        )

    def score_most_allocated(self, resources: _Weighted, weight: int, request: PodRequest | None = None) -> None:
        own = self._scored_by(request)
        self._score_fit(
            resources,
            weight,
            lambda verdicts, scores: score_most_allocated(self._columns, verdicts, scores, own, resources),
        )

    def score_requested_to_capacity_ratio(
        self,
        resources: _Weighted,
        shape: Sequence[tuple[int, int]],
        weight: int,
        request: PodRequest | None = None,
    ) -> None:
        _shape_table(shape)
        own = self._scored_by(request)
        self._score_fit(
            resources,
            weight,
            lambda verdicts, scores: score_requested_to_capacity_ratio(
                self._columns, verdicts, scores, own, resources, shape
            ),
        )

    def score_balanced(self, resources: Sequence[int], weight: int) -> None:
        self._begin("balance")
        self._check_resources([(resource, 1) for resource in resources])

        def score(verdicts: Verdicts, scores: Scores) -> None:
            score_balanced(self._columns, verdicts, scores, self._request, resources)

        self._add("balance", weight, score)

    def score_node_classes(self, value_by_node_class: array[int], reverse: bool, weight: int) -> None:
        """Score each row by the value of its node class (nodes with equal labels and taints).

        Values are normalised to 0..100, or in reverse order.
        """
        self._begin()
        if len(value_by_node_class) != len(self._verdicts):
            raise ValueError(
                f"value_by_node_class: expected {len(self._verdicts)} values, got {len(value_by_node_class)}"
            )
        for node_class, value in enumerate(value_by_node_class):
            within(f"value of node class {node_class}", value, 0, MAX_RAW)
        values = array("q", value_by_node_class)

        def score(verdicts: Verdicts, scores: Scores) -> None:
            score_node_classes(self._columns, verdicts, scores, values)
            normalize(verdicts, scores, reverse)

        self._add("", weight, score)

    def score_rows(self, score_by_row: bytes | bytearray, weight: int) -> None:
        """Score each row (node) by its byte in `score_by_row`, 0..100, not normalised; a row past the end gets 0."""
        self._begin()
        values = bytes(score_by_row)
        for row, value in enumerate(values):
            within(f"score of row {row}", value, 0, 100)

        def score(verdicts: Verdicts, scores: Scores) -> None:
            for row in verdicts.feasible_rows():
                scores.set_raw(row, values[row] if row < len(values) else 0)

        self._add("", weight, score)

    def ask_rows(self, answers: RowAnswers, weight: int = 0) -> None:
        """Reject rows (nodes) whose mark is not 0, or add scores that are not normalised, by a plugin's answers.

        Before a placement the plugin is asked again about changed rows.
        """
        self._begin()
        if answers.columns is not self._columns:
            raise ValueError("the answers are about another table")
        low, high = answers._limits
        if low < 0 or high > 100:
            raise ValueError(f"scores of rows: expected limits within 0..100, got {low}..{high}")

        def score(verdicts: Verdicts, scores: Scores) -> None:
            for row in verdicts.feasible_rows():
                scores.set_raw(row, answers._score(row))

        self._add("", weight, score)
        self._answers.append(answers)

    def follow_rules(self, rules: MetricRules, filters: bool, weight: int = 0) -> None:
        """With `filters`, reject the rows (nodes) that rules on live metrics reject; add their points, not normalised.

        The rules are evaluated again at each placement, since they depend on the resources in use.
        """
        self._begin()
        if rules.columns is not self._columns:
            raise ValueError("the rules are about another table")
        self._add("", weight, rules.score)
        if filters:
            self._filtering.append(rules)

    # --- inside ---

    def _begin(self, kind: str = "") -> None:
        if self._is_used:
            raise ValueError("the class is in use: its scores stand")
        if kind in self._kinds:
            raise ValueError(_already(kind))

    def _scored_by(self, request: PodRequest | None) -> PodRequest:
        own = self._request if request is None else request
        self._columns._check_resources(own)
        return own

    def _score_fit(self, resources: _Weighted, weight: int, score: _Score) -> None:
        self._begin("fit")
        self._check_resources(resources)
        self._add("fit", weight, score)

    def _check_resources(self, resources: _Weighted) -> None:
        if len(resources) > MAX_SCORED_RESOURCES:
            raise ValueError(f"resources: expected at most {MAX_SCORED_RESOURCES}, got {len(resources)}")
        for resource, weight in resources:
            index("resource", resource, self._columns.resource_count)
            within("weight", weight, 1, MAX_WEIGHT)

    def _add(self, kind: str, weight: int, score: _Score) -> None:
        within("weight", weight, 0, MAX_WEIGHT)
        self._weights = within("sum of weights", self._weights + weight, 0, MAX_CLASS_WEIGHT)
        self._scores.append((score, weight))
        self._kinds |= {kind} - {""}

    def _judge(self, terms: Sequence[JoinTerms] = (), inside: bytes | None = None) -> tuple[Verdicts, Scores]:
        """Filter and score all rows (nodes) for one pod of the class, also by `terms` (spreading, pod affinity).

        `inside`: by row, 1 for those that are not rejected for being outside; None: none is.
        """
        self._is_used = True
        for answers in self._answers:
            answers.refresh()
        verdicts, scores = Verdicts(), Scores()
        verdicts.reset(self._columns)
        scores.reset(self._columns)
        filter_node_classes(self._columns, verdicts, self._verdicts, 1)
        filter_fit(self._columns, verdicts, self._request, 2)
        for row in verdicts.feasible_rows():
            is_outside = inside is not None and not (row < len(inside) and inside[row])
            if is_outside or any(answers._is_out(row) for answers in self._answers):
                verdicts.reject(row, 3, 0)
        for rules in self._filtering:
            rules.filter(verdicts, 3)
        for part in terms:
            part._rule_out(verdicts)
        for score, weight in self._scores:
            score(verdicts, scores)
            accumulate(verdicts, scores, weight)
        for part in terms:
            part._score(verdicts, scores)
        return verdicts, scores


def _already(kind: str) -> str:
    return f"the class has a score of {kind} already"
