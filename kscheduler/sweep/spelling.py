"""Words an error about an unknown name, with the nearest valid one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def did_you_mean(what: str, given: str, valid: Sequence[str]) -> str:
    """Return a message such as `unknown key "trases": did you mean "traces"?`; without a near name it lists all."""
    near = difflib.get_close_matches(given, valid, n=1)
    if not near:
        lower = {name.lower(): name for name in valid}
        near = [lower[name] for name in difflib.get_close_matches(given.lower(), lower, n=1)]
    hint = f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(valid)}"
    return f'unknown {what} "{given[:60]}": {hint}'
