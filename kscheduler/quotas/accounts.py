"""Accounts: what tenants use, in a tree in which each account also counts what the accounts below it use.

A *holder*, such as a pod by its uid, is charged to one account; its request is then counted there and in all accounts
above. Releasing it subtracts what was charged, even if the holder has changed since. An account may have limits, and a
check walks up the path to the root, so that it costs as many steps as the tree is deep. Nothing here knows a cluster, a
clock or a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kscheduler._fast import add_amounts
from kscheduler.errors import InternalError
from kscheduler.quotas.amounts import Request, ResourcePlaces, at


@dataclass(slots=True, eq=False)
class Account:
    """What one tenant and all below it use. Read it only; `Accounts` changes it."""

    name: str
    parent: Account | None = None
    limits: dict[int, int] = field(default_factory=dict)  # place -> the most that may be used; absent: unlimited
    used: list[int] = field(default_factory=list)  # by place
    children: dict[str, Account] = field(default_factory=dict)
    holders: dict[str, Request] = field(default_factory=dict)  # charged to this very account

    def path(self) -> Iterator[Account]:
        """Yield this account and those above it, up to the root."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent


@dataclass(frozen=True, slots=True)
class Excess:
    """The first limit on the way up that a request would exceed."""

    account: Account
    place: int  # of the resource
    would_use: int
    limit: int


class Accounts:
    """All accounts by name, and the holders that are charged to them."""

    def __init__(self) -> None:
        self.places = ResourcePlaces()
        self._accounts: dict[str, Account] = {}
        self._charged: dict[str, Account] = {}  # holder -> the account it is charged to
        self.holders = self._charged.keys()  # as a view

    # --- the tree ---

    def get(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def __len__(self) -> int:
        return len(self._accounts)

    def open(self, name: str, parent: Account | None = None) -> Account:
        """Return the account of this name, and open it under `parent` if there is none."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(name, parent)
            if parent is not None:
                parent.children[name] = account
        return account

    def move(self, account: Account, parent: Account | None) -> None:
        """Put an account, with all below it, under another one, or under none.

        Raises InternalError if `parent` is the account itself or below it; nothing has changed then.
        """
        if account.parent is parent:
            return
        if parent is not None and account in parent.path():
            raise InternalError(f"account {account.name} cannot be moved below itself, to {parent.name}")
        used = tuple(enumerate(account.used))
        if account.parent is not None:
            del account.parent.children[account.name]
            _count(account.parent, used, -1)
        account.parent = parent
        if parent is not None:
            parent.children[account.name] = account
            _count(parent, used, 1)

    def close(self, account: Account) -> None:
        """Remove an account to which nothing is charged, and which has none below it; else raise InternalError."""
        if account.holders or account.children:
            raise InternalError(f"account {account.name} is in use and cannot be closed")
        self.move(account, None)
        del self._accounts[account.name]

    # --- charges ---

    def is_charged(self, holder: str) -> bool:
        return holder in self._charged

    def charge(self, account: Account, holder: str, request: Request) -> bool:
        """Charge a holder's request to an account. Returns False, and changes nothing, if it is charged already."""
        if holder in self._charged:
            return False
        self._charged[holder] = account
        account.holders[holder] = request
        _count(account, request, 1)
        return True

    def charge_holders(self, charges: Iterable[tuple[Account, Sequence[str], Request]]) -> list[int]:
        """Charge holders to accounts, those of one request together, unless they are charged already.

        Returns for each of these how many were charged.
        """
        charged, numbers = self._charged, list[int]()
        # Account, id of a request -> the account, the request, and how many holders below the account have it.
        above: dict[tuple[Account, int], tuple[Account, Request, int]] = {}
        for account, holders, request in charges:
            own, before = account.holders, len(charged)
            for holder in holders:  # mostly two or three
                if holder not in charged:
                    charged[holder] = account
                    own[holder] = request
            numbers.append(number := len(charged) - before)
            add_amounts(account.used, request, number)
            parent = account.parent
            if parent is not None:
                known = above.get(key := (parent, id(request)))
                above[key] = parent, request, number if known is None else number + known[2]
        for counted in above.values():
            _count(*counted)
        return numbers

    def release(self, holder: str) -> bool:
        """Take back a holder's charge. Returns False if there is none."""
        account = self._charged.pop(holder, None)
        if account is None:
            return False
        _count(account, account.holders.pop(holder), -1)
        return True

    def charge_of(self, holder: str) -> tuple[Account, Request] | None:
        """Return the account that a holder is charged to, and its request."""
        account = self._charged.get(holder)
        return None if account is None else (account, account.holders[holder])


def excess(account: Account, request: Request) -> Excess | None:
    """Return the first limit on the way up that would be exceeded if the request were charged; None if none would.

    A resource that the request names with an amount of zero is compared, too: its limit may be exceeded already.
    """
    for each in account.path():
        limits = each.limits
        if not limits:
            continue
        for place, amount in request:
            limit = limits.get(place)
            if limit is not None and at(each.used, place) + amount > limit:
                return Excess(each, place, at(each.used, place) + amount, limit)
    return None


def room(account: Account, request: Request) -> int | None:
    """Return how many times the request could be charged, one after the other, within all limits on the way up.

    None: so many times as one likes.
    """
    most: int | None = None
    for each in account.path():
        for place, amount in request:
            limit = each.limits.get(place)
            if limit is None:
                continue
            left = limit - at(each.used, place)
            if left < 0 or amount > left:
                return 0
            if amount > 0:
                most = left // amount if most is None else min(most, left // amount)
    return most


def _count(account: Account, request: tuple[tuple[int, int], ...], times: int) -> None:
    each: Account | None = account
    while each is not None:
        add_amounts(each.used, request, times)
        each = each.parent
