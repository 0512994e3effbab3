"""The text of an expression, and the report of its faults in the form of cel-go."""

from __future__ import annotations

_MAX_REPORTED = 100
_MAX_SNIPPET = 16_384


class Source:
    """An expression's text and the faults that were found in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._faults: list[tuple[int, int, str]] = []  # line from 1, column from 0, message

    @property
    def has_faults(self) -> bool:
        return bool(self._faults)

    def report(self, position: int, message: str) -> None:
        """Note a fault at an offset of the text; -1 is nowhere in particular."""
        if position < 0:
            self._faults.append((-1, 0, message))
            return
        before = self.text[:position]
        line = before.count("\n")
        self._faults.append((line + 1, position - (before.rfind("\n") + 1), message))

    def faults(self) -> str:
        """Return all faults by their place, each with the line of the text and a pointer into it."""
        ordered = sorted(self._faults, key=lambda fault: fault[:2])
        shown = [self._display(*fault) for fault in ordered[:_MAX_REPORTED]]
        if len(ordered) > _MAX_REPORTED:
            shown.append(f"{len(ordered) - _MAX_REPORTED} more errors were truncated")
        return "\n".join(shown)

    def _display(self, line: int, column: int, message: str) -> str:
        text = f"ERROR: <input>:{line}:{column + 1}: {message}"
        lines = self.text.split("\n")
        if line < 1 or line > len(lines) or len(lines[line - 1].encode()) > _MAX_SNIPPET:
            return text
        snippet = lines[line - 1].replace("\t", " ")
        # Characters beyond ASCII are pointed at with wide dots.
        dots = "".join("." if character.isascii() else "．" for character in snippet[:column])
        at_wide = column < len(snippet) and not snippet[column].isascii()
        return f"{text}\n | {snippet}\n | {dots}{'＾' if at_wide else '^'}"
