"""What the apiserver's reviews have in common: they can be held back, and fail."""

from __future__ import annotations

import asyncio


class HeldReviews:
    def __init__(self) -> None:
        self.at_once = 0
        self.most_at_once = 0
        self.release = asyncio.Event()
        self.release.set()
        self.failure: Exception | None = None

    async def wait(self) -> None:
        """Wait for `release`, then raise `failure` if there is one."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.release.wait()
        finally:
            self.at_once -= 1
        if self.failure:
            raise self.failure
