"""A trial: what accounts would use if some holders were charged or released, without changing the accounts."""

from __future__ import annotations

from kscheduler.quotas.accounts import Account, Accounts
from kscheduler.quotas.amounts import Request, at


class Trial:
    """Changes on top of `Accounts`, which must not change while a trial on them is in use."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._charged: dict[str, tuple[Account, Request] | None] = {}  # holder -> its charge; None: released
        self._changes: dict[str, dict[int, int]] = {}  # account -> place -> by how much its use differs

    def clone(self) -> Trial:
        """Return an independent copy."""
        other = Trial(self._accounts)
        other._charged = dict(self._charged)
        other._changes = {name: dict(changes) for name, changes in self._changes.items()}
        return other

    def is_charged(self, holder: str) -> bool:
        if holder in self._charged:
            return self._charged[holder] is not None
        return self._accounts.is_charged(holder)

    def charge(self, account: Account, holder: str, request: Request) -> bool:
        """Charge a holder's request to an account. Returns False, and changes nothing, if it is charged already."""
        if self.is_charged(holder):
            return False
        self._charged[holder] = account, request
        self._count(account, request, 1)
        return True

    def release(self, holder: str) -> bool:
        """Take back a holder's charge. Returns False if there is none."""
        charge = self._charged[holder] if holder in self._charged else self._accounts.charge_of(holder)
        if charge is None:
            return False
        self._charged[holder] = None
        self._count(*charge, -1)
        return True

    def used(self, account: Account) -> list[int]:
        """Return what the account would use, by place."""
        vector = list(account.used)
        for place, change in self._changes.get(account.name, {}).items():
            if place >= len(vector):
                vector.extend([0] * (place + 1 - len(vector)))
            vector[place] += change
        return vector

    def used_at(self, account: Account, place: int) -> int:
        """Return what the account would use of one resource."""
        changes = self._changes.get(account.name)
        return at(account.used, place) + (changes.get(place, 0) if changes else 0)

    def _count(self, account: Account, request: Request, times: int) -> None:
        for each in account.path():
            changes = self._changes.setdefault(each.name, {})
            for place, amount in request:
                changes[place] = changes.get(place, 0) + times * amount
