"""Users named by headers: kube-apiserver's cases of header values, groups and extra keys."""

from __future__ import annotations

import pytest

from kscheduler.client.reviews import User
from kscheduler.serving.request_headers import HeaderNames, Headers

STANDARD = HeaderNames(("X-Remote-User",), ("X-Remote-Uid",), ("X-Remote-Group",), ("X-Remote-Extra-",))


@pytest.mark.parametrize(
    ("names", "headers", "user"),
    [
        # Nobody is named.
        (STANDARD, (), None),
        (STANDARD, (("X-Remote-User", ""),), None),
        (STANDARD, (("X-Remote-Group", "g"),), None),
        (HeaderNames(), (("X-Remote-User", "Bob"),), None),
        # The user: the first header name with a value, case aside.
        (STANDARD, (("x-remote-user", "Bob"),), User("Bob")),
        (HeaderNames(("X-A", "X-B")), (("X-B", "Bob"),), User("Bob")),
        (HeaderNames(("X-A", "X-B")), (("X-A", ""), ("X-B", "Bob")), User("Bob")),
        (HeaderNames(("X-A", "X-B")), (("X-B", "Bob"), ("X-A", "Alice")), User("Alice")),
        (STANDARD, (("X-Remote-User", "first"), ("X-Remote-User", "second")), User("first")),
        # The uid.
        (STANDARD, (("X-Remote-User", "Bob"), ("X-Remote-Uid", "u")), User("Bob", "u")),
        (HeaderNames(("X-Remote-User",)), (("X-Remote-User", "Bob"), ("X-Remote-Uid", "u")), User("Bob")),
        # Groups: all values, in the order of the header names.
        (
            HeaderNames(("X-U",), group=("X-G-1", "X-G-2")),
            (("X-U", "Bob"), ("X-G-2", "three"), ("X-G-1", "one"), ("x-g-1", "two"), ("X-G-1", "")),
            User("Bob", "", ("one", "two", "three")),
        ),
        # What else is known: keys in small letters without the prefix, escapes decoded.
        (
            HeaderNames(("X-U",), extra_prefixes=("X-E-1-", "X-E-2-")),
            (("X-U", "Bob"), ("X-E-2-Key1", "c"), ("X-E-1-key1", "a"), ("x-e-1-KEY1", "b"), ("X-E-1-key2", "d")),
            User("Bob", "", (), (("key1", ("a", "b", "c")), ("key2", ("d",)))),
        ),
        (
            STANDARD,
            (("X-Remote-User", "Bob"), ("X-Remote-Extra-Example.com%2fScopes", "s")),
            User("Bob", "", (), (("example.com/scopes", ("s",)),)),
        ),
        (
            STANDARD,
            (("X-Remote-User", "Bob"), ("X-Remote-Extra-Broken%2gkey%2f", "s")),
            User("Bob", "", (), (("broken%2gkey%2f", ("s",)),)),
        ),
        (STANDARD, (("X-Remote-User", "B\udcffb"),), User("B�b")),
    ],
)
def test_the_user_that_headers_name(names: HeaderNames, headers: Headers, user: User | None) -> None:
    assert names.user(headers) == user
