"""Makes texts from outside fit for a terminal, which obeys control characters: a guest's output, names in a module."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with control characters, and others that show nothing, as escapes such as \\u001b."""
    return text if text.isprintable() else "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
