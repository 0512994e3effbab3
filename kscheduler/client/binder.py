"""Writes each binding until its outcome is certain.

A binding whose answer was lost may have been carried out. Giving up the pod's place then could overcommit the node, and
trying another node could bind twice. So the same binding is written again until the apiserver gives a definite answer
about it: it was written, or the pod is already bound, deleted or replaced by another pod of its name. A refusal that
has nothing to do with the pod (a token that is not accepted yet, RBAC rules that are not loaded, a load balancer's
error page) decides nothing, because it does not show what became of the earlier request. Writing twice does no harm
thanks to the uid precondition and because a bound pod cannot be bound again.

An unexpected exception of this program during a request leaves the same doubt; then the pod is read.

A request whose answer is overdue (the client decides when) is not waited for: another one is sent besides, and the
first definite answer counts, no matter to which request it belongs.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from typing import NamedTuple

from kscheduler.client.bind_tries import Bug, Overdue, Tries, Try
from kscheduler.client.concurrency import cancel_and_wait, within
from kscheduler.client.fault_log import FaultLog
from kscheduler.client.protocol import Binding, BindTry, Client
from kscheduler.client.write_permission import NOT_BOUND, WritePermission
from kscheduler.errors import APIError, Conflict, NotFound, NotLeading, Unreachable
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.5  # an apiserver that is back is asked within 3 s, jitter and the request's own time included
LONGEST_OBEYED_S = 10.0  # of a Retry-After; who asks for more is asked again
# Tries of one binding without an answer: where one apiserver of three hangs, all four meet it once in eighty bindings.
MOST_AT_ONCE = 4
FIRST_LOOK_S = 2.0  # allowed for the pod to be read; twice as long each time, up to what any request may take
LONGEST_LOOK_S = 30.0


class Found(enum.Enum):
    """What a read of the pod from the apiserver shows about a binding whose outcome is not known."""

    BOUND = enum.auto()
    UNBOUND = enum.auto()  # now: a try under way may still change that
    IMPOSSIBLE = enum.auto()  # no try can bind it any more: gone, another pod, on another node, or being deleted
    UNKNOWN = enum.auto()


class Look(NamedTuple):
    found: Found
    error: APIError | None = None  # why it is impossible or unknown


class Binder:
    """Writes bindings through a client until they are certain. Cancelling a call leaves the outcome unknown."""

    def __init__(self, client: Client, rng: random.Random, permission: WritePermission | None = None) -> None:
        self._client = client
        self._rng = rng
        self.permission = permission or WritePermission()
        self._faults = FaultLog(log)

    async def bind_pod(self, pod: PodInfo, node_name: str) -> None:
        """Bind the pod to the node: return when it is bound there, raise an APIError when it certainly is not."""
        metadata = pod.pod.metadata
        await self.bind(Binding(metadata.namespace, metadata.name, metadata.uid, node_name))

    async def bind(self, binding: Binding, tries: Tries | None = None) -> None:
        """Return when the pod is bound to that node; raise an APIError when it certainly is not.

        Raises NotLeading once this replica may not write any more; the outcome is unknown if an earlier request is in
        doubt. `tries` are requests for this binding that were already sent.
        """
        tries = tries or Tries()
        tasks: set[asyncio.Task[None]] = set()
        try:
            await self._decide(binding, tries, tasks)
        finally:
            await cancel_and_wait(*tasks)

    async def _decide(self, binding: Binding, tries: Tries, tasks: set[asyncio.Task[None]]) -> None:
        pause_s, look_s = FIRST_PAUSE_S, FIRST_LOOK_S
        is_logged = False
        if not tries.has_begun:
            self._begin(binding, tries, tasks)
        while True:
            # 1. What became of a try?
            outcome = await tries.next()
            if outcome is None:
                return
            wait_s = pause_s * self._rng.uniform(0.5, 1.5)
            is_refused = False
            if not isinstance(outcome, Overdue):
                is_refused = outcome.is_failed_admission
                # 2. It may be definite, or a look at the pod is.
                look = await self._judge(binding, outcome, tries, look_s)
                if look.found is Found.BOUND:
                    return
                if look.found is Found.UNKNOWN:
                    look_s = min(2 * look_s, LONGEST_LOOK_S)
                wait_s = min(outcome.retry_after_s or wait_s, LONGEST_OBEYED_S)
            if not is_logged:
                is_logged = True
                log.warning(
                    "the outcome of a binding is not known; it is written again until it is",
                    extra={"pod": f"{binding.namespace}/{binding.name}", "node": binding.node, "err": str(outcome)},
                )
            # 3. Another try, unless there is news meanwhile, or a try that may be answered at any moment.
            if tries.fresh or tries.open >= MOST_AT_ONCE or await tries.has_news_within(wait_s):
                continue
            # Behind a webhook that hangs, all open ones end so, and then it is certain that none was carried out.
            if is_refused and tries.open:
                continue
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            self._begin(binding, tries, tasks)

    def _begin(self, binding: Binding, tries: Tries, tasks: set[asyncio.Task[None]]) -> None:
        self.permission.check(NOT_BOUND)
        is_repeat = tries.in_doubt
        one = tries.begin()
        task = asyncio.get_running_loop().create_task(self._try(binding, one, is_repeat))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _try(self, binding: Binding, one: Try, is_repeat: bool) -> None:
        attempt = BindTry(self.permission.may_write, one.is_late, is_repeat)
        try:
            await self._client.bind(binding, attempt)
        except APIError as error:
            one.ended(error)
        except Exception as bug:
            self._report("a fault of the program while a binding was written", bug, binding)
            one.failed(bug)
        else:
            one.ended(None)

    async def _judge(self, binding: Binding, error: APIError, tries: Tries, look_s: float) -> Look:
        """Decide what a failed request means: return what is known of the pod, read if necessary, or raise the error.

        An error is raised if it is definite.
        """
        if isinstance(error, NotLeading):
            raise error
        # Writing again settles what the network or the apiserver did; a fault of our own may happen each time.
        if error.is_transient and not isinstance(error, Bug) and not error.is_failed_admission:
            return Look(Found.UNBOUND, error)
        if not tries.in_doubt:
            raise error
        look = await self._look(binding, look_s)
        if look.found is Found.IMPOSSIBLE:
            raise error if isinstance(error, Conflict) else look.error or error
        return look

    async def is_bound_as_asked(self, binding: Binding) -> bool:
        """Return True if the pod is bound as this binding asks. Reads the pod until the apiserver answers.

        Raises NotLeading once this replica may not write any more.
        """
        pause_s, look_s = FIRST_PAUSE_S, FIRST_LOOK_S
        while (look := await self._look(binding, look_s)).found is Found.UNKNOWN:
            if pause_s == FIRST_PAUSE_S:
                fields = {"pod": f"{binding.namespace}/{binding.name}", "node": binding.node, "err": str(look.error)}
                log.warning(
                    "the apiserver does not say whether a pod is bound; it is asked until it does", extra=fields
                )
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.5))
            self.permission.check(NOT_BOUND)
            pause_s, look_s = min(pause_s * 2, LONGEST_PAUSE_S), min(look_s * 2, LONGEST_LOOK_S)
        return look.found is Found.BOUND

    async def _look(self, binding: Binding, timeout_s: float) -> Look:
        """Read the pod once, and compare it with the binding."""
        try:
            pod = await within(timeout_s, self._client.get_pod(binding.namespace, binding.name))
        except TimeoutError:
            return Look(Found.UNKNOWN, Unreachable(f"the pod could not be read within {timeout_s:g} s"))
        except NotFound as error:
            # A server that has no such path answers 404 as well, but without the reason that the apiserver gives.
            return Look(Found.IMPOSSIBLE if error.reason == "NotFound" else Found.UNKNOWN, error)
        except APIError as error:
            return Look(Found.UNKNOWN, error)
        except Exception as bug:
            self._report("a fault of the program while a pod was read", bug, binding)
            return Look(Found.UNKNOWN, Bug(f"a fault of the program: {type(bug).__name__}"))
        metadata, node = pod.metadata, pod.spec.node_name
        if (metadata.namespace, metadata.name) != (binding.namespace, binding.name) or not metadata.uid:
            return Look(Found.UNKNOWN, APIError("the answer is not the pod that was asked for"))
        if metadata.uid != binding.uid:
            return Look(Found.IMPOSSIBLE, _conflict(binding, f"is another one now, with uid {metadata.uid}"))
        if node == binding.node:
            return Look(Found.BOUND)
        if node:
            return Look(Found.IMPOSSIBLE, _conflict(binding, f"is bound to node {node}"))
        if metadata.deletion_timestamp is not None:
            return Look(Found.IMPOSSIBLE, _conflict(binding, "is being deleted"))
        return Look(Found.UNBOUND)

    def _report(self, message: str, bug: Exception, binding: Binding) -> None:
        self._faults.report(message, bug, namespace=binding.namespace, name=binding.name, uid=binding.uid)


def _conflict(binding: Binding, what: str) -> Conflict:
    return Conflict(f"pod {binding.namespace}/{binding.name} {what}", status=409, reason="Conflict")
