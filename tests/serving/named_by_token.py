"""An authenticator for tests of what a user may do: a token is its user's name."""

from __future__ import annotations

from kscheduler.client.reviews import User
from kscheduler.serving.authentication import ANONYMOUS, Shown


class NamedByToken:
    async def authenticate(self, shown: Shown) -> User | None:
        return ANONYMOUS if shown.token is None else User(shown.token)
