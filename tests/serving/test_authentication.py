"""Who sends a request: in which order proofs count, what proves nothing, and how often the apiserver is asked."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

import pytest
from cryptography import x509

from kscheduler.client.reviews import User
from kscheduler.errors import Unreachable
from kscheduler.serving.answer_cache import ENTRIES
from kscheduler.serving.authentication import (
    ANONYMOUS,
    CACHE_TTL_S,
    REVIEWS_AT_ONCE,
    DelegatedAuthenticator,
    FrontProxies,
    NotReviewed,
    Shown,
)
from kscheduler.serving.authorities import Authorities
from kscheduler.serving.request_headers import HeaderNames
from tests.serving.authority import DAY, SERVER, Authority, Issued
from tests.serving.held_reviews import HeldReviews
from tests.support.clocks import ManualClock

STANDARD = HeaderNames(("X-Remote-User",), (), ("X-Remote-Group",), ("X-Remote-Extra-",))


class Reviews(HeldReviews):
    """The apiserver's TokenReview: the tokens "good" and "other" exist."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[str] = []  # tokens asked about

    async def token_review(self, token: str) -> User | None:
        self.tokens.append(token)
        await self.wait()
        return User(f"user-{token}", "u", ("g",)) if token in ("good", "other") else None


class FixedTrust:
    def __init__(self, clients: Authority | None = None, proxies: Authority | None = None, *names: str) -> None:
        self.clients = None if clients is None else Authorities(clients.pem)
        self.front_proxies = None if proxies is None else FrontProxies(Authorities(proxies.pem), STANDARD, names)
        self.known = asyncio.Event()
        self.known.set()

    async def wait_known(self) -> None:
        await self.known.wait()


OURS, PROXIES = Authority("clients"), Authority("front proxies")


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(epoch=time.time())


@pytest.fixture
def authenticator(reviews: Reviews, clock: ManualClock) -> DelegatedAuthenticator:
    return DelegatedAuthenticator(FixedTrust(OURS, PROXIES, "proxy"), reviews.token_review, clock)


