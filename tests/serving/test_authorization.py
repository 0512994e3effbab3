"""Who is let in, how often the apiserver is asked, and what happens when it does not answer."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.clock import ManualClock
from kscheduler.errors import Unreachable
from kscheduler.serving.authorization import (
    CACHE_ENTRIES,
    CACHE_TTL_S,
    REVIEWS_AT_ONCE,
    AllowAll,
    DelegatedAuthorizer,
)


class Reviews:
    """The apiserver's two review APIs: tokens "good" and "other" exist, and "good" may get /metrics."""

    def __init__(self) -> None:
        self.tokens: list[str] = []  # tokens asked about
        self.accesses: list[tuple[str, tuple[str, ...], str, str]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.release = asyncio.Event()
        self.release.set()
        self.failure: Exception | None = None

    async def token_review(self, token: str) -> tuple[bool, str, tuple[str, ...]]:
        self.tokens.append(token)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.release.wait()
        finally:
            self.at_once -= 1
        if self.failure:
            raise self.failure
        return token in ("good", "other"), f"user-{token}", ("g",)

    async def access_review(self, user: str, groups: tuple[str, ...], verb: str, path: str) -> bool:
        self.accesses.append((user, groups, verb, path))
        return user == "user-good" and (verb, path) == ("get", "/metrics")


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authorizer(reviews: Reviews, clock: ManualClock) -> DelegatedAuthorizer:
    return DelegatedAuthorizer(reviews.token_review, reviews.access_review, clock)


async def test_everybody_may_do_everything_if_so_wanted() -> None:
    assert (await AllowAll().authorize(None, "get", "/metrics")).allowed


async def test_the_bearer_of_a_good_token_gets_what_the_apiserver_allows(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    assert (await authorizer.authorize("good", "get", "/metrics")).allowed
    assert reviews.accesses == [("user-good", ("g",), "get", "/metrics")]


async def test_what_the_apiserver_does_not_allow_is_forbidden(authorizer: DelegatedAuthorizer) -> None:
    decision = await authorizer.authorize("other", "get", "/metrics")
    assert decision.status == 403
    assert decision.message == 'forbidden: User "user-other" cannot get path "/metrics"'


async def test_without_a_token_nothing_is_allowed_and_nobody_asked(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    decision = await authorizer.authorize(None, "get", "/metrics")
    assert decision.status == 403
    assert decision.message == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert reviews.tokens == []


@pytest.mark.parametrize("token", ["bad", "", "x" * 20_000])
async def test_a_token_nobody_issued_is_unauthorized(authorizer: DelegatedAuthorizer, token: str) -> None:
    assert (await authorizer.authorize(token, "get", "/metrics")).status == 401


async def test_answers_are_kept_for_ten_seconds(
    authorizer: DelegatedAuthorizer, reviews: Reviews, clock: ManualClock
) -> None:
    for _ in range(3):
        await authorizer.authorize("good", "get", "/metrics")
        await authorizer.authorize("bad", "get", "/metrics")
    assert (len(reviews.tokens), len(reviews.accesses)) == (2, 1)
    clock.advance(CACHE_TTL_S)
    await authorizer.authorize("good", "get", "/metrics")
    assert (len(reviews.tokens), len(reviews.accesses)) == (3, 2)


async def test_an_answer_for_one_path_is_none_for_another(authorizer: DelegatedAuthorizer) -> None:
    assert (await authorizer.authorize("good", "get", "/metrics")).allowed
    assert not (await authorizer.authorize("good", "get", "/configz")).allowed
    assert not (await authorizer.authorize("good", "put", "/metrics")).allowed


async def test_a_failing_review_is_an_internal_error_and_is_not_kept(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    reviews.failure = Unreachable("connection refused")
    assert (await authorizer.authorize("good", "get", "/metrics")).status == 500
    reviews.failure = None
    assert (await authorizer.authorize("good", "get", "/metrics")).allowed


async def test_a_review_that_never_answers_ends_after_the_timeout(reviews: Reviews, clock: ManualClock) -> None:
    authorizer = DelegatedAuthorizer(reviews.token_review, reviews.access_review, clock, timeout_s=0.01)
    reviews.release.clear()
    decision = await authorizer.authorize("good", "get", "/metrics")
    assert (decision.status, reviews.at_once) == (500, 0)


async def test_many_requests_with_one_token_ask_no_more_often_than_there_are_slots(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    reviews.release.clear()
    waiting = [asyncio.ensure_future(authorizer.authorize("good", "get", "/metrics")) for _ in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    reviews.release.set()
    decisions = await asyncio.gather(*waiting)
    assert all(decision.allowed for decision in decisions)
    assert len(reviews.tokens) <= REVIEWS_AT_ONCE


async def test_reviews_at_once_are_bounded(authorizer: DelegatedAuthorizer, reviews: Reviews) -> None:
    reviews.release.clear()
    waiting = [asyncio.ensure_future(authorizer.authorize(f"t{index}", "get", "/metrics")) for index in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    reviews.release.set()
    await asyncio.gather(*waiting)
    assert reviews.most_at_once == REVIEWS_AT_ONCE


async def test_the_cache_does_not_grow_with_the_tokens_tried(authorizer: DelegatedAuthorizer, reviews: Reviews) -> None:
    for index in range(CACHE_ENTRIES + 10):
        await authorizer.authorize(f"guess{index}", "get", "/metrics")
    assert len(authorizer._identities._entries) == CACHE_ENTRIES
    await authorizer.authorize("guess0", "get", "/metrics")  # the oldest is gone, and asked about again
    assert reviews.tokens.count("guess0") == 2
