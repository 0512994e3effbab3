"""The compiled rules of all policies in use, updated before decisions.

Values are read again when a column's version changes: new values came, old ones expired, or a node came or went.
Policies, and with them the columns to read, may have changed when the version of the policies did.
"""

from __future__ import annotations

import logging

from kscheduler.config.metric_policy import PolicySpec
from kscheduler.framework.plugins.metricpolicy.pod_moves import PodMoves
from kscheduler.framework.plugins.metricpolicy.rule_set import RuleSet
from kscheduler.framework.plugins.metricpolicy.rules import Values, compile_rules
from kscheduler.framework.plugins.metricpolicy.use_history import UseHistory
from kscheduler.framework.telemetry import PolicyRef, Telemetry
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.node_table import NodeTable

log = logging.getLogger(__name__)

MAX_SETS = 128  # some 60 bytes a row each; at this number, those that are not asked for again are dropped

Key = tuple[PolicyRef, int, bool]  # policy, relaxation steps taken, is the time to wait for metrics over?


class RuleSets:
    def __init__(self, table: NodeTable, telemetry: Telemetry) -> None:
        self._table = table
        self._telemetry = telemetry
        self._history = UseHistory(table, PodMoves(table, telemetry))
        self._sets: dict[Key, RuleSet] = {}
        self._before: dict[Key, RuleSet] = {}  # rule sets of the generation before, taken over if asked for
        self._columns: dict[Values, MetricColumn | None] = {}
        self._versions: dict[Values, int] = {}  # of the columns, when sets were fed last
        self._outside: set[tuple[PolicyRef, str]] = set()  # logged: policies and metrics whose range fits no value
        self._policies = (-1, 0)  # version of the policies, and how many resources there are
        self.version = 0  # grows when pod classes that were compiled from these rules become invalid
        telemetry.watch(self._changed)

    def follow(self) -> int:
        """Update all rules and values; called before decisions. Returns the version, which grows when rules change."""
        policies = self._telemetry.policies_version, len(self._table.resources.names)
        if policies != self._policies:
            self._policies = policies
            self._turn()
        if self._sets:
            self._history.note(self._telemetry.now(), decides=True)
            versions = self._versions
            if any(column is not None and column.version != versions[key] for key, column in self._columns.items()):
                self._feed()
        return self.version

    def find(self, policy: PolicyRef, spec: PolicySpec, step: int = 0, *, is_overdue: bool = False) -> RuleSet:
        """Return a policy's rules for pods that have taken `step` relaxation steps, valid until the next `follow`."""
        key = (policy, step, is_overdue)
        found = self._sets.get(key)
        if found is None or not _is_of(found, spec):
            if len(self._sets) >= MAX_SETS:
                self._turn()
            found = self._sets[key] = self._take_over(key, spec) or self._make(key, spec)
            self._begin(found)
            self.version += 1
        return found

    def _turn(self) -> None:
        """Begin a new generation of compiled rules.

        Those of the last generation are taken over if they are asked for again, and dropped with the next turn
        otherwise.
        """
        self._before = self._sets or self._before
        self._sets, self._columns, self._versions = {}, {}, {}
        self.version += 1

    def known(self, policy: PolicyRef, spec: PolicySpec) -> RuleSet | None:
        """Return a policy's rules for pods without progress in it; None if no such pod has been decided yet.

        This does not compile rules, since that would begin to record the usage of nodes earlier than decisions need it.
        """
        key = (policy, 0, False)
        found = self._sets.get(key)
        if found is not None:
            return found if _is_of(found, spec) else None
        before = self._before.get(key)
        return self.find(policy, spec) if before is not None and _goes_on(before, spec) else None

    def _take_over(self, key: Key, spec: PolicySpec) -> RuleSet | None:
        found = self._before.pop(key, None)
        return found if found is not None and _goes_on(found, spec) else None

    def _make(self, key: Key, spec: PolicySpec) -> RuleSet:
        policy, step, is_overdue = key
        rules = compile_rules(spec, self._table.resources, step, is_overdue=is_overdue)
        return RuleSet(policy, spec, rules, self._table)

    def _begin(self, added: RuleSet) -> None:
        for values in added.values - self._columns.keys():
            column = self._columns[values] = self._column(values)
            self._versions[values] = -1 if column is None else column.version
        wanted: set[int] = set().union(*(each.resources for each in (*self._sets.values(), *self._before.values())))
        self._history.follow(wanted, self._telemetry.now())
        self._feed_one(added)

    def _column(self, values: Values) -> MetricColumn | None:
        try:
            return self._telemetry.column(values.metric, values.freshness, last_good=values.last_good)
        except KeyError:
            return None

    def _feed(self) -> None:
        """Update all rule sets that read a column that has changed."""
        changed = {
            key for key, column in self._columns.items() if column is not None and column.version != self._versions[key]
        }
        for key in changed:
            column = self._columns[key]
            self._versions[key] = -1 if column is None else column.version
        for each in self._sets.values():
            if not changed.isdisjoint(each.values):
                self._feed_one(each)

    def _feed_one(self, fed: RuleSet) -> None:
        awaited = fed.awaits
        fed.feed(self._columns, self._history)
        if bool(awaited) != bool(fed.awaits):  # pods of its classes are to be asked about one by one, or no longer
            self.version += 1
        for fallback in fed.lacking:
            self._telemetry.count(COUNTED[fallback], fed.policy)
        self._log_outside(fed)

    def _log_outside(self, fed: RuleSet) -> None:
        """Log once that a rule's range contains no value, usually a mistake in units; and again if it did meanwhile."""
        outside = fed.outside(self._columns)
        for metric, how in outside.items():
            if (fed.policy, metric) not in self._outside:
                fields = {"policy": fed.policy.name, "namespace": fed.policy.namespace, "metric": metric, "why": how}
                log.warning("a rule scores all nodes the same: its range contains no value of the metric", extra=fields)
        self._outside -= {(fed.policy, metric) for metric in set(fed.spec.metrics()) - outside.keys()}
        self._outside |= {(fed.policy, metric) for metric in outside}

    def _changed(self) -> None:
        if self._sets:
            self._history.note(self._telemetry.now(), decides=False)


# Fallback -> as it is counted.
COUNTED = {"Neutral": "neutral", "Exclude": "exclude", "LastGood": "last-good", "Requeue": "requeue"}


def _is_of(rules: RuleSet, spec: PolicySpec) -> bool:
    return rules.spec is spec or rules.spec == spec


def _goes_on(rules: RuleSet, spec: PolicySpec) -> bool:
    """Return True if compiling the policy again would give equal rules."""
    return _is_of(rules, spec) and not rules.rules.lacks_resource
