"""InterPodAffinity's Filter as numeric requirements on the count in each topology domain, for preemption's dry runs.

For each of the filter's rules there is one tally (count by domain) for each topology key, since terms with equal keys
are counted together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from kscheduler.framework.demands import Demands, Tally
from kscheduler.framework.plugins.interpodaffinity.by_node import means_incoming
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, all_mean, means
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.summed_domains import SummedDomains

Summed = Sequence[tuple[str, SummedDomains]]  # (topology key, counts by its domains); a key can come several times

# How a pod counts, for a topology key.
_Weigh = Callable[[PodInfo], int]


def demands(
    pod: PodInfo,
    own: OwnTerms,
    namespaces: Namespaces,
    summed: tuple[Summed, Summed, Summed],
    details: tuple[int, int, int],
) -> Demands:
    """Return the filter's requirements on a node as numbers.

    `summed` and `details` (reason numbers): of affinity, of anti-affinity, and of existing pods' anti-affinity.
    """
    affinity, anti_affinity, existing = summed
    lacking, shunned, shunning = details

    def of_affinity(key: str) -> _Weigh:
        terms = sum(term.topology_key == key for term in own.affinity)
        return lambda other: terms * all_mean(own.affinity, other)

    def of_anti_affinity(key: str) -> _Weigh:
        terms = [term for term in own.anti_affinity if term.topology_key == key]
        return lambda other: sum(means(term, other) for term in terms)

    def of_existing(key: str) -> _Weigh:
        return lambda other: sum(
            term.topology_key == key and means_incoming(term, pod, namespaces)
            for term in other.affinity.required_anti_affinity
        )

    def know(other: PodInfo) -> bool:
        """Return False if the pod's anti-affinity may use a topology key for which nothing is counted here."""
        keys = {term.topology_key for term in other.affinity.required_anti_affinity}
        return keys <= {key for key, _ in existing} or not any(
            means_incoming(term, pod, namespaces) for term in other.affinity.required_anti_affinity
        )

    limits = [*_tallies(anti_affinity, of_anti_affinity, shunned), *_tallies(existing, of_existing, shunning)]
    return Demands(
        needs=[*_tallies(affinity, of_affinity, lacking, is_needed=True)],
        may_be_first=all_mean(own.affinity, pod),
        limits=limits,
        know=know,
    )


def _tallies(
    summed: Summed, weigher: Callable[[str], _Weigh], detail: int, *, is_needed: bool = False
) -> Iterator[Tally]:
    for key in dict.fromkeys(key for key, _ in summed):
        same = [each for other, each in summed if other == key]
        counts = same[0].counts
        for more in same[1:]:
            counts = array("q", map(sum, zip(counts, more.counts, strict=True)))
        if is_needed:
            yield Tally(same[0].ids, counts, weigher(key), detail, missing=detail)
        else:
            yield Tally(same[0].ids, counts, weigher(key), detail, limits=array("q", bytes(8 * len(counts))))
