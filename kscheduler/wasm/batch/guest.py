"""Calls one instance of a guest: writes messages to its memory, and checks its answers."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.counted import counted
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import GuestError, PodAnswer, read_acknowledgement, read_answers
from kscheduler.wasm.batch.description import Description, read_description
from kscheduler.wasm.batch.host_functions import CallContext
from kscheduler.wasm.batch.points import ABI_VERSION, Point
from kscheduler.wasm.batch.table_feed import Mirror
from kscheduler.wasm.engine import FaultKind, GuestFault, Instance
from kscheduler.wasm.faults import one_line, with_output
from kscheduler.wasm.loading.abi import BATCH_MARK

BASE_ANSWER_BYTES = 65_536
BYTES_PER_ROW = 16  # of an answer's size limit, for each row

_32_BITS = 0xFFFFFFFF


class BatchGuest:
    """One wasm instance of a guest of the batch ABI, stored as the instance's `data`.

    Call `open` first, and do not use it after a GuestFault.
    """

    def __init__(self, instance: Instance, context: CallContext) -> None:
        self.instance = instance
        self.mirror = Mirror()
        self.context = context
        instance.data = self
        self._prepared: dict[str, Callable[..., int | float | None]] = {}  # by the name of the export
        self.description: Description | None = None

    def open(self, config: str) -> Description:
        """Configure the started guest and return its description of itself.

        Raises GuestError if it refuses the configuration.
        """
        version = self._run(BATCH_MARK)
        if version != ABI_VERSION:
            raise GuestFault(FaultKind.BAD_ANSWER, f"{BATCH_MARK}: expected {ABI_VERSION}, got {version}")
        self.context.begin(None)
        read_acknowledgement(self._send("ks_configure", config.encode(), BASE_ANSWER_BYTES), "ks_configure")
        self.context.begin(None)
        described = read_description(self._take("ks_describe", self._run("ks_describe"), BASE_ANSWER_BYTES))
        self.description = described
        return described

    def take_table(self, messages: list[bytes]) -> None:
        """Send these messages with changes of nodes to the guest, which has a copy of the node table.

        Raises GuestFault if it does not accept one.
        """
        for message in messages:
            self.context.begin(None)
            try:
                read_acknowledgement(self._send("ks_table", message, BASE_ANSWER_BYTES), "ks_table")
            except GuestError as error:  # the state of its copy of the table is unknown now
                raise GuestFault(FaultKind.BAD_ANSWER, str(error)) from error

    def ask_one(self, point: Point, question: bytes, rows: int, pod: PodInfo | None) -> PodAnswer:
        """Call an extension point about one pod: send the message `question` about `rows` nodes; return the answer.

        `pod` is the pod that the guest's Events are about. Raises GuestError if the guest reports an error.
        """
        self.context.begin(pod)
        limit = BASE_ANSWER_BYTES + BYTES_PER_ROW * rows
        answer = read_answers(self._send("ks_call", question, limit, point), point, 1)[0]
        if answer.error is not None:
            raise GuestError(answer.error)
        return answer

    # --- inside ---

    def _send(self, export: str, message: bytes, limit: int, *before: int) -> bytes:
        """Write the message to the guest's memory, call the export, and read an answer of at most `limit` bytes."""
        address = 0
        if message:
            self._check_size(export, len(message))
            allocated = self._run("ks_alloc", len(message))
            address = int(allocated or 0) & _32_BITS
            if address == 0:
                size = counted(len(message), "byte")
                raise GuestFault(FaultKind.BAD_ANSWER, f"ks_alloc: expected room for {size}, got none")
            self.instance.write(address, message)
        return self._take(export, self._run(export, *before, address, len(message)), limit)

    def _check_size(self, export: str, size: int) -> None:
        described = self.description
        if described is not None and size > described.message_limit:
            raise GuestFault(
                FaultKind.BAD_ANSWER,
                f"{export}: a message has {size} bytes, the guest takes messages of {described.message_limit}",
            )

    def _take(self, export: str, packed: int | float | None, limit: int) -> bytes:
        if not isinstance(packed, int):
            raise GuestFault(FaultKind.BAD_ANSWER, f"{export}: expected an i64, got {packed!r}")
        address, size = packed >> 32 & _32_BITS, packed & _32_BITS
        if size > limit:
            raise GuestFault(FaultKind.BAD_ANSWER, f"{export}: expected an answer of at most {limit} bytes, got {size}")
        return self.instance.read(address, size) if size else b""

    def _run(self, export: str, *numbers: int) -> int | float | None:
        """Call an export. What the guest printed or logged as an error, such as a panic, is added to a fault's text."""
        function = self._prepared.get(export)
        if function is None:
            function = self._prepared[export] = self.instance.prepare(export)
        try:
            return function(*numbers)
        except GuestFault as fault:
            logged = one_line(self.context.last_error)
            more = f"; it logged: {logged}" if logged else ""
            raise GuestFault(fault.kind, with_output(fault) + more) from fault
