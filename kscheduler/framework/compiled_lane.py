"""The compiled lane: decides many pods in one call of a kernel, exactly as the general lane would one by one.

It decides as many leading pods of a sequence as it can. The first pod that it cannot decide is left to
`Framework.schedule_pod`: for example a pod that some plugin can only decide itself, or one that fits nowhere. Pods that
must leave room to nominated pods are confined to the nodes where they do, if only their requests decide that. Plugins
are asked once for all pods that are equal in what they read, and again when something changes on which an answer
depends. If the answers are then equal, the kernels' cached results by row (node) stay.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kscheduler._fast import Histogram, Placer, PodClass, PodRequest
from kscheduler.framework.class_compiler import Evaluations
from kscheduler.framework.compiled_classes import CompiledClass, CompiledClasses
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.interface import Handle, LimitingPlugin
from kscheduler.framework.known_rejections import KnownRejections
from kscheduler.framework.rows_kept import NONE, RowsKept
from kscheduler.framework.runtime import Framework
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

# For the row caches of classes, 4 bytes a row: 12,000 classes at 5,000 nodes, 600 at 100,000. With more classes, the
# one that was not used for the longest time loses its cache and has to read the table again.
MAX_BYTES = 256 << 20
# So many row caches are kept whatever they take: a cluster of a million nodes needs 2 GiB for the nodes alone, and a
# class without a cache takes milliseconds to read them all.
KEPT_CLASSES = 256
_NO_ROW, _NONE_FEASIBLE = array("i", [-1]), array("i", [0])  # of one pod that is not placed yet


class Placements(msgspec.Struct, eq=False, gc=False):
    """The nodes chosen for the leading pods, in order. The columns count these pods already; the cache does not yet.

    The caller must assume them, `cache.assume_counted(pods, rows, node_names)`, before anything else is done.
    """

    rows: Sequence[int]
    node_names: Sequence[str]
    feasible: Sequence[int]  # nodes that fit
    classes: Sequence[PodClass] = ()
    looking_s: float = 0.0  # seconds spent on finding the classes of all these pods
    placing_s: float = 0.0

    def __len__(self) -> int:
        return len(self.node_names)


NO_PLACEMENTS = Placements(array("i"), (), array("i"))


class CompiledLane:
    """The compiled lane of all profiles: decides many pods in one call of a kernel, on one node table."""

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        handle: Handle,
        observer: Measurements,
        stopwatch: Callable[[], float],
        *,
        threads: int | None = None,
        max_bytes: int = MAX_BYTES,
        measures_steps: bool = True,
    ) -> None:
        """Build the lane. `threads` for kernels; None means 2, or 1 on a single CPU.

        `max_bytes` limits the memory for results by row (node) that are cached for classes of equal pods. KEPT_CLASSES
        of them are always kept. `measures_steps`: False to leave out all metrics of placements.
        """
        self._profiles = profiles
        self._table = handle.table
        self._ties = handle.ties
        self._observer = observer
        self._stopwatch = stopwatch
        self._measures_steps = measures_steps
        # Profile -> what is observed for each pod: PreFilter, Filter, node hints; and for each that is scored.
        self._reported: dict[str, tuple[Histogram, Histogram, Histogram]] = {}
        self._reported_scores: dict[str, tuple[Histogram, Histogram]] = {}
        if threads is None:
            threads = min(2, os.cpu_count() or 1)
        self._placer = Placer(handle.table.columns, max_bytes, threads, KEPT_CLASSES)
        self._classes = CompiledClasses(profiles, handle, self._placer, max_bytes, observer, stopwatch)
        self.rejections = KnownRejections(profiles, self._classes, handle, observer, stopwatch)
        self._first_on_tie = any(framework.first_on_tie for framework in profiles.values())
        self._nominations = handle.nominations
        self._kept = RowsKept(handle.table, handle.nominations)
        self._within: bytes | None = None  # to which all placements are confined by the caller
        self._confined_to: tuple[bytes | None, frozenset[int], int] = (None, NONE, 0)  # the placer's confinement
        self._limiting = self._find_limiting()
        self.is_broken = False  # it has met a fault: nobody is placed by it any more

    @property
    def passes(self) -> int:
        """The number of passes over all nodes, in each of which one or more pod classes scored them."""
        return self._placer.passes

    def sign(self, pod: PodInfo) -> None:
        """Compute the pod's signature, i.e. all that plugins read in it, now, so that `place` need not.

        Raises KeyError for a pod of no profile.
        """
        self._classes.sign(pod)

    def is_plain(self, pod: PodInfo) -> bool:
        """Return True if the pod has a class without terms: then each pod placed leaves less room for it."""
        if self.is_broken:
            return False
        self._classes.refresh()
        if pod.signature not in self._classes.ready:
            self._classes.find(pod)
        return pod.signature in self._classes.ready

    def forget(self) -> None:
        """Drop all that plugins stated about pods, so that they are asked again: one of the plugins was replaced."""
        self._classes.forget()
        self.rejections.forget()
        self._limiting = self._find_limiting()

    def confine(self, confinement: Confinement | None) -> None:
        """Confine all placements to some nodes, until the next call; None: to none."""
        self._within = None if confinement is None else confinement.inside
        self._leave_out(NONE)

    def _leave_out(self, kept: frozenset[int]) -> None:
        """Confine the placer as the caller of `confine` asked, and to rows (nodes) that are not kept from pods."""
        wanted = (self._within, kept, self._table.columns.rows if kept else 0)
        if wanted == self._confined_to:
            return  # another confinement makes classes judge all rows again
        self._confined_to = wanted
        self._placer.confine(self._kept.others(kept, self._within) if kept else self._within)

    def add_room(self, pod: PodInfo, domain_by_row: array[int], room: array[int]) -> bool:
        """Add to room[domain] (array('q')) for how many pods like this one the nodes of each domain have room, at most.

        `domain_by_row` (array('i')): the domain of each row (node), -1 for none. Returns False, and the room may be
        wrong, if kernels do not know where the pod fits.
        """
        if self.is_broken:
            return False
        self._classes.refresh()
        self._leave_out(NONE)
        found = self._classes.find(pod)
        if found is None:
            return False
        try:
            self._placer.add_room(found.pod_class, domain_by_row, room)
        except MemoryError:
            raise
        except Exception as error:  # of a plugin that is asked about nodes
            self._log_fault(found, error)
            return False
        return True

    def place_unless_broken(self, pods: Sequence[PodInfo], recount: Callable[[], None]) -> Placements:
        """Place the leading pods as `place` does, but after a fault none, from then on.

        `recount` is called after the fault. A bug of ours must cost speed, but no decisions, nor room for pods that are
        counted but were not returned.
        """
        if self.is_broken:
            return NO_PLACEMENTS
        try:
            return self.place(pods)
        except MemoryError:
            raise
        except Exception:
            log.exception("the compiled lane failed; from now on all pods are decided one by one")
            self.is_broken = True
            recount()
            return NO_PLACEMENTS

    def place(self, pods: Sequence[PodInfo]) -> Placements:
        """Place the leading pods, each with those before it counted.

        The result is empty if the first pod needs the general lane.

        One call places either pods without terms (spreading, pod affinity), or pods with them: terms read more of the
        pods on nodes than the columns hold, so pods without terms must be assumed before pods with terms are placed. If
        this raises, columns and indexes may count pods that are not placed: the caller must have them recounted.
        """
        started = self._stopwatch()
        # 1. Find their classes, up to the first pod that the core cannot decide.
        run, alone, kept = self._find_run(pods)
        if self._limiting and (run or alone is not None):
            run, alone = self._limit(pods, run, alone)
        found = self._stopwatch()
        # 2. Place them. Pods with terms, or a pod bound to one node, are placed one by one.
        if kept or self._confined_to[1]:
            self._leave_out(kept or NONE)
        rows: Sequence[int]
        feasible: Sequence[int]
        if run:
            rows, feasible = self._place_run(run, yields=kept is not None)
        else:
            rows, feasible = array("i"), array("i")
            while alone is not None and self._place_alone(alone, rows, feasible):
                run.append(alone.pod_class)
                alone = self._next_joined(pods, rows, alone)
        if not rows:
            if pods:
                self._report_none(pods[0], self._stopwatch() - started)
            return NO_PLACEMENTS
        # 3. Name the nodes. The columns count the pods: nothing else may happen until they are assumed.
        return Placements(
            rows,
            list(map(self._table.name_at, rows)),
            feasible,
            run if len(run) == len(rows) else run[: len(rows)],
            found - started,
            self._stopwatch() - found,
        )

    def _find_run(self, pods: Sequence[PodInfo]) -> tuple[list[PodClass], CompiledClass | None, frozenset[int] | None]:
        """Return the pod classes of the leading pods, up to the first pod that cannot be placed together with others.

        If that is because its class has terms (spreading, pod affinity), or its claims allow one node only, the second
        value is its class, else None. The third one are the rows (nodes) that nominated pods keep from each of the
        pods; None if these pods need not leave room to any.
        """
        self._classes.refresh()
        run: list[PodClass] = []
        ready, find, sign = self._classes.ready, self._classes.find, self._classes.sign
        highest = self._nominations.highest_priority if self._nominations.by_pod else None
        if highest is not None and pods and pods[0].priority <= highest:
            return self._find_yielding_run(pods, highest)
        for pod in pods:
            if highest is not None and pod.priority <= highest:
                break
            signature = pod.signature
            if signature is None and pod.pod.spec.scheduler_name in self._profiles:
                signature = sign(pod)
            pod_class = ready.get(signature)
            # A pod may state terms that its signature leaves out, since its own profile ignores them.
            if pod_class is None or pod.states_affinity:
                found = find(pod)
                if found is None:
                    break
                if found.terms is not None or self._classes.only_row >= 0:
                    return run, found, None
                pod_class = found.pod_class
                # A pod with claims is reserved before the next one is placed. And a pod may have terms that its own
                # profile ignores, but other profiles may read.
                if found.ends_run or (pod.states_affinity and pod.held_terms):
                    run.append(pod_class)
                    break
            run.append(pod_class)
        return run, None, None

    def _find_yielding_run(
        self, pods: Sequence[PodInfo], highest: int
    ) -> tuple[list[PodClass], CompiledClass | None, frozenset[int] | None]:
        """Return what `_find_run` does, for leading pods that must leave the same rows (nodes) to nominated pods.

        They are pods of which the general lane compares only the requests with what nominated pods leave of a node.
        """
        run: list[PodClass] = []
        kept_from: dict[tuple[PodClass, int], frozenset[int] | None] = {}
        kept: frozenset[int] | None = None
        for pod in pods:
            if pod.priority > highest or pod.uid in self._nominations.by_pod or pod.states_affinity:
                break
            found = self._classes.find(pod)
            if found is None or found.terms is not None or self._classes.only_row >= 0 or found.ends_run or found.asks:
                break
            look = found.pod_class, pod.priority
            if look not in kept_from:
                request = self._room_asked(found, pod)
                kept_from[look] = None if request is None else self._kept.from_pod(request, pod.priority)
            rows = kept_from[look]
            if rows is None or (run and rows != kept):
                break
            kept = rows
            run.append(found.pod_class)
        return run, None, kept

    def _room_asked(self, found: CompiledClass, pod: PodInfo) -> PodRequest | None:
        """Return what pods of a class need room for, if that alone decides how they yield to nominated pods."""
        known = self._classes.room_asked
        if found.pod_class not in known:
            known[found.pod_class] = self._profiles[found.profile].algorithm.room_asked_for(pod)
        return known[found.pod_class]

    def _find_limiting(self) -> list[tuple[str, LimitingPlugin]]:
        """Return the plugins that limit how many pods may be placed at once, with the names of their profiles."""
        return [
            (name, plugin)
            for name, framework in self._profiles.items()
            for plugin in framework.class_compiler.plugins or ()
            if isinstance(plugin, LimitingPlugin)
        ]

    def _limit(
        self, pods: Sequence[PodInfo], run: list[PodClass], alone: CompiledClass | None
    ) -> tuple[list[PodClass], CompiledClass | None]:
        """Cut a run short at the first pod that a plugin does not admit after those before it."""
        leading = pods[: len(run) or 1]
        admitted = min(plugin.admitted(profile, leading) for profile, plugin in self._limiting)
        if admitted == len(leading):
            return run, alone
        return run[:admitted], None

    def _place_run(self, run: list[PodClass], *, yields: bool = False) -> tuple[Sequence[int], Sequence[int]]:
        """Place one pod for each of these pod classes, in order.

        `yields`: they must leave room to nominated pods; then a pod that comes to a node of theirs is the last one,
        since there is less room beside them then. Returns, for the pods that got a node, the rows of the nodes and how
        many nodes were feasible.
        """
        if len(run) == 1:  # as where pods come one by one: nothing has to be passed in arrays
            pod_class = run[0]
            try:
                number = None if self._first_on_tie else self._ties.next()
                row, fitting = self._placer.place_one(pod_class, number)
            except Exception as error:
                self._log_fault(self._classes.of(pod_class), error)
                return (), ()
            if row < 0:
                return (), ()
            if number is not None and fitting > 1:
                self._ties.used += 1
            counted = self._classes.counted.get(pod_class)
            if counted is not None and not self._recount(pod_class, row, counted):
                return (), ()
            return (row,), (fitting,)
        rows, feasible = _NO_ROW * len(run), _NONE_FEASIBLE * len(run)
        bits = None if self._first_on_tie else self._ties.ahead(len(run))
        try:
            placed, _ = self._placer.place_many(run, bits, rows, feasible)
        except Exception as error:
            # Pods before the failing one are placed; the general lane decides that one, and reports its fault.
            placed = next((i for i, row in enumerate(rows) if row < 0), len(rows))
            self._log_fault(self._classes.of(run[min(placed, len(run) - 1)]), error)
        if yields:
            placed = self._end_at_nominated(run, rows, placed)
        if placed < len(run):
            del rows[placed:], feasible[placed:]
        if bits is not None:
            self._ties.used += placed - feasible.count(1)
        counted = self._classes.counted.get(run[-1])
        if counted is not None and placed == len(run) and not self._recount(run[-1], rows[-1], counted):
            del rows[-1:], feasible[-1:]
        return rows, feasible

    def _end_at_nominated(self, run: Sequence[PodClass], rows: Sequence[int], placed: int) -> int:
        """Take back what was placed after the first pod that came to a row of nominated pods. Returns what is left."""
        nominated = set(self._kept.rows())
        left = next((at + 1 for at, row in enumerate(rows[:placed]) if row in nominated), placed)
        for pod_class, row in zip(run[left:placed], rows[left:placed], strict=True):
            self._table.columns.remove_pod(row, pod_class.request)
        return left

    def _recount(self, pod_class: PodClass, row: int, counted: PodRequest) -> bool:
        """Count a placed pod with all that it requests. Returns False if that is too much: then it is not placed."""
        columns = self._table.columns
        columns.remove_pod(row, pod_class.request)
        try:
            columns.add_pod(row, counted)
        except OverflowError:
            return False
        return True

    def _place_alone(self, alone: CompiledClass, rows: array[int], feasible: array[int]) -> bool:
        """Place one pod that cannot be placed together with others. Returns False if the kernels cannot place it."""
        row = self._classes.only_row
        if row < 0:
            return self._place_joined(alone, rows, feasible)
        if alone.terms is not None:
            return False
        try:
            if not self._placer.fits(alone.pod_class, row):
                return False
            self._table.columns.add_pod(row, alone.counted or alone.pod_class.request)
        except Exception as error:
            self._log_fault(alone, error)
            return False
        rows.append(row)
        feasible.append(1)
        return True

    def _next_joined(self, pods: Sequence[PodInfo], rows: Sequence[int], placed: CompiledClass) -> CompiledClass | None:
        """Return the class of the pod behind those placed on `rows`, the last of them of the class `placed`.

        It is None if that pod has no terms, or if the pods before it must be assumed first, since more depends on them
        than the columns and the counters that terms read.
        """
        at = len(rows)
        if at == len(pods) or placed.terms is None or placed.ends_run or placed.asks:
            return None
        if self._limiting or self._nominations.by_pod or self._table.pod_watchers:
            return None
        self._table.count_ahead(rows[-1], pods[at - 1])
        # A term that appears with this pod may change the classes of those behind it, and of those placed.
        epoch = self._classes.epoch
        self._classes.refresh()
        if self._classes.epoch != epoch:
            return None
        found = self._classes.find(pods[at])
        return None if found is None or found.terms is None or self._classes.only_row >= 0 else found

    def _place_joined(self, joined: CompiledClass, rows: array[int], feasible: array[int]) -> bool:
        """Place one pod whose class has terms (spreading, pod affinity). Returns False if the kernels cannot place it.

        Appends the node's row to `rows`, and the number of feasible nodes to `feasible`.
        """
        terms = joined.terms
        if terms is None:
            return False
        bits = None if self._first_on_tie else self._ties.next()
        try:
            row, fitting = terms.place(self._placer, joined.pod_class, bits)
            if row < 0:
                return False
            self._table.columns.add_pod(row, joined.counted or joined.pod_class.request)
        except Exception as error:
            self._log_fault(joined, error)
            return False
        if bits is not None and fitting > 1:
            self._ties.used += 1
        rows.append(row)
        feasible.append(fitting)
        return True

    def _log_fault(self, compiled: CompiledClass, error: Exception) -> None:
        """Log a fault in the compiled lane.

        The pod is then decided plugin by plugin, which reports a faulty plugin again.
        """
        if compiled.asks:
            log.debug("a plugin did not answer in the compiled lane", extra={"err": str(error)})
        else:
            log.error("a pod could not be placed by the compiled lane", exc_info=error)

    # --- measuring ---

    def report(self, placements: Placements) -> None:
        """Report metrics of placements that have been carried out, and move the start of the next search past them.

        Each pod counts with the mean time of its run; the kernels filter and score in one pass, so each of the two gets
        half. A fault is logged: it costs the metrics, and must not cost the pods of a batch their bindings.
        """
        run, looking_s, placing_s = placements.classes, placements.looking_s, placements.placing_s
        try:
            if not self._measures_steps:
                for pod_class in run:
                    self._profiles[self._classes.evaluations[pod_class].profile].algorithm.pass_over(1)
            elif len(run) == 1:  # as where pods come one by one
                self._observer.algorithm_durations.observe(looking_s + placing_s)
                evaluations, scored = self._classes.evaluations[run[0]], int(placements.feasible[0] != 1)
                evaluations.count(1, scored)
                is_first = run[0] in self._classes.unused
                if is_first:
                    self._classes.unused.discard(run[0])
                self._report_points(evaluations.profile, 1, scored, int(is_first), looking_s, placing_s)
            elif run:
                self._report_run(placements)
        except MemoryError:
            raise
        except Exception:
            log.exception("metrics of a batch could not be recorded")

    def _report_run(self, placements: Placements) -> None:
        run, feasible = placements.classes, placements.feasible
        looking_s, placing_s = placements.looking_s, placements.placing_s
        pods, evaluations_of = len(run), self._classes.evaluations
        self._observer.algorithm_durations.observe_many((looking_s + placing_s) / pods, pods)
        counts: dict[Evaluations, int] = {}  # -> pods
        for pod_class in run:
            evaluations = evaluations_of[pod_class]
            counts[evaluations] = counts.get(evaluations, 0) + 1
        singles: Counter[Evaluations] = Counter()  # of pods that fitted on one node only, and were not scored
        if 1 in feasible:
            singles.update(evaluations_of[each] for each, fitting in zip(run, feasible, strict=True) if fitting == 1)
        by_profile: dict[str, tuple[int, int]] = {}  # profile -> pods, of these scored
        for evaluations, count in counts.items():
            scored = count - singles[evaluations]
            evaluations.count(count, scored)
            before = by_profile.get(evaluations.profile, (0, 0))
            by_profile[evaluations.profile] = before[0] + count, before[1] + scored
        firsts: Mapping[str, int] = {}
        unused = self._classes.unused
        if unused and (first_used := unused.intersection(run)):
            unused.difference_update(first_used)
            firsts = Counter(evaluations_of[each].profile for each in first_used)
        for profile, (count, scored) in by_profile.items():
            self._report_points(profile, count, scored, firsts.get(profile, 0), looking_s / pods, placing_s / pods)

    def _report_none(self, pod: PodInfo, seconds: float) -> None:
        """Report metrics of a pod that the compiled lane could not decide, after this many seconds."""
        profile = pod.pod.spec.scheduler_name
        self._observer.batch_attempts[profile, "no_hint"].value += 1
        self._observer.node_hints["no_hint", profile].observe(seconds)

    def _report_points(
        self, profile: str, count: int, scored: int, firsts: int, looking_s: float, placing_s: float
    ) -> None:
        """Report metrics of `count` pods of a profile, of which `scored` were scored; times are seconds per pod.

        `firsts`: the pods that are the first of their class to be placed since its plugins were asked.
        """
        observer = self._observer
        always = self._reported.get(profile)
        if always is None:
            always = self._reported[profile] = (
                observer.points["PreFilter", "Success", profile],
                observer.points["Filter", "Success", profile],
                observer.node_hints["hint", profile],
            )
        always[0].observe_many(looking_s, count)
        always[1].observe_many(placing_s / 2, count)
        if scored:
            of_scores = self._reported_scores.get(profile)
            if of_scores is None:
                of_scores = self._reported_scores[profile] = (
                    observer.points["PreScore", "Success", profile],
                    observer.points["Score", "Success", profile],
                )
            of_scores[0].observe_many(0.0, scored)
            of_scores[1].observe_many(placing_s / 2, scored)
        if firsts:
            observer.batch_attempts[profile, "no_hint"].value += firsts
        if count > firsts:
            observer.batch_attempts[profile, "hint_used"].value += count - firsts
        always[2].observe_many(looking_s + placing_s, count)
        self._profiles[profile].algorithm.pass_over(count)
