"""One profile's plugins at the extension points of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.framework.interface import FilterPlugin, Plugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from kscheduler.observability.instruments import Counter
from kscheduler.observability.measurements import Measurements


@dataclass(frozen=True, slots=True)
class SearchPlugins:
    """The plugins of one profile at PreFilter, Filter, PreScore and Score, in order."""

    pre_filter: Sequence[PreFilterPlugin]
    filters: Sequence[FilterPlugin]
    pre_score: Sequence[PreScorePlugin]
    scores: Sequence[tuple[ScorePlugin, int]]  # (plugin, weight)

    @property
    def by_point(self) -> dict[str, Sequence[Plugin]]:
        scoring = [plugin for plugin, _ in self.scores]
        return {"PreFilter": self.pre_filter, "Filter": self.filters, "PreScore": self.pre_score, "Score": scoring}

    def evaluations(self, observer: Measurements, profile: str) -> dict[tuple[str, str], Counter]:
        """Return the counter of evaluations (a metric) for each (plugin name, extension point)."""
        return {
            (plugin.name, point): observer.evaluations(plugin.name, point, profile)
            for point, plugins in self.by_point.items()
            for plugin in plugins
        }
