"""What can go wrong with an expression: when it is compiled, and when it is evaluated."""

from __future__ import annotations

NO_SUCH_OVERLOAD = "no such overload"
COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"


class CompileError(Exception):
    """An expression that cannot be compiled. The text names all its faults."""


class EvaluationError(Exception):
    """An error value of CEL. `&&`, `||`, `all` and `exists` absorb it if the other operands decide."""


class SelectorError(Exception):
    """An expression that cannot be compiled, or not be evaluated for a device, with Kubernetes' words."""


class Cancelled(Exception):
    """The evaluation was broken off, which no operator absorbs."""


def no_such_overload() -> EvaluationError:
    return EvaluationError(NO_SUCH_OVERLOAD)
