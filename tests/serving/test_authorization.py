"""What a user may do, how often the apiserver is asked, and what happens when it does not answer."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.client.reviews import AccessReview, User
from kscheduler.errors import ConfigError, Unreachable
from kscheduler.serving.authentication import ANONYMOUS, REVIEWS_AT_ONCE
from kscheduler.serving.authorization import CACHE_TTL_S, AllowedPaths, DelegatedAuthorizer
from tests.serving.held_reviews import HeldReviews
from tests.support.clocks import ManualClock

GOOD, OTHER = User("good", "u", ("g",), (("scopes", ("s",)),)), User("other")


class Reviews(HeldReviews):
    """The apiserver's SubjectAccessReview: "good" may get /metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[User, str, str]] = []
        self.reason = ""

    async def review(self, user: User, verb: str, path: str) -> AccessReview:
        self.asked.append((user, verb, path))
        await self.wait()
        return AccessReview(user.name == "good" and (verb, path) == ("get", "/metrics"), self.reason)


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authorizer(reviews: Reviews, clock: ManualClock) -> DelegatedAuthorizer:
    return DelegatedAuthorizer(reviews.review, clock)


async def test_a_user_may_do_what_the_apiserver_allows(authorizer: DelegatedAuthorizer, reviews: Reviews) -> None:
    assert (await authorizer.authorize(GOOD, "get", "/metrics")).allowed
    assert reviews.asked == [(GOOD, "get", "/metrics")]  # with all that is known of the user
    assert not (await authorizer.authorize(GOOD, "get", "/configz")).allowed
    assert not (await authorizer.authorize(GOOD, "put", "/metrics")).allowed


async def test_what_the_apiserver_does_not_allow_is_forbidden_in_its_words(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    decision = await authorizer.authorize(OTHER, "get", "/metrics")
    assert (decision.status, decision.message) == (403, 'forbidden: User "other" cannot get path "/metrics"')
    reviews.reason = "no rule"
    decision = await authorizer.authorize(User("<b>"), "get", "/metrics")
    assert decision.message == 'forbidden: User "&lt;b&gt;" cannot get path "/metrics": no rule'


async def test_the_apiserver_is_asked_about_anonymous_too(authorizer: DelegatedAuthorizer, reviews: Reviews) -> None:
    decision = await authorizer.authorize(ANONYMOUS, "get", "/metrics")
    assert decision.message == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert reviews.asked == [(ANONYMOUS, "get", "/metrics")]


async def test_masters_and_open_paths_need_no_answer_of_the_apiserver(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    assert (await authorizer.authorize(User("admin", "", ("system:masters",)), "get", "/configz")).allowed
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await authorizer.authorize(ANONYMOUS, "get", path)).allowed
    assert reviews.asked == []


@pytest.mark.parametrize(
    ("allowed", "path", "is_free"),
    [
        ("/healthz", "/healthz", True),
        ("healthz", "/healthz", True),
        ("/healthz", "/healthz/ping", False),
        ("/healthz*", "/healthz/ping", True),
        ("/healthz/*", "/healthz", False),
        ("*", "/anything", True),
        ("/", "/", True),
        ("/", "/metrics", False),
    ],
)
def test_paths_that_need_no_right_are_recognised(allowed: str, path: str, is_free: bool) -> None:
    assert (path in AllowedPaths([allowed])) is is_free


def test_a_star_stands_at_the_end_of_a_path_only() -> None:
    with pytest.raises(ConfigError, match=r'^--authorization-always-allow-paths: only trailing \* allowed in "a\*b"$'):
        AllowedPaths(["/a*b"])


async def test_answers_are_kept_for_ten_seconds(
    authorizer: DelegatedAuthorizer, reviews: Reviews, clock: ManualClock
) -> None:
    for _ in range(3):
        await authorizer.authorize(GOOD, "get", "/metrics")
    assert len(reviews.asked) == 1
    clock.advance(CACHE_TTL_S)
    await authorizer.authorize(GOOD, "get", "/metrics")
    assert len(reviews.asked) == 2


async def test_yes_and_no_are_kept_for_as_long_as_the_flags_say(reviews: Reviews, clock: ManualClock) -> None:
    authorizer = DelegatedAuthorizer(reviews.review, clock, allowed_ttl_s=60.0, denied_ttl_s=0.0)
    for _ in range(3):
        await authorizer.authorize(GOOD, "get", "/metrics")
        await authorizer.authorize(OTHER, "get", "/metrics")
        clock.advance(CACHE_TTL_S)
    assert [user.name for user, _, _ in reviews.asked] == ["good", "other", "other", "other"]


async def test_a_path_of_boundless_length_is_not_kept(authorizer: DelegatedAuthorizer, reviews: Reviews) -> None:
    for _ in range(2):
        await authorizer.authorize(GOOD, "get", "/" + "x" * 10_000)
    assert len(reviews.asked) == 2


async def test_a_failing_review_is_an_internal_error_and_is_not_kept(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    reviews.failure = Unreachable("connection refused")
    assert (await authorizer.authorize(GOOD, "get", "/metrics")).status == 500
    reviews.failure = None
    assert (await authorizer.authorize(GOOD, "get", "/metrics")).allowed


async def test_a_review_that_never_answers_ends_after_the_timeout(reviews: Reviews, clock: ManualClock) -> None:
    authorizer = DelegatedAuthorizer(reviews.review, clock, timeout_s=0.01)
    reviews.release.clear()
    decision = await authorizer.authorize(GOOD, "get", "/metrics")
    assert (decision.status, reviews.at_once) == (500, 0)


async def test_reviews_at_once_are_bounded_and_anonymous_takes_one_slot_of_its_own(
    authorizer: DelegatedAuthorizer, reviews: Reviews
) -> None:
    reviews.release.clear()
    waiting = [
        asyncio.ensure_future(authorizer.authorize(user, "get", f"/{index}"))
        for index in range(20)
        for user in (ANONYMOUS, OTHER)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert sum(user == ANONYMOUS for user, _, _ in reviews.asked) == 1
    reviews.release.set()
    await asyncio.gather(*waiting)
    assert reviews.most_at_once == REVIEWS_AT_ONCE + 1
