from array import array

from kscheduler._fast.columns import NodeColumns, PodRequest
from kscheduler._fast.verdicts import Verdicts

def filter_profiles(
    columns: NodeColumns, verdicts: Verdicts, verdict_by_profile: bytes | bytearray | array[int], code: int
) -> int: ...
def filter_fit(columns: NodeColumns, verdicts: Verdicts, request: PodRequest, code: int) -> int: ...
