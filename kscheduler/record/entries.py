"""Defines the entries of a record, one JSON object per line, and their order.

1. A `Header`.  2. A `Change` of type ADDED for every object that exists.  3. `Synced`.  4. A `Change` for each change
after that, in the order in which the watches reported them.  5. `End`, unless the recorder was killed.

A record that a running scheduler writes of itself (`kscheduler run --record`) has a `Start` after the header, and holds
everything that the scheduler's decisions depend on, in the order in which it took part: changes as above, and the
entries `Woken`, `Divided`, `Decided`, `Written`, `Resumed`, `Retried` and `Answered`. The decisions are in `Decided`.

A `Mark` is written whenever the entries so far are flushed to the file. It has the digest of all lines before it, so
that a reader can distinguish a record that was modified or damaged from one that was cut off. The lines are compressed
with zstd: `zstd -dc FILE` prints them.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 3  # newest format number; raised by each change that older readers would misread
OBJECTS_ONLY: Final = 1  # format number of records without the entries of a running scheduler

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Entry(msgspec.Struct, frozen=True, tag_field="entry", rename="camel", omit_defaults=True):
    """The base class of all entries."""


class Header(Entry, frozen=True, tag="header"):
    """Says where a record comes from.

    Each file of a record begins with a header, and can be read without the other files.
    """

    format: int
    version: str  # version of the program that wrote the record
    started: float  # Unix time in seconds; `at` of the entries counts from here
    part: int = 1
    configuration: str = ""  # KubeSchedulerConfiguration as YAML, without secrets; "": not known
    emulated_version: str = ""  # release of Kubernetes whose kube-scheduler decided, such as "1.37"; "": not known
    feature_gates: dict[str, bool] = {}  # those that are not as the release has them by default


class Change(Entry, frozen=True, tag="change"):
    """A new version of an object, or the last version of a deleted object."""

    at: float  # seconds since `Header.started`
    resource: str  # plural name, such as "pods"
    type: ChangeType  # the watch event's type
    object: msgspec.Raw


class Synced(Entry, frozen=True, tag="synced"):
    """Says that all objects that existed when recording began have been listed before this line."""

    at: float


class Mark(Entry, frozen=True, tag="mark"):
    """The SHA-256 digest of all lines before this one, in hexadecimal."""

    digest: str


class End(Entry, frozen=True, tag="end"):
    """Says that recording ended in an orderly way, so that nothing is missing."""

    at: float


class Start(Entry, frozen=True, tag="start"):
    """Says what a scheduler's decisions depend on besides its configuration."""

    clock: int  # the scheduler's clock at `Header.started`, in microseconds
    wall: int  # what is to be added to the scheduler's clock to get Unix time, in microseconds
    seed: int  # of all random numbers that decisions use
    first_on_tie: bool
    compiled_lane: bool
    max_in_unschedulable: float  # seconds
    assumed_pod_ttl: float  # seconds; 0: none


class Failure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An exception that a request or a task ended with."""

    type: str  # name of the class
    message: str = ""
    status: int = 0  # HTTP status, of an APIError
    reason: str = ""  # of an APIError


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Something that was begun and awaited: a request to the apiserver, a task, or a wait."""

    ticket: int  # numbers all requests in order
    verb: str
    subject: str  # uid of a pod, or name of a volume or claim; "" if there is none


class Decision(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one scheduling attempt came to: a node, or the reasons against all nodes."""

    uid: str
    pod: str  # namespace/name
    attempt: int
    profile: str
    node: str = ""  # "": none
    feasible: int = 0  # number of feasible nodes
    code: str = ""  # of the rejection, such as "Unschedulable"
    reason: str = ""
    plugins: tuple[str, ...] = ()  # that rejected the pod
    pending: tuple[str, ...] = ()  # plugins that rejected it, and may accept it without backoff
    nominated: str | None = None  # node that the pod is nominated to; "": none any more; None: as before
    victims: tuple[str, ...] = ()  # uids of the pods that are to be preempted


class Woken(Entry, frozen=True, tag="woken"):
    """Pods of the queue were moved whose backoff or waiting time was over."""

    at: float
    wall: int | None = None  # new value of `Start.wall`; None: as before


class Divided(Entry, frozen=True, tag="divided"):
    """The fair shares of queues were looked at, and pods that they help were made active."""

    at: float


class Decided(Entry, frozen=True, tag="decided"):
    """Pods were taken off the queue together and tried, in this order."""

    at: float
    most: int  # at most so many were to be taken
    decisions: tuple[Decision, ...] = ()
    requests: tuple[Request, ...] = ()


class Written(Entry, frozen=True, tag="written"):
    """The outcome of a pod's binding became known."""

    at: float
    uid: str
    error: Failure | None = None  # None: the pod is bound


class Resumed(Entry, frozen=True, tag="resumed"):
    """A task went on, because what it awaited was ready."""

    at: float
    ticket: int  # of the request that it had awaited
    value: msgspec.Raw = msgspec.Raw(b"null")  # the result
    error: Failure | None = None  # None: no error
    requests: tuple[Request, ...] = ()  # that it made before it waited again, or ended


class Retried(Entry, frozen=True, tag="retried"):
    """A pod whose binding the apiserver had refused was made active again."""

    at: float


class Answered(Entry, frozen=True, tag="answered"):
    """The apiserver reported how the bound member of a gang ended that left first of those not asked about before."""

    at: float
    succeeded: bool


Readable = Change | Synced | Start | Woken | Divided | Decided | Written | Resumed | Retried | Answered  # for readers
AnyEntry = Header | Mark | End | Readable
