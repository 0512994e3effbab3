from __future__ import annotations

import pytest

from kscheduler.client.urls import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_this_machine_is_known_by_its_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.com", "10.0.0.1", "127.0.0.1.example.com", "fe80::1"])
def test_others_are_not_this_machine(host: str) -> None:
    assert not is_loopback(host)
