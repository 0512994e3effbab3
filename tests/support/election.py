"""Outcomes of leader election that stay as they are."""

from __future__ import annotations


class Leader:
    is_leader = True


class Follower:
    is_leader = False
