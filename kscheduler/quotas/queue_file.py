"""Makes the queues with shares that a configuration asks for, with those of the file that it names."""

from __future__ import annotations

from fractions import Fraction

from kscheduler.api.manifest import load_manifests
from kscheduler.api.share_queues import ShareQueueObject
from kscheduler.config.queues import queues_args
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.quotas.pod_demand import Demands
from kscheduler.quotas.queue_tree import check_queue
from kscheduler.quotas.share_queues import ShareQueues


def share_queues(config: SchedulerConfig) -> ShareQueues:
    """Return the queues with shares of a scheduler.

    Raises ConfigError, naming file and object, if the file cannot be read, has no queue or a malformed one, or one name
    twice. A queue whose parent is not in the file is no error, since that may be an object of the apiserver.
    """
    args = queues_args(config)
    demands = Demands(
        args.default_queue, args.non_preemptible_priority, sums_resizes_apart=config.release.sums_resizes_apart
    )
    given = _read(args.file) if args.file else ()
    multiplier = Fraction(str(args.saturation_multiplier))
    return ShareQueues(demands, given, multiplier, args.max_consolidation_victims)


def _read(path: str) -> tuple[ShareQueueObject, ...]:
    queues = load_manifests(path).queues
    if not queues:
        raise ConfigError(f"{path}: expected objects of kind Queue, found none")
    names: set[str] = set()
    for each in queues:
        name = each.metadata.name
        if name in names:
            raise ConfigError(f"{path}: queue {name}: expected one queue of this name, got two")
        names.add(name)
        try:
            check_queue(each)
        except DecodeError as error:
            raise ConfigError(f"{path}: {error}") from error
    return queues
