"""Texts of plugins in a form in which they can be sent, as in a pod's condition."""

from __future__ import annotations


def plain_text(text: str) -> str:
    """Return the text itself if it can be sent; else as an exact str, with U+FFFD for half of a surrogate pair.

    A subclass of str has no JSON, and may override what a str does; half of a pair has no UTF-8. Python's own functions
    return such halves, as `json.loads` for an escape and `os.fsdecode` for a byte.
    """
    if type(text) is str and text.isascii():
        return text
    plain = str.__str__(text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if type(text) is str and plain == text else plain
