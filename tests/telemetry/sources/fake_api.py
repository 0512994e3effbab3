"""APIs behind an apiserver, as a test says them."""

from __future__ import annotations

import json
from typing import Any

from kscheduler.errors import APIError, NotFound


class FakeAPI:
    """`answers`: path -> a document, bytes, or an error to raise. Other paths are not found."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.asked: list[str] = []

    async def get_aggregated(self, path: str, *, limit_bytes: int) -> bytes:
        self.asked.append(path)
        if path not in self.answers:
            raise NotFound("not served", status=404, reason="NotFound")
        answer = self.answers[path]
        if isinstance(answer, APIError):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()
