"""The range of an int32, the type of most whole numbers in Kubernetes' objects, configuration and flags."""

from __future__ import annotations

from typing import Final

MIN_INT32: Final = -(2**31)
MAX_INT32: Final = 2**31 - 1
