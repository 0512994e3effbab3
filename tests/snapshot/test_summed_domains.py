"""What was counted in each domain, kept."""

from __future__ import annotations

from array import array

from kscheduler._fast import DomainSums, NodeColumns, RowMask, sum_by_domain
from kscheduler.snapshot.summed_domains import SummedDomains
from kscheduler.snapshot.topology import DomainColumn


def summed(counts: list[int], domains: list[str | None], left_out: tuple[int, ...] = ()) -> SummedDomains:
    """Rows with these counts, in these domains; `left_out` rows are not looked at."""
    columns, column, mask, sums = NodeColumns(), DomainColumn(), RowMask(), DomainSums()
    for row, domain in enumerate(domains):
        columns.add_row()
        column.set(row, domain)
    mask.take_alive(columns)
    mask.drop_rows(bytes(row in left_out for row in range(len(domains))))
    sum_by_domain(sums, array("q", counts), column.ids, column.size, mask)
    return SummedDomains(sums, column)


def test_counts_are_returned_by_the_name_of_a_domain() -> None:
    found = summed([1, 2, 4, 8], ["a", "b", "a", None])
    assert (found.of("a"), found.of("b"), found.of("nowhere")) == (5, 2, 0)
    assert (found.present, found.minimum) == (2, 2)


def test_levels_say_how_many_domains_have_a_count() -> None:
    assert summed([1, 1, 3, 0], ["a", "b", "c", "d"]).levels == {1: 2, 3: 1, 0: 1}


def test_domains_of_nodes_that_nobody_looked_at_are_not_there() -> None:
    found = summed([0, 5, 5], ["a", "b", "c"], left_out=(0,))
    assert (found.present, found.minimum, found.levels) == (2, 5, {5: 2})
    assert found.of("a") == 0


def test_counts_are_returned_by_the_id_of_a_domain() -> None:
    found = summed([1, 2, 4, 8], ["a", "b", "a", None], left_out=(1,))
    assert [found.counts[each] if each >= 0 else None for each in found.ids[:4]] == [5, 0, 5, None]
    assert [found.presence[each] for each in found.ids[:2]] == [True, False]


def test_without_domains_there_is_nothing() -> None:
    found = summed([3], [None])
    assert (found.present, found.minimum, found.levels) == (0, 0, {})
