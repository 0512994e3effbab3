"""Kernels over topology domains: what they answer, and that the two forms give the same answers."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import NodeSpec, codes, make_columns, raws, start
from tests.support.skips import NOT_BUILT

CODE = 9
MISSING, SKEWED = 1, 2
COMPILED = load_compiled()


def ids(*domains: int) -> array[int]:
    return array("i", domains)


def counts(*values: int) -> array[int]:
    return array("q", values)


def everyone(fast: ModuleType, columns: Any) -> Any:
    mask = fast.RowMask()
    mask.take_alive(columns)
    return mask


def summed(fast: ModuleType, values: array[int], domains: array[int], count: int, missing: int = -1) -> Any:
    mask = everyone(fast, make_columns(fast, [NodeSpec()] * len(domains)))
    sums = fast.DomainSums()
    assert fast.sum_by_domain(sums, values, domains, count, mask, missing) == sums.present
    return sums


def test_counts_add_up_by_domain_over_the_rows_of_the_mask(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(), NodeSpec(), NodeSpec(alive=False), NodeSpec(), NodeSpec()])
    sums = fast.DomainSums()
    assert fast.sum_by_domain(sums, counts(1, 2, 40, 3, 5), ids(0, 1, 1, 0, -1), 4, everyone(fast, columns)) == 2
    assert [sums.sum_of(domain) for domain in range(4)] == [4, 2, 0, 0]
    assert [sums.is_present(domain) for domain in range(4)] == [True, True, False, False]
    assert (sums.present, sums.minimum, sums.domains) == (2, 2, 4)


def test_rows_without_a_domain_can_count_for_one(fast: ModuleType) -> None:
    sums = summed(fast, counts(1, 2, 4), ids(0, -1, -1), 2, missing=1)
    assert [sums.sum_of(domain) for domain in range(2)] == [1, 6]


def test_sums_are_used_again_from_nothing(fast: ModuleType) -> None:
    mask = everyone(fast, make_columns(fast, [NodeSpec()] * 3))
    sums = fast.DomainSums()
    fast.sum_by_domain(sums, counts(7, 7, 7), ids(0, 1, 2), 3, mask)
    assert fast.sum_by_domain(sums, None, ids(1, 1, -1), 2, mask) == 1
    assert (sums.sum_of(1), sums.minimum, sums.domains) == (0, 0, 2)


def test_without_any_row_nothing_is_present_and_the_minimum_is_zero(fast: ModuleType) -> None:
    sums = summed(fast, counts(), ids(), 0)
    assert (sums.present, sums.minimum, sums.domains) == (0, 0, 0)
    with pytest.raises(ValueError, match="domain"):
        sums.sum_of(0)


def test_masks_narrow_down(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec(node_class=row % 2) for row in range(5)])
    mask, other = everyone(fast, columns), fast.RowMask()
    other.take(mask)
    mask.drop_without_domain(ids(0, -1, 0, 0, 0))
    mask.drop_node_classes(columns, b"\x00\x03")
    mask.drop_rows(b"\x01\x00\x00\x00\x00")
    assert [row for row in range(5) if row in mask] == [2, 4]
    assert (len(mask), len(other), mask.rows) == (2, 5, 5)
    assert 5 not in mask
    assert -1 not in mask


def test_a_mask_takes_what_is_feasible(fast: ModuleType) -> None:
    verdicts, _ = start(fast, make_columns(fast, [NodeSpec(), NodeSpec(alive=False), NodeSpec()]))
    verdicts.reject(0, CODE)
    mask = fast.RowMask()
    mask.take_feasible(verdicts)
    assert [row for row in range(3) if row in mask] == [2]


def test_skew_puts_out_full_domains_and_rows_without_one(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 4)
    verdicts, _ = start(fast, columns)
    sums = summed(fast, counts(3, 0, 2, 9), ids(0, 0, 1, -1), 2)
    assert fast.filter_skew(verdicts, sums, ids(0, 0, 1, -1), CODE, 2, MISSING, SKEWED) == 1
    assert codes(verdicts) == [(CODE, SKEWED), (CODE, SKEWED), (0, 0), (CODE, MISSING)]


def test_affinity_wants_a_pod_in_the_domain_and_anti_affinity_none(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 3)
    domains = ids(0, 1, -1)
    sums = summed(fast, counts(1, 0, 5), domains, 2)
    verdicts, _ = start(fast, columns)
    assert fast.filter_outside(verdicts, sums, domains, CODE, 4) == 1
    assert codes(verdicts) == [(0, 0), (CODE, 4), (CODE, 4)]
    verdicts, _ = start(fast, columns)
    assert fast.filter_inside(verdicts, sums, domains, CODE, 4) == 2
    assert codes(verdicts) == [(CODE, 4), (0, 0), (0, 0)]
    verdicts, _ = start(fast, columns)
    assert fast.filter_without_domain(verdicts, domains, CODE, 4) == 2
    assert codes(verdicts) == [(0, 0), (0, 0), (CODE, 4)]


def test_domain_sums_are_weighed_into_the_raw_scores(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 3)
    domains = ids(0, 1, -1)
    sums = summed(fast, counts(3, 1, 5), domains, 2)
    verdicts, scores = start(fast, columns)
    fast.add_domain_sums(verdicts, scores, sums, domains, 10)
    fast.add_domain_sums(verdicts, scores, sums, domains, -1)
    assert raws(scores) == [27, 9, 0]
    fast.normalize_range(verdicts, scores)
    assert raws(scores) == [100, 33, 0]


def test_equal_scores_normalise_to_nothing(fast: ModuleType) -> None:
    verdicts, scores = start(fast, make_columns(fast, [NodeSpec()] * 2))
    scores.set_raw(0, -7)
    scores.set_raw(1, -7)
    fast.normalize_range(verdicts, scores)
    assert raws(scores) == [0, 0]


def test_spread_totals_are_rounded_half_away_from_zero(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 4)
    verdicts, scores = start(fast, columns)
    totals, mask = fast.RowTotals(), everyone(fast, columns)
    totals.reset(columns)
    mask.drop_rows(b"\x00\x00\x00\x01")
    fast.add_spread_by_row(verdicts, totals, counts(1, 3, 1, 1), ids(0, 1, -1, 2), 0.5, 3)
    assert [totals.value(row) for row in range(4)] == [2.5, 3.5, 0.0, 2.5]
    fast.score_spread(verdicts, scores, totals, mask)
    assert raws(scores) == [3, 4, 0, 0]
    fast.normalize_spread(verdicts, scores, mask)
    assert raws(scores) == [25, 0, 100, 0]


def test_spread_without_a_score_is_best_everywhere_but_outside_the_mask(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 2)
    verdicts, scores = start(fast, columns)
    mask = everyone(fast, columns)
    mask.drop_rows(b"\x00\x01")
    fast.normalize_spread(verdicts, scores, mask)
    assert raws(scores) == [100, 0]


def test_what_does_not_fit_together_is_refused(fast: ModuleType) -> None:
    columns = make_columns(fast, [NodeSpec()] * 2)
    verdicts, scores = start(fast, columns)
    mask, sums = everyone(fast, columns), fast.DomainSums()
    with pytest.raises(ValueError, match=r"^ids: expected at least 2 rows, got 1$"):
        fast.sum_by_domain(sums, None, ids(0), 1, mask)
    with pytest.raises(ValueError, match=r"^counts: expected at least 2 rows, got 0$"):
        fast.sum_by_domain(sums, counts(), ids(0, 0), 1, mask)
    with pytest.raises(IndexError, match=r"^row 1 is in domain 5, there are sums for 2$"):
        fast.sum_by_domain(sums, None, ids(0, 5), 2, mask)
    fast.sum_by_domain(sums, counts(1 << 52, 0), ids(0, 0), 1, mask)
    with pytest.raises(IndexError, match=r"^row 0 is in domain 1, there are sums for 1$"):
        fast.filter_skew(verdicts, sums, ids(1, 1), CODE, 0, MISSING, SKEWED)
    with pytest.raises(ValueError, match=r"^row 0: raw score beyond 9007199254740992$"):
        fast.add_domain_sums(verdicts, scores, sums, ids(0, 0), 1 << 30)
    with pytest.raises(ValueError, match=r"^mask: expected at least 2 rows, got 0$"):
        fast.normalize_spread(verdicts, scores, fast.RowMask())
    with pytest.raises(ValueError, match=r"^code: expected 1\.\.200, got 0$"):
        fast.filter_inside(verdicts, sums, ids(0, 0), 0, 0)
    with pytest.raises(IndexError, match=r"^row 0 has node class 0, there are values for 0$"):
        mask.drop_node_classes(columns, b"")


# --- both forms -----------------------------------------------------------------------------------------------------

rows = st.lists(
    st.tuples(
        st.integers(-1, 4),  # domain
        st.one_of(st.integers(0, 5), st.integers(0, 1 << 31)),  # pods
        st.booleans(),  # is it in the mask?
        st.sampled_from([True, True, False]),  # is there a node?
        st.booleans(),  # was it rejected before?
    ),
    max_size=9,
)


@pytest.mark.slow
@pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)
@settings(max_examples=300, deadline=None)
@given(
    rows,
    st.integers(5, 6),
    st.integers(-1, 4),
    st.integers(-2, 6),
    st.integers(-100, 100),
    st.floats(0.6, 20),
    st.integers(1, 5),
)
def test_both_forms_agree(
    table: list[Any], size: int, missing: int, most: int, weight: int, factor: float, skew: int
) -> None:
    found = [steps(fast, table, size, missing, most, weight, factor, skew) for fast in (reference, COMPILED)]
    assert found[0] == found[1]


def steps(
    fast: Any, table: list[Any], size: int, missing: int, most: int, weight: int, factor: float, skew: int
) -> Any:
    columns = make_columns(fast, [NodeSpec(alive=alive) for *_, alive, _ in table])
    domains, values = ids(*[row[0] for row in table]), counts(*[row[1] for row in table])
    mask = everyone(fast, columns)
    mask.drop_rows(bytes(not row[2] for row in table))
    sums, totals = fast.DomainSums(), fast.RowTotals()
    totals.reset(columns)
    answers: list[object] = [fast.sum_by_domain(sums, values, domains, size, mask, missing)]
    answers += [sums.minimum, [(sums.sum_of(domain), sums.is_present(domain)) for domain in range(size)]]
    for name, args in (
        ("filter_skew", (CODE, most, 1, 2)),
        ("filter_outside", (CODE, 3)),
        ("filter_inside", (CODE, 4)),
    ):
        verdicts, scores = begin(fast, columns, table)
        answers += [getattr(fast, name)(verdicts, sums, domains, *args), codes(verdicts)]
        fast.add_domain_sums(verdicts, scores, sums, domains, weight)
        answers.append(raws(scores))
        fast.normalize_range(verdicts, scores)
        answers.append(raws(scores))
        fast.add_spread(verdicts, totals, sums, domains, factor, skew)
        fast.add_spread_by_row(verdicts, totals, values, domains, factor, skew)
        answers.append([totals.value(row) for row in range(totals.rows)])
        fast.score_spread(verdicts, scores, totals, mask)
        answers.append(raws(scores))
        fast.normalize_spread(verdicts, scores, mask)
        answers.append(raws(scores))
    verdicts, _ = begin(fast, columns, table)
    return [*answers, fast.filter_without_domain(verdicts, domains, CODE, 5), codes(verdicts)]


def begin(fast: Any, columns: Any, table: list[Any]) -> tuple[Any, Any]:
    verdicts, scores = start(fast, columns)
    verdicts.reject_rows([row for row, (*_, rejected) in enumerate(table) if rejected], 3, 1)
    return verdicts, scores
