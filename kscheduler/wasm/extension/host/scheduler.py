"""The modules `k8s.io/api` and `k8s.io/scheduler`: nodes, inputs and answers of a call, and actions such as Events."""

from __future__ import annotations

from functools import partial

import msgspec

from kscheduler.client.protocol import Regarding
from kscheduler.errors import DecodeError
from kscheduler.framework.interface import PermitWaits
from kscheduler.input.decoding import json_decoder
from kscheduler.wasm.engine import FaultKind, GuestFault, Instance
from kscheduler.wasm.extension.host.buffers import give, take, take_start, take_text
from kscheduler.wasm.extension.host.call import Call, call_of
from kscheduler.wasm.extension.host.world import World
from kscheduler.wasm.extension.surroundings import Surroundings

MAX_NAME = 1024  # bytes of a node's name or a pod's uid
MAX_REASON = 4096
MAX_LIST = 8 << 20  # bytes of node names or scores: a large cluster has some thousand nodes
MAX_CLUSTER_EVENTS = 64 * 1024
MAX_EVENT = 64 * 1024  # bytes of an Event for the API
MAX_EVENTS = 16  # Events of one call; further ones are dropped
UNREADABLE = "BUG: out of memory reading message"

_TRUE, _FALSE = (1).to_bytes(8, "little"), bytes(8)


class SchedulerFunctions:
    def __init__(
        self, plugin: str, config: str, world: World, waiting_pods: PermitWaits, surroundings: Surroundings
    ) -> None:
        self._plugin = plugin
        self._config = config.encode("utf-8", "replace")
        self._world = world
        self._waiting_pods = waiting_pods
        self._surroundings = surroundings

    # --- nodes ---

    def node(self, instance: Instance, name: int, size: int, buffer: int, limit: int) -> int:
        node_name = take_text(instance, name, size, MAX_NAME, "a node name")
        return give(instance, self._world.node(node_name), buffer, limit)

    def node_list(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, self._world.node_list(), buffer, limit)

    # --- inputs ---

    def get_config(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, self._config, buffer, limit)

    def current_pod(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, self._world.pod(call_of(instance).pod), buffer, limit)

    def target_pod(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, self._world.pod(call_of(instance).target), buffer, limit)

    def current_node_name(self, instance: Instance, buffer: int, limit: int) -> int:
        """Write the node's name to the guest's buffer.

        `give` is inlined here, because guests call this for each node.
        """
        call = instance.data
        if not isinstance(call, Call):
            return 0
        name = call.node_name
        size = len(name)
        if 0 < size <= limit & 0xFFFF_FFFF:
            instance.write(buffer & 0xFFFF_FFFF, name)
        return size

    def filtered_node_list(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, call_of(instance).filtered, buffer, limit)

    def node_image_states(self, instance: Instance, name: int, size: int, buffer: int, limit: int) -> int:
        node_name = take_text(instance, name, size, MAX_NAME, "a node name")
        return give(instance, self._world.image_states(node_name), buffer, limit)

    def node_to_status_map(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, call_of(instance).statuses, buffer, limit)

    def node_score_list(self, instance: Instance, buffer: int, limit: int) -> int:
        return give(instance, call_of(instance).scores, buffer, limit)

    # --- answers ---

    def cluster_events(self, instance: Instance, address: int, size: int) -> None:
        call_of(instance).events = take(instance, address, size, MAX_CLUSTER_EVENTS, "cluster events")

    def node_names(self, instance: Instance, address: int, size: int) -> None:
        """Read the node names that PreFilter returns, each ended by a NUL byte; bytes after the last are ignored."""
        names = take(instance, address, size, MAX_LIST, "node names").split(b"\0")[:-1]
        call_of(instance).node_names = [name.decode("utf-8", "replace") for name in names if name]

    def nominated_node_name(self, instance: Instance, address: int, size: int) -> None:
        call_of(instance).nominated = take_text(instance, address, size, MAX_NAME, "a node name")

    def status_reason(self, instance: Instance, address: int, size: int) -> None:
        reason = take_start(instance, address, size, MAX_REASON)
        call_of(instance).reason = UNREADABLE if reason is None else reason

    def normalized_score_list(self, instance: Instance, address: int, size: int) -> None:
        call_of(instance).normalized = take(instance, address, size, MAX_LIST, "scores")

    # --- actions ---

    def eventf(self, instance: Instance, address: int, size: int) -> None:
        data = take(instance, address, size, MAX_EVENT, "an Event")
        try:
            event = _decode_event(data)
        except DecodeError as error:
            raise GuestFault(FaultKind.BAD_ANSWER, f"expected an Event as JSON: {error}") from error
        call = call_of(instance)
        call.recorded += 1
        recorder = self._surroundings.recorder
        if recorder is None or event.regarding is None or not event.regarding.kind or call.recorded > MAX_EVENTS:
            return
        record = partial(
            recorder.record,
            event.regarding.of(),
            type=event.type,
            reason=event.reason,
            action=event.action,
            note=event.note,
            related=event.related.of() if event.related is not None and event.related.kind else None,
        )
        call.act(record)

    def reject_waiting_pod(self, instance: Instance, uid: int, size: int, buffer: int, limit: int) -> None:
        """Reject a pod that waits at Permit; write 1 as int64 if it was waiting, else 0.

        `limit` has no meaning here.
        """
        waiting = self._waiting_pods.get(take_text(instance, uid, size, MAX_NAME, "a uid"))
        if waiting is not None:
            call_of(instance).act(partial(waiting.reject, self._plugin, "removed"))
        instance.write(buffer & 0xFFFF_FFFF, _FALSE if waiting is None else _TRUE)

    def get_waiting_pod(self, instance: Instance, uid: int, size: int, buffer: int, limit: int) -> None:
        """Write the pod that waits at Permit if it fits into the buffer; eight zero bytes if it does not wait."""
        waiting = self._waiting_pods.get(take_text(instance, uid, size, MAX_NAME, "a uid"))
        if waiting is None:
            instance.write(buffer & 0xFFFF_FFFF, _FALSE)
        else:
            give(instance, self._world.pod(self._world.whole(waiting.pod.pod)), buffer, limit)


class _Reference(msgspec.Struct, frozen=True):
    """An ObjectReference in JSON. Its keys are the names of Go's struct fields."""

    kind: str = msgspec.field(default="", name="Kind")
    api_version: str = msgspec.field(default="", name="APIVersion")
    name: str = msgspec.field(default="", name="Name")
    namespace: str = msgspec.field(default="", name="Namespace")
    uid: str = msgspec.field(default="", name="UID")
    resource_version: str = msgspec.field(default="", name="ResourceVersion")

    def of(self) -> Regarding:
        return Regarding(self.kind, self.api_version, self.namespace, self.name, self.uid, self.resource_version)


class _Event(msgspec.Struct, frozen=True):
    regarding: _Reference | None = msgspec.field(default=None, name="RegardingReference")
    related: _Reference | None = msgspec.field(default=None, name="RelatedReference")
    type: str = msgspec.field(default="", name="Eventtype")
    reason: str = msgspec.field(default="", name="Reason")
    action: str = msgspec.field(default="", name="Action")
    note: str = msgspec.field(default="", name="Note")


_decode_event = json_decoder(_Event)
