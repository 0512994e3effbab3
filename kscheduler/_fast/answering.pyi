from kscheduler._fast.classes import PodClass
from kscheduler._fast.joining import Joiner

def join_answers(
    joiner: Joiner,
    pod_class: PodClass,
    marks: bytes | bytearray | memoryview | None,
    values: bytes | bytearray | memoryview | None,
    weight: int,
    how: int,
) -> int | None: ...
