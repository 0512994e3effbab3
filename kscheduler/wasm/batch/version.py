"""One version of a guest of the batch ABI: how its instances are made, and its description of itself."""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.clock import Clock, SystemClock
from kscheduler.errors import PluginError
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.answers import GuestError
from kscheduler.wasm.batch.description import Description
from kscheduler.wasm.batch.guest import BatchGuest
from kscheduler.wasm.batch.host_functions import MODULE, CallContext, RecordEvent, host_functions, record_nothing
from kscheduler.wasm.batch.metric_feed import LiveColumns
from kscheduler.wasm.binding_threads import BindingThreads
from kscheduler.wasm.engine import Instance, Limits, Module, Wasi
from kscheduler.wasm.guest_log import GuestLog, LogRules
from kscheduler.wasm.pool import FailurePolicy, Pool, PoolObserver, PoolOptions
from kscheduler.wasm.quarantine import QuarantineRules


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The services of the program that the plugins of guests use."""

    clock: Clock = SystemClock()  # noqa: RUF009 (has no state)
    observer: PoolObserver | None = None
    record: RecordEvent = record_nothing
    metrics: LiveColumns | None = None  # None: the columns of the scheduler's own metric sources
    quarantine: QuarantineRules = QuarantineRules()  # noqa: RUF009 (frozen)
    log_rules: LogRules = LogRules()  # noqa: RUF009 (frozen)
    threads: BindingThreads | None = None  # for binding cycles; None: the caller's thread, as in simulations


class BatchVersion:
    """One version of a guest, with its description of itself and the options of its instance pools.

    Making it raises GuestFault if the guest violates the ABI, PluginError if it refuses its configuration.
    """

    def __init__(self, name: str, module: Module, arguments: WasmArguments, around: Surroundings) -> None:
        self.module = module
        self._name = name
        self._arguments = arguments
        self._around = around
        clock = around.clock
        self._log_limit = GuestLog(name, clock.now, around.log_rules)
        self.options = PoolOptions(
            functions=host_functions(lambda: int(clock.wall() * 1e9)),
            limits=Limits(memory_bytes=arguments.memory_bytes, deadline_s=arguments.deadline_s),
            wasi=Wasi(args=[arg.reveal() for arg in arguments.args]),
            policy=FailurePolicy(arguments.failure_policy),
            setup=self._set_up,
            quarantine=around.quarantine,
        )
        self.description = self._describe()

    @property
    def may_surprise(self) -> bool:
        """True if the guest imports the clock or Events, so that equal questions may have different effects."""
        return any(each.module == MODULE and each.name in ("now", "event") for each in self.module.imports)

    def _set_up(self, instance: Instance) -> None:
        context = CallContext(self._name, self._log_limit, self._arguments.log_severity, self._around.record)
        try:
            BatchGuest(instance, context).open(self._arguments.guest_config.reveal())
        except GuestError as error:
            raise PluginError(f"the guest refuses its configuration: {error}") from error

    def _describe(self) -> Description:
        instance = self.module.instantiate(self.options.functions, self.options.limits, wasi=self.options.wasi)
        try:
            instance.start()
            self._set_up(instance)
            guest = instance.data
            assert isinstance(guest, BatchGuest)
            assert guest.description is not None
            return guest.description
        finally:
            instance.close()

    def pool(self) -> Pool:
        return Pool(self._name, self.module, self.options, self._around.clock, self._around.observer)
