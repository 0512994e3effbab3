"""Makes the plugin class of a guest, with the methods of the extension points that the guest declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscheduler.errors import PluginError
from kscheduler.framework.interface import Handle
from kscheduler.wasm.batch.binding import BindingPoint, PermitPoint, PreBindPoint
from kscheduler.wasm.batch.deciding import (
    DefaultNormalizing,
    FarSighted,
    FilterPoint,
    GuestNormalizing,
    Measuring,
    PreEnqueuePoint,
    PreFilterPoint,
    PreScorePoint,
    ScorePoint,
)
from kscheduler.wasm.batch.description import Description
from kscheduler.wasm.batch.plugin import BatchPlugin
from kscheduler.wasm.batch.pods import UNKNOWN
from kscheduler.wasm.batch.points import DEFAULT, GUEST, METRICS, NO_NORMALIZING, REVERSE, Point
from kscheduler.wasm.batch.version import BatchVersion, Surroundings
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.faults import with_output
from kscheduler.wasm.loading.compiling import Version
from kscheduler.wasm.loading.fetch import LoadError
from kscheduler.wasm.loading.guest import Guest

_METHODS: Mapping[Point, type[BatchPlugin]] = {
    Point.PRE_ENQUEUE: PreEnqueuePoint,
    Point.PRE_FILTER: PreFilterPoint,
    Point.FILTER: FilterPoint,
    Point.PRE_SCORE: PreScorePoint,
    Point.RESERVE: BindingPoint,
    Point.UNRESERVE: BindingPoint,
    Point.PERMIT: PermitPoint,
    Point.PRE_BIND: PreBindPoint,
    Point.POST_BIND: BindingPoint,
}
_SCORING: Mapping[str, type[ScorePoint]] = {
    NO_NORMALIZING: ScorePoint,
    DEFAULT: DefaultNormalizing,
    REVERSE: DefaultNormalizing,
    GUEST: GuestNormalizing,
}


def make_class(name: str, version: BatchVersion, around: Surroundings | None = None) -> type[BatchPlugin]:
    """Make the plugin class of one version; call it with arguments and a Handle to make the plugin."""
    described = version.description
    kinds = [_METHODS[point] for point in sorted(described.points) if point in _METHODS]
    if Point.SCORE in described.points:
        kinds.append(_SCORING[described.normalize])
    if METRICS in described.depends:
        kinds.append(Measuring)
    if described.pod & UNKNOWN:
        kinds.append(FarSighted)
    kinds = list(dict.fromkeys(kinds))
    bases = [kind for kind in kinds if not any(kind is not other and issubclass(other, kind) for other in kinds)]
    return type(name, tuple(bases), {"name": name, "version": version, "around": around or Surroundings()})


def plugin_class(guest: Guest, around: Surroundings | None = None) -> type[BatchPlugin]:
    """Make the plugin class of a loaded guest. Raises LoadError if the guest does not describe itself correctly."""
    around = around or Surroundings()
    try:
        version = BatchVersion(guest.name, guest.version.module, guest.arguments, around)
    except (GuestFault, PluginError) as error:
        raise LoadError(f"wasm: {with_output(error) if isinstance(error, GuestFault) else error}") from error
    made = make_class(guest.name, version, around)
    return type(guest.name, (_Following, made), {"guest": guest})


class _Following(BatchPlugin):
    """Adds to a plugin the methods by which it changes to new versions of its guest."""

    guest: Guest

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._tried: dict[str, BatchVersion] = {}  # digest -> version that was tried, for `replace`
        self.guest.follow(self)

    def try_out(self, version: Version) -> None:
        tried = BatchVersion(self.guest.name, version.module, self.guest.arguments, self.around)
        check_replacement(self._described, tried.description)
        self._tried = {version.sha256: tried}

    def replace(self, version: Version) -> None:
        self.go_on_with(self._tried.pop(version.sha256))


def check_replacement(old: Description, new: Description) -> None:
    """Raise PluginError if a plugin of the old version cannot switch to the new one, e.g. for its extension points."""
    for field in ("points", "normalize", "depends", "pod"):  # the plugin's methods and pod signatures depend on them
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            raise PluginError(f"{field}: expected {_words(before)} as in the version that runs, got {_words(after)}")


def _words(value: str | frozenset[str] | frozenset[Point]) -> str:
    words = [value] if isinstance(value, str) else [getattr(each, "word", each) for each in sorted(value)]
    return ", ".join(map(str, words)) or "nothing"
