"""The pages of the site as text, and the blocks in them."""

from __future__ import annotations

import re
from typing import NamedTuple

from docs.assembly import GENERATED, PAGES, TAKEN, taken_page

_BLOCK = re.compile(r"^```(\w*)[ ]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ON_CLUSTER = 'title="on a cluster"'  # run by tests/controlplane
NOT_RUN = re.compile(r'^title="not run\b[^"]*: [^"]{8,}"$')


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    options: str
    text: str

    @property
    def file(self) -> str:
        """The name of the file that the block is, from its first line; "" if it is none."""
        found = re.match(r"# ([\w.-]+\.\w+)\n", self.text)
        return found[1] if found else ""


def own_pages() -> dict[str, str]:
    """The pages that only the site has: name -> text."""
    return {
        path.relative_to(PAGES).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PAGES.rglob("*.md"))
    }


def all_pages() -> dict[str, str]:
    """All pages: name in the site -> text."""
    taken = {place: taken_page(source) for source, place in TAKEN.items()}
    return {**own_pages(), **taken, **{place: page() for place, page in GENERATED.items()}}


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(text)]
