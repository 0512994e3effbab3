"""Makes the plugin class of a guest: its exports are the extension points, with one method each.

A profile calls `plugin_class(guest)`, and then the class with (arguments, handle), which returns a plugin with the
methods of the guest's extension points. Every fault of the guest becomes a status of the current pod, or an error while
the plugin is made. With the failure policy `ignore` a failing plugin has no influence on the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.wasm.extension import points, pure_points
from kscheduler.wasm.extension.base import ExtensionPlugin, GuestSource
from kscheduler.wasm.extension.surroundings import Surroundings

_POINTS: Mapping[str, type[ExtensionPlugin]] = {
    "preFilter": points.PreFilterPoint,
    "filter": points.SearchingFilterPoint,
    "postFilter": points.PostFilterPoint,
    "preScore": points.PreScorePoint,
    "score": points.ScorePoint,
    "reserve": points.ReservePoint,
    "permit": points.PermitPoint,
    "preBind": points.PreBindPoint,
    "bind": points.BindPoint,
    "postBind": points.PostBindPoint,
}
_PURE: Mapping[str, type[ExtensionPlugin]] = {
    "preFilter": pure_points.PurePreFilterPoint,
    "filter": pure_points.PureFilterPoint,
    "score": pure_points.PureScorePoint,
}


def plugin_class(guest: GuestSource, surroundings: Surroundings | None = None) -> type[ExtensionPlugin]:
    """Make the class of a guest's plugin, with the methods of the extension points that the guest exports."""
    points = guest_points(guest)
    kinds = {**_POINTS, **_PURE} if guest.arguments.pure else _POINTS
    bases = tuple(kind for point, kind in kinds.items() if point in points)
    members = {"name": guest.name, "guest": guest, "surroundings": surroundings or Surroundings()}
    return type(guest.name, (*bases, ExtensionPlugin), members)


def guest_points(guest: Any) -> frozenset[str]:
    """Return the guest's extension points as the configuration spells them, if possible without compiling the guest."""
    interface = getattr(guest, "interface", None) or guest.version.interface
    return frozenset(interface.points)
