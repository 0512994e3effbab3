"""Reads sampled stacks from folded text, and groups them by function and by stage of a pod's way.

A folded line is `outermost;...;innermost count`, and a frame is `name (file:line)`, as py-spy writes them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Stack: TypeAlias = tuple[str, ...]  # frames, the outermost first
Stacks: TypeAlias = Mapping[Stack, int]  # stack -> how often it was seen

EVENT_LOOP = "event loop"
OTHER = "other"

# Part of a pod's way -> the frames that belong to it. The innermost frame that belongs somewhere decides, so what a
# part calls is its own. Frames that match nothing (the cache's table, labels, the standard library) count for their
# caller's part. Where a frame matches twice, the first counts.
PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (part, re.compile(pattern))
    for part, pattern in (
        ("garbage collector", r"^gc_collect|^_?PyGC_Collect"),
        (
            "decode, informer",
            r"kscheduler/(api/(decode|pod_texts|sharing|documents|defaults)|watch/watches|input/decoding"
            r"|client/(informer|wire|line_streams|http_lines|watch_dedup))\b",
        ),
        ("event handlers", r"kscheduler/watch/(eventhandlers|volume_events)\b"),
        (
            "events",
            r"kscheduler/client/(recorder|event_queue)\b|^(ScheduleOne\.)?_(record_event|report_not_scheduled) ",
        ),
        ("metrics", r"kscheduler/observability/(metrics|measurements)\b|\(prometheus_client/"),
        ("queue", r"kscheduler/queue/"),
        ("assume", r"^(Cache\.)?(assume|finish_binding|forget) \(kscheduler/cache/|^(ScheduleOne\.)?_hold "),
        (
            "bind",
            r"kscheduler/client/(binder|bind_lane|bind_tries|binding_writer|write_permission|slots|adaptive_limit|concurrency)\b"
            r"|kscheduler/cycle/(binding_tasks|bindings)\b"
            r"|/defaultbinder\b"
            r"|^(ScheduleOne\.)?(_?bind|_bound|_not_bound|direct_binding|finish_binding|_conclude|_prepare"
            r"|_pre_flight|_wait_on_permit|settle|settle_placed) \(kscheduler/cycle/schedule_one"
            r"|^(Scheduler\.)?(_dispatch|_bind) \(kscheduler/scheduler",
        ),
        ("explanations", r"kscheduler/explain/"),
        (
            "decide",
            r"kscheduler/(framework|extenders)/|kscheduler/(cycle/(schedule_one|schedule_batch)|scheduler)\b"
            r"|kscheduler/_fast/(?!columns)",
        ),
        ("logs", r"kscheduler/observability/logs\b|\(logging/"),
        ("simulated cluster", r"kscheduler/(simulator|testing)/"),
        ("measuring", r"\((perf|tests)/(?!profile_load)|_in_profile \("),
    )
)
# Those that belong to nobody nearer.
LEFT_OVER = (
    ("sockets, TLS", re.compile(r"\((libssl|libcrypto|_ssl\.c|ssl\.py|stream\.c)|SSLProtocol")),
    ("requests", re.compile(r"kscheduler/client/|\(aiohttp/")),
)
# uvloop's C file is called loop.c, libuv's are core.c, linux.c and loop-watcher.c.
_LOOP = re.compile(r"\((asyncio/(runners|base_events|events|unix_events)\.py|uvloop/|loop\.c)")
_PLUMBING = re.compile(
    r"\((asyncio/(runners|base_events|events|unix_events)\.py|uvloop/|_asynciomodule|libpython|libc\.so"
    r"|(loop|core|linux|loop-watcher|context)\.c|(object|queue)\.h)"
)
_WAITING = re.compile(r"^(epoll_p?wait2?|p?select(64)?|p?poll|kevent|pthread_cond_(timed)?wait|futex_wait)\b")
_ADDRESS = re.compile(r"^0x[0-9a-f]+ ")
_LINE = re.compile(r":\d+\)$")


def parse(lines: Iterable[str]) -> Counter[Stack]:
    """Read folded lines, without those that wait for something. ValueError, with its number, if one is not folded."""
    found: Counter[Stack] = Counter()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        frames, _, count = line.rstrip().rpartition(" ")
        if not frames or not count.isdigit():
            raise ValueError(f"line {number}: expected `frame;frame count`, got {line.rstrip()[:80]!r}")
        stack = tuple(frames.split(";"))
        if not _WAITING.search(stack[-1]):
            found[stack] += int(count)
    return found


def fold(stacks: Stacks) -> str:
    """The text that `parse` reads."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def functions(stacks: Stacks) -> Counter[Stack]:
    """Without line numbers, addresses, and what is outside of the event loop: one frame for each function."""
    found: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        found[tuple(_function(frame) for frame in _inside_loop(stack))] += count
    return found


def _function(frame: str) -> str:
    return _LINE.sub(")", _ADDRESS.sub("? ", frame))


def _inside_loop(stack: Stack) -> Stack:
    """From the loop's callback on. The loop's own work is a frame, too."""
    start = next((i for i, frame in enumerate(stack) if _LOOP.search(frame)), None)
    if start is None:
        return stack
    while start < len(stack) and _PLUMBING.search(stack[start]):
        start += 1
    return (EVENT_LOOP, *stack[start:])


def exclusive(stacks: Stacks) -> Counter[str]:
    """Innermost frame -> how often it was seen."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[stack[-1]] += count
    return found


def inclusive(stacks: Stacks) -> Counter[str]:
    """Frame -> in how many samples it was on the stack, however often in each."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        for frame in set(stack):
            found[frame] += count
    return found


def by_part(stacks: Stacks) -> Counter[str]:
    """Part -> samples."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[part_of(stack)] += count
    return found


def part_of(stack: Stack) -> str:
    """To which part of a pod's way a sample belongs."""
    for known in (PARTS, LEFT_OVER):
        for frame in reversed(stack):
            for part, pattern in known:
                if pattern.search(frame):
                    return part
    return EVENT_LOOP if any(frame == EVENT_LOOP or _LOOP.search(frame) for frame in stack) else OTHER
