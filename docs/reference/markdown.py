"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown, in which line breaks and bars are made harmless."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def code(text: str) -> str:
    """Return a text as inline code; "" stays empty. Backticks in it become quotes."""
    return f"`{text.replace('`', chr(39))}`" if text else ""


def escaped(text: str) -> str:
    """Return plain text so that Markdown shows it as it is. What stands between backticks stays code."""
    parts = text.split("`")
    outside = [part.replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_") for part in parts[::2]]
    parts[::2] = outside
    return "`".join(parts)


def sentence(text: str) -> str:
    """Return a text with a capital first letter, unless it begins with code, and a full stop."""
    text = " ".join(text.split())
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?!" else text + "."


def _cell(text: str) -> str:
    """Return a cell in one line, with bars escaped, but not those in code, which end no cell."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "`".join(parts)