def shown(issued: Issued | None = None, /, **headers: str) -> Shown:
    """A request with a client certificate and headers: `X_Remote_User` stands for X-Remote-User."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Shown(named, lambda: issued.shown if issued is not None else ())


def bearer(token: str) -> Shown:
    return shown(Authorization=f"Bearer {token}")


async def name_of(authenticator: DelegatedAuthenticator, request: Shown) -> str | None:
    user = await authenticator.authenticate(request)
    return None if user is None else user.name


async def test_a_request_that_shows_nothing_is_anonymous(
    authenticator: DelegatedAuthenticator, reviews: Reviews
) -> None:
    assert await authenticator.authenticate(shown()) == ANONYMOUS
    assert reviews.tokens == []


# --- client certificates ---


async def test_a_client_certificate_stands_for_its_user(authenticator: DelegatedAuthenticator) -> None:
    user = await authenticator.authenticate(shown(OURS.issue("alice", ["dev"])))
    assert user is not None
    assert (user.name, user.groups) == ("alice", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    "issued",
    [
        Authority("theirs").issue("alice"),
        OURS.issue("alice", starts=-2 * DAY, ends=-DAY),
        OURS.issue("alice", usages=(SERVER,)),
    ],
    ids=["another authority", "expired", "for servers"],
)
async def test_a_bad_certificate_makes_nobody_but_does_not_spoil_a_good_token(
    authenticator: DelegatedAuthenticator, issued: Issued
) -> None:
    assert await authenticator.authenticate(shown(issued)) is None
    assert await name_of(authenticator, shown(issued, Authorization="Bearer good")) == "user-good"


async def test_a_certificate_comes_before_a_token(authenticator: DelegatedAuthenticator, reviews: Reviews) -> None:
    assert await name_of(authenticator, shown(OURS.issue("alice"), Authorization="Bearer good")) == "alice"
    assert reviews.tokens == []


async def test_a_certificate_without_a_user_is_anonymous(authenticator: DelegatedAuthenticator) -> None:
    trust = FixedTrust(OURS)
    assert await name_of(
        DelegatedAuthenticator(trust, Reviews().token_review, ManualClock(epoch=time.time())), shown(OURS.issue(""))
    ) == ("system:anonymous")


async def test_a_certificate_counts_for_nothing_where_no_authority_is_known(clock: ManualClock) -> None:
    authenticator = DelegatedAuthenticator(FixedTrust(), Reviews().token_review, clock)
    assert await authenticator.authenticate(shown(OURS.issue("alice"))) == ANONYMOUS


@pytest.mark.parametrize("fault", [ValueError("not DER"), x509.InvalidVersion("0 is not valid", 0)])
async def test_bytes_that_are_no_certificate_make_nobody(
    authenticator: DelegatedAuthenticator, fault: Exception
) -> None:
    def broken() -> tuple[()]:
        raise fault

    class Unreadable:
        def __getattr__(self, name: str) -> object:
            raise fault

    assert await authenticator.authenticate(Shown((), broken)) is None
    assert await authenticator.authenticate(Shown((), lambda: [cast(x509.Certificate, Unreadable())])) is None


async def test_a_request_with_a_certificate_waits_until_it_is_known_who_counts(clock: ManualClock) -> None:
    trust = FixedTrust(OURS)
    trust.known.clear()
    authenticator = DelegatedAuthenticator(trust, Reviews().token_review, clock)
    waiting = asyncio.ensure_future(name_of(authenticator, shown(OURS.issue("alice"))))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert await name_of(authenticator, shown()) == "system:anonymous"  # who shows none need not wait
    trust.known.set()
    assert await waiting == "alice"


async def test_it_waits_no_longer_than_for_a_review(clock: ManualClock) -> None:
    trust = FixedTrust()
    trust.known.clear()
    authenticator = DelegatedAuthenticator(trust, Reviews().token_review, clock, timeout_s=0.01)
    assert await authenticator.authenticate(shown(OURS.issue("alice"))) == ANONYMOUS


# --- front proxies ---


async def test_a_front_proxy_names_the_user(authenticator: DelegatedAuthenticator) -> None:
    request = shown(PROXIES.issue("proxy"), X_Remote_User="bob", X_Remote_Group="g", X_Remote_Extra_Scopes="s")
    user = User("bob", "", ("g", "system:authenticated"), (("scopes", ("s",)),))
    assert await authenticator.authenticate(request) == user


async def test_only_a_front_proxy_may_name_a_user(authenticator: DelegatedAuthenticator) -> None:
    forged = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}
    assert await authenticator.authenticate(shown(**forged)) == ANONYMOUS
    assert await name_of(authenticator, shown(OURS.issue("alice"), **forged)) == "alice"
    assert await name_of(authenticator, shown(Authorization="Bearer good", **forged)) == "user-good"
    assert await authenticator.authenticate(shown(Authority().issue("proxy"), **forged)) is None


async def test_a_certificate_of_the_proxies_authority_under_another_name_is_no_proxy(
    authenticator: DelegatedAuthenticator, clock: ManualClock
) -> None:
    request = shown(PROXIES.issue("another"), X_Remote_User="bob")
    assert await authenticator.authenticate(request) is None
    any_name = DelegatedAuthenticator(FixedTrust(OURS, PROXIES), Reviews().token_review, clock)
    assert await name_of(any_name, request) == "bob"


async def test_a_proxy_that_names_nobody_is_nobody(authenticator: DelegatedAuthenticator) -> None:
    assert await authenticator.authenticate(shown(PROXIES.issue("proxy"))) is None


async def test_a_proxy_may_name_anonymous(authenticator: DelegatedAuthenticator) -> None:
    request = shown(PROXIES.issue("proxy"), X_Remote_User="system:anonymous", X_Remote_Group="system:unauthenticated")
    assert await authenticator.authenticate(request) == ANONYMOUS


# --- tokens ---


async def test_a_token_stands_for_the_user_that_the_apiserver_names(authenticator: DelegatedAuthenticator) -> None:
    user = User("user-good", "u", ("g", "system:authenticated"))
    assert await authenticator.authenticate(bearer("good")) == user


@pytest.mark.parametrize("token", ["bad", "x" * 20_000])
async def test_a_token_that_nobody_issued_makes_nobody(authenticator: DelegatedAuthenticator, token: str) -> None:
    assert await authenticator.authenticate(bearer(token)) is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer good", "good"),
        ("bearer good", "good"),
        ("  Bearer good  ", "good"),
        ("Bearer good more", "good"),
        ("Bearer  good", None),  # nothing between the two spaces
        ("Bearer", None),
        ("Basic Z29vZA==", None),
        ("good", None),
        ("", None),
    ],
)
def test_only_a_bearer_header_holds_a_token(header: str, token: str | None) -> None:
    assert shown(Authorization=header).token == token


async def test_answers_are_kept_for_ten_seconds(
    authenticator: DelegatedAuthenticator, reviews: Reviews, clock: ManualClock
) -> None:
    for _ in range(3):
        await authenticator.authenticate(bearer("good"))
        await authenticator.authenticate(bearer("bad"))
    assert reviews.tokens == ["good", "bad"]
    clock.advance(CACHE_TTL_S)
    await authenticator.authenticate(bearer("good"))
    assert reviews.tokens == ["good", "bad", "good"]


async def test_invalid_tokens_can_be_kept_for_a_shorter_time(reviews: Reviews, clock: ManualClock) -> None:
    authenticator = DelegatedAuthenticator(FixedTrust(), reviews.token_review, clock, ttl_s=60.0, invalid_ttl_s=5.0)
    for _ in range(2):
        await authenticator.authenticate(bearer("good"))
        await authenticator.authenticate(bearer("bad"))
        clock.advance(5.0)
    assert reviews.tokens == ["good", "bad", "bad"]


async def test_who_identifies_a_user_learns_that_a_token_could_not_be_reviewed(
    authenticator: DelegatedAuthenticator, reviews: Reviews
) -> None:
    reviews.failure = Unreachable("connection refused")
    with pytest.raises(NotReviewed, match="could not be asked about a token: connection refused"):
        await authenticator.identify(bearer("good"))
    reviews.failure = None
    assert await authenticator.identify(bearer("bad")) is None


@pytest.mark.parametrize(("ttl_s", "asked"), [(0.0, 3), (60.0, 1)])
async def test_the_flag_says_how_long_answers_are_kept(
    reviews: Reviews, clock: ManualClock, ttl_s: float, asked: int
) -> None:
    authenticator = DelegatedAuthenticator(FixedTrust(), reviews.token_review, clock, ttl_s=ttl_s)
    for _ in range(3):
        await authenticator.authenticate(bearer("good"))
        clock.advance(CACHE_TTL_S)
    assert len(reviews.tokens) == asked


async def test_a_token_that_cannot_be_looked_up_makes_nobody_and_is_not_kept(
    authenticator: DelegatedAuthenticator, reviews: Reviews
) -> None:
    reviews.failure = Unreachable("connection refused")
    assert await authenticator.authenticate(bearer("good")) is None
    reviews.failure = None
    assert await name_of(authenticator, bearer("good")) == "user-good"


async def test_a_review_that_never_answers_ends_after_the_timeout(reviews: Reviews, clock: ManualClock) -> None:
    authenticator = DelegatedAuthenticator(FixedTrust(), reviews.token_review, clock, timeout_s=0.01)
    reviews.release.clear()
    assert await authenticator.authenticate(bearer("good")) is None
    assert reviews.at_once == 0


async def test_reviews_at_once_are_bounded(authenticator: DelegatedAuthenticator, reviews: Reviews) -> None:
    reviews.release.clear()
    waiting = [asyncio.ensure_future(authenticator.authenticate(bearer(f"t{index}"))) for index in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    reviews.release.set()
    await asyncio.gather(*waiting)
    assert reviews.most_at_once == REVIEWS_AT_ONCE


async def test_many_requests_with_one_token_ask_no_more_often_than_there_are_slots(
    authenticator: DelegatedAuthenticator, reviews: Reviews
) -> None:
    reviews.release.clear()
    waiting = [asyncio.ensure_future(name_of(authenticator, bearer("good"))) for _ in range(20)]
    for _ in range(10):
        await asyncio.sleep(0)
    reviews.release.set()
    assert await asyncio.gather(*waiting) == ["user-good"] * 20
    assert len(reviews.tokens) <= REVIEWS_AT_ONCE


async def test_the_cache_does_not_grow_with_the_tokens_tried(
    authenticator: DelegatedAuthenticator, reviews: Reviews
) -> None:
    for index in range(ENTRIES + 10):
        await authenticator.authenticate(bearer(f"guess{index}"))
    assert len(authenticator._users) == ENTRIES
    await authenticator.authenticate(bearer("guess0"))  # the oldest is gone, and asked about again
    assert reviews.tokens.count("guess0") == 2


async def test_no_token_and_no_header_gets_into_the_log(
    authenticator: DelegatedAuthenticator, reviews: Reviews, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reviews.failure = Unreachable("connection refused")
    forged = {"X_Remote_User": "canary-header", "X_Remote_Extra_Canary": "canary-header"}
    request = shown(Authority().issue("alice"), Authorization="Bearer canary-token", **forged)
    assert await authenticator.authenticate(request) is None
    assert caplog.records
    assert "canary" not in "".join(str(record.__dict__) for record in caplog.records)
