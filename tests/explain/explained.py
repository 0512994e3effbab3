"""Asks an explainer as the endpoint does."""

from __future__ import annotations

from typing import Any

import msgspec

from kscheduler.explain.explainer import Explainer


def explained(explainer: Explainer, key: str, **options: Any) -> dict[str, Any]:
    """Return the explanation of a pod that is known, as `namespace/name`."""
    found = explainer.explain(key, **options)
    assert found is not None
    assert msgspec.json.decode(msgspec.json.encode(found)) == found, "it is JSON through and through"
    return found
