"""Extenders in virtual time: what a test writes in a few lines stands where the network would be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kscheduler.config.load import parse_config
from kscheduler.config.types import Extender as ExtenderConfig
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import PluginError
from kscheduler.input.redaction import SecretURL

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
Answer = Callable[[dict[str, Any]], Any]  # the question -> the answer, or an awaitable of it


class FakeExtender:
    """`verbs`: verb -> answer. Its configuration names each verb as it is; `settings` are further fields."""

    def __init__(self, name: str = "one", *, settings: dict[str, Any] | None = None, **verbs: Answer) -> None:
        self.url = SecretURL(f"http://{name}")
        self._verbs = verbs
        self._settings = settings or {}
        self.asked: list[tuple[str, str]] = []  # (verb, pod)
        self.questions: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._now = 0
        self.is_closed = False

    def config(self) -> dict[str, Any]:
        found = {"urlPrefix": self.url.reveal(), "nodeCacheCapable": True, **self._settings}
        found.update({f"{verb}Verb": verb for verb in self._verbs})
        if "prioritize" in self._verbs:
            found.setdefault("weight", 1)
        return found

    async def ask(self, verb: str, question: bytes) -> bytes:
        asked = json.loads(question)
        self.asked.append((verb, asked["Pod"]["metadata"]["name"] if "Pod" in asked else asked["PodName"]))
        self.questions.append(asked)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            answer = self._verbs[verb](asked)
            if isinstance(answer, Awaitable):
                answer = await answer
        finally:
            self._now -= 1
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    async def close(self) -> None:
        self.is_closed = True


def configured(*extenders: FakeExtender, **fields: Any) -> SchedulerConfig:
    return parse_config(json.dumps({**HEAD, "extenders": [each.config() for each in extenders], **fields}))


def endpoints(extenders: Sequence[FakeExtender]) -> Callable[[ExtenderConfig, str], FakeExtender]:
    by_url = {each.url: each for each in extenders}
    return lambda config, path: by_url[config.url_prefix]


# --- answers ------------------------------------------------------------------------------------------------------


def all_pass(question: dict[str, Any]) -> dict[str, Any]:
    return {"NodeNames": question["NodeNames"]}


def only(*names: str, why: str = "not this one") -> Answer:
    def answer(question: dict[str, Any]) -> dict[str, Any]:
        asked = question["NodeNames"]
        failed = {name: why for name in asked if name not in names}
        return {"NodeNames": [name for name in asked if name in names], "FailedNodes": failed}

    return answer


def scores(**by_name: int) -> Answer:
    def answer(question: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"Host": name, "Score": score} for name, score in by_name.items()]

    return answer


def fails(message: str) -> Answer:
    def answer(question: dict[str, Any]) -> Any:
        raise PluginError(message)

    return answer


def late(seconds: float, answer: Answer) -> Answer:
    async def waited(question: dict[str, Any]) -> Any:
        await asyncio.sleep(seconds)
        return answer(question)

    return waited


async def hangs(question: dict[str, Any]) -> Any:
    """As the real endpoint has it: five seconds are all it gets."""
    await asyncio.sleep(5.0)
    raise PluginError("extender at URL http://one/filter: no answer within 5 s")
