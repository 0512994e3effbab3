"""Accounts count what their holders and the accounts below use, whatever comes and goes in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kscheduler._fast import add_amounts
from kscheduler.errors import InternalError
from kscheduler.quotas.accounts import Account, Accounts, excess, room
from kscheduler.quotas.amounts import Request, at, sum_of
from kscheduler.quotas.trial import Trial

PLACES = 6
requests = st.dictionaries(st.integers(0, PLACES - 1), st.integers(0, 50), max_size=4).map(
    lambda amounts: tuple(sorted(amounts.items()))
)


def three() -> tuple[Accounts, Account, Account, Account]:
    accounts = Accounts()
    root = accounts.open("root")
    team = accounts.open("team", root)
    return accounts, root, team, accounts.open("train", team)


def test_a_charge_counts_in_the_account_and_in_all_above() -> None:
    accounts, root, team, train = three()
    assert accounts.charge(train, "pod", ((0, 500), (5, 2)))
    assert root.used == team.used == train.used == [500, 0, 0, 0, 0, 2]


def test_a_holder_is_charged_once() -> None:
    accounts, root, team, train = three()
    assert accounts.charge(train, "pod", ((0, 500),))
    assert not accounts.charge(team, "pod", ((0, 1),))
    assert root.used == [500]
    assert accounts.charge_of("pod") == (train, ((0, 500),))


def test_holders_of_one_request_are_charged_together_and_once_each() -> None:
    accounts, root, team, train = three()
    accounts.charge(team, "a", ((0, 1),))
    accounts.charge_holders([(train, ["a", "b", "c"], ((0, 500),)), (train, ["b"], ((0, 500),))])
    accounts.charge_holders([(train, ["c", "d", "d"], ((0, 500),)), (team, ["e"], ((0, 7),))])
    assert (root.used, team.used, train.used) == ([1508], [1508], [1500])
    assert accounts.holders == {"a", "b", "c", "d", "e"}
    accounts.release("b")
    assert root.used == [1008]


def test_what_is_released_is_what_was_charged() -> None:
    accounts, root, _, train = three()
    accounts.charge(train, "pod", ((0, 500),))
    assert accounts.release("pod")
    assert not accounts.release("pod")
    assert root.used == train.used == [0]


def test_a_moved_account_takes_its_use_along() -> None:
    accounts, root, team, train = three()
    other = accounts.open("other", root)
    accounts.charge(train, "pod", ((0, 500),))
    accounts.move(train, other)
    assert (root.used, team.used, other.used) == ([500], [0], [500])
    accounts.move(train, None)
    assert (root.used, other.used, train.used) == ([0], [0], [500])


def test_no_account_can_come_below_itself() -> None:
    accounts, root, _, train = three()
    with pytest.raises(InternalError, match="account root cannot be moved below itself, to train"):
        accounts.move(root, train)
    assert root.parent is None


def test_only_an_account_without_holders_and_children_can_be_closed() -> None:
    accounts, _, team, train = three()
    with pytest.raises(InternalError, match="team is in use"):
        accounts.close(team)
    accounts.charge(train, "pod", ())
    with pytest.raises(InternalError, match="train is in use"):
        accounts.close(train)
    accounts.release("pod")
    accounts.close(train)
    accounts.close(team)
    assert [account.name for account in accounts] == ["root"]


def test_the_first_exceeded_limit_on_the_way_up_is_found() -> None:
    accounts, root, team, train = three()
    root.limits, team.limits = {0: 1000}, {0: 600}
    accounts.charge(train, "pod", ((0, 500),))
    assert excess(train, ((0, 100),)) is None
    found = excess(train, ((0, 101),))
    assert found is not None
    assert (found.account, found.place, found.would_use, found.limit) == (team, 0, 601, 600)


def test_a_request_of_nothing_does_not_fit_where_the_limit_is_exceeded_already() -> None:
    accounts, _, _, train = three()
    accounts.charge(train, "pod", ((0, 500),))
    train.limits = {0: 400}
    assert excess(train, ((0, 0),)) is not None
    assert room(train, ((0, 0),)) == 0
    assert excess(train, ((1, 9),)) is None


def test_room_is_without_end_where_nothing_is_limited() -> None:
    _, _, _, train = three()
    assert room(train, ((0, 5),)) is None
    train.limits = {0: 12}
    assert room(train, ((0, 5), (1, 7))) == 2
    assert room(train, ((0, 0),)) is None


@given(limits=st.dictionaries(st.integers(0, PLACES - 1), st.integers(0, 120)), used=requests, request=requests)
def test_room_is_how_often_a_request_can_be_charged_until_a_limit_is_exceeded(
    limits: dict[int, int], used: Request, request: Request
) -> None:
    accounts, root, _, train = three()
    root.limits = limits
    accounts.charge(train, "before", used)
    most = room(train, request)
    charged = 0
    while charged <= 200 and excess(train, request) is None:
        accounts.charge(train, f"pod-{charged}", request)
        charged += 1
    assert charged == most if most is not None else charged == 201


class AnyOrder(RuleBasedStateMachine):
    """Charges, releases and moves in any order, beside a plain list of what is charged where."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts = Accounts()
        self.all = [self.accounts.open("0")]
        self.expected: dict[str, tuple[Account, Request]] = {}
        self.trial: Trial | None = None
        self.tried: dict[str, tuple[Account, Request]] = {}

    @rule(at=st.integers(0, 20), is_root=st.booleans())
    def open(self, at: int, is_root: bool) -> None:
        self.forget_trial()
        parent = None if is_root else self.all[at % len(self.all)]
        self.all.append(self.accounts.open(str(len(self.all)), parent))

    @rule(which=st.integers(0, 20), to=st.integers(0, 20))
    def move(self, which: int, to: int) -> None:
        self.forget_trial()
        account, parent = self.all[which % len(self.all)], self.all[to % len(self.all)]
        if account in parent.path():
            with pytest.raises(InternalError):
                self.accounts.move(account, parent)
        else:
            self.accounts.move(account, parent)

    @rule(which=st.integers(0, 20), holder=st.sampled_from("abcdef"), request=requests)
    def charge(self, which: int, holder: str, request: Request) -> None:
        self.forget_trial()
        account = self.all[which % len(self.all)]
        assert self.accounts.charge(account, holder, request) == (holder not in self.expected)
        self.expected.setdefault(holder, (account, request))

    @rule(holder=st.sampled_from("abcdef"))
    def release(self, holder: str) -> None:
        self.forget_trial()
        assert self.accounts.release(holder) == (holder in self.expected)
        self.expected.pop(holder, None)

    def forget_trial(self) -> None:
        self.trial = None

    @rule(which=st.integers(0, 20), holder=st.sampled_from("abcdefgh"), request=requests)
    def try_charge(self, which: int, holder: str, request: Request) -> None:
        self.begin_trial()
        assert self.trial is not None
        account = self.all[which % len(self.all)]
        assert self.trial.charge(account, holder, request) == (holder not in self.tried)
        self.tried.setdefault(holder, (account, request))

    @rule(holder=st.sampled_from("abcdefgh"))
    def try_release(self, holder: str) -> None:
        self.begin_trial()
        assert self.trial is not None
        assert self.trial.release(holder) == (holder in self.tried)
        self.tried.pop(holder, None)

    @precondition(lambda self: self.trial is not None)
    @rule(request=requests)
    def clone(self, request: Request) -> None:
        assert self.trial is not None
        dropped, self.trial = self.trial, self.trial.clone()
        dropped.charge(self.all[0], "only in the copy that is dropped", request)

    def begin_trial(self) -> None:
        if self.trial is None:
            self.trial, self.tried = Trial(self.accounts), dict(self.expected)

    @invariant()
    def each_account_counts_its_holders_and_its_children(self) -> None:
        for account in self.all:
            total: list[int] = [0] * PLACES
            add_amounts(total, sum_of(account.holders.values()))
            for child in account.children.values():
                assert child.parent is account
                add_amounts(total, tuple(enumerate(child.used)))
            assert [at(account.used, place) for place in range(PLACES)] == total
            assert min(total) >= 0

    @invariant()
    def each_holder_is_where_it_was_charged(self) -> None:
        for holder in "abcdef":
            assert self.accounts.charge_of(holder) == self.expected.get(holder)

    @invariant()
    def a_trial_shows_what_the_accounts_would_use(self) -> None:
        if self.trial is None:
            return
        for account in self.all:
            below = [request for where, request in self.tried.values() if account in where.path()]
            total: list[int] = [0] * PLACES
            add_amounts(total, sum_of(below))
            vector = self.trial.used(account)
            assert [at(vector, place) for place in range(PLACES)] == total
            assert [self.trial.used_at(account, place) for place in range(PLACES)] == total


TestAnyOrder = AnyOrder.TestCase
